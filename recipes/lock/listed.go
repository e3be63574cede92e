package lock

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/locking"
)

// listed is how a waiter knows who is ahead, from lists and watches.
type listed struct {
	node    *node
	one     bool                        // watch only the nodes that the driver names
	known   []string                    // the children that belong to the lock; nil: list them
	watches map[string]*framework.Watch // by the name of the node: the own one, and some ahead
}

// children returns the children of the lock, in order, as they were at an instant after the
// create of the waiter's node, which is one of them. The error is a NodeLost if it is not.
func (p *listed) children(ctx context.Context) (children []string, err error) {
	children, p.known = p.known, nil
	if !slices.Contains(children, p.node.Name()) {
		if children, err = p.node.queue.list(ctx, p.node.client); err != nil {
			return nil, err
		}
	}
	if !slices.Contains(children, p.node.Name()) {
		return nil, &locking.NodeLost{Cause: ErrNodeDeleted}
	}
	return children, nil
}

// wait returns when the queue must be looked at again: one of the watched nodes was deleted, or
// another reason to wake has come. An error means that waiting is useless.
//
// If nodes ahead can only be deleted, and one is, it waits for that one. When that is deleted, and
// the own node still exists, the own node is first, and known is what a list would show. If more
// are ahead, it waits for the node before the predecessor, and prepares for the predecessor while
// that holds: then it is the only one ahead. See "The only one ahead" in docs/PROTOCOL.md.
func (p *listed) wait(ctx context.Context, children, names []string, other wakes) error {
	ahead := slices.Index(children, p.node.Name())
	lookAhead, watched := p.mayLookAhead(names), names
	if lookAhead {
		names = children[max(ahead-2, 0):][:1]
		watched = []string{names[0], p.node.Name()}
	}
	if lookAhead && ahead > 2 { // there is time for one request after the other, on this goroutine
		if _, err := p.watch(ctx, watched[1:]); err != nil {
			return err
		}
	}
	for !wait.Closed(other.changed) {
		watches, err := p.waitFor(ctx, watched, other)
		if err == nil && watches == nil {
			err = p.node.missing(children, names)
		}
		if err != nil {
			return err
		}
		if watches == nil || slices.ContainsFunc(watches, hasFired) {
			switch {
			case lookAhead && ahead > 1:
				p.prepare(ctx, children[ahead-1])
			case lookAhead && !wait.Closed(p.watches[p.node.Name()].Done()):
				p.known = children[1:]
			}
			return nil
		}
		// The connection was lost, or another client wrote to the node: watch the nodes again. The
		// queue ahead has not changed.
	}
	return nil
}

// waitFor watches nodes, and returns when one of the watches has ended, or another reason to wake has
// come. It returns nil if one of the nodes is deleted already.
func (p *listed) waitFor(ctx context.Context, names []string, other wakes) ([]*framework.Watch, error) {
	watches, err := p.watchAll(ctx, names)
	if err != nil || watches == nil {
		return nil, err
	}
	var fired []<-chan struct{}
	for _, watch := range watches {
		fired = append(fired, watch.Done())
	}
	return watches, other.wait(ctx, fired...)
}

// prepare lists, and watches the predecessor at the same time. What fails is done again when it is
// needed.
func (p *listed) prepare(ctx context.Context, predecessor string) {
	answer := start(func() []string { // ends with its request
		all, _ := p.node.queue.listAll(ctx, p.node.client)
		return all
	})
	_, _ = p.watch(ctx, []string{predecessor})
	p.known, _ = p.node.queue.sort(answer())
}

// mayLookAhead reports whether nodes ahead can only be deleted, and the predecessor is the only one
// to wait for. A driver other than Standard may let others get ahead, as a writer does with its
// reader, and so does the server when the numbers overflow. With a lock delay only a list shows the
// mark of a predecessor that has died. A waiter for news saves the watch on its own node.
func (p *listed) mayLookAhead(names []string) bool {
	q := p.node.queue
	return isStandard(q.driver) && q.cfg.delay == 0 && len(names) == 1 && !p.one && !nearEnd(p.node.path)
}

// checkReadable watches the own node if its ACL does not show that this client may read it: servers
// report the end of a node only to clients that may. The error is zk.ErrNoAuth for all others.
func (p *listed) checkReadable(ctx context.Context) error {
	q := p.node.queue
	acl := engine.Of(q.client).ACL(framework.Join(q.path, q.name))
	if slices.ContainsFunc(acl, func(a zk.ACL) bool { return a.Perms&zk.PermRead != 0 && (a.Scheme == "world" || a.Scheme == "auth") }) {
		return nil
	}
	_, err := p.watch(ctx, []string{p.node.Name()})
	return err
}

// watchAll watches nodes, or the list of children if there are many, or marks, which this client
// may be unable to read. It returns nil if one of them is deleted already.
func (p *listed) watchAll(ctx context.Context, names []string) ([]*framework.Watch, error) {
	if _, isMark := parseMark(names[0]); isMark || len(names) > maxWatched {
		return p.watchList(ctx, names)
	}
	return p.watch(ctx, names)
}

// watch watches nodes, all at once, unless it has a watch of them. It returns nil if one of them is
// deleted already, and a NodeLost if that is the own one.
func (p *listed) watch(ctx context.Context, names []string) ([]*framework.Watch, error) {
	watches, errs := make([]*framework.Watch, len(names)), make([]error, len(names))
	var missing []int // of those there is no watch
	for i, name := range names {
		watches[i] = p.watches[name]
		if w := watches[i]; w == nil || !hasFired(w) && wait.Closed(w.Done()) {
			missing = append(missing, i)
		}
	}
	together(len(missing), func(m int) {
		// Not exists: that would leave a watch behind on a node that is gone.
		i := missing[m]
		_, _, watches[i], errs[i] = p.node.client.GetW(ctx, framework.Join(p.node.queue.path, names[i]))
	})
	if p.watches == nil {
		p.watches = make(map[string]*framework.Watch)
	}
	gone := false
	for i, name := range names {
		switch {
		case errs[i] == nil:
			p.watches[name] = watches[i]
		case errors.Is(errs[i], zk.ErrNoNode) && name == p.node.Name():
			return nil, &locking.NodeLost{Cause: ErrNodeDeleted}
		case errors.Is(errs[i], zk.ErrNoNode):
			gone, errs[i] = true, nil
		}
	}
	if err := cmp.Or(errs...); err != nil || gone {
		return nil, err
	}
	return watches, nil
}

// watchList watches the list of children. It returns nil if one of names is not in it.
func (p *listed) watchList(ctx context.Context, names []string) ([]*framework.Watch, error) {
	children, _, watch, err := p.node.client.ChildrenW(ctx, p.node.queue.path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	slices.Sort(children)
	for _, name := range names {
		if _, found := slices.BinarySearch(children, name); !found {
			return nil, nil
		}
	}
	return []*framework.Watch{watch}, nil
}

// hasFired reports whether the watched node is deleted, or one of its children may be.
func hasFired(w *framework.Watch) bool {
	return w.Event().Type == zk.EventNodeDeleted || w.Event().Type == zk.EventNodeChildrenChanged
}
