package queue

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
)

// The picture of the queue without a view: what lists and watches have shown since our node was created.

// lookListed returns the children of the lock, in order.
func (w *waiter) lookListed(ctx context.Context) (children []string, err error) {
	children, w.known = w.known, nil
	if !slices.Contains(children, w.Name()) {
		if children, err = w.queue.list(ctx); err != nil {
			return nil, err
		}
	}
	if !slices.Contains(children, w.Name()) {
		return nil, &nodeLost{ErrNodeDeleted}
	}
	return children, nil
}

// awaitListed is await without a view.
//
// If nodes ahead can only be deleted, and one is, it waits for that one. When that is deleted, and our node is still there, we are
// first, and w.known is what a list would show. If more are ahead, it waits for the one before our predecessor: then the next list,
// while the predecessor holds, shows that one alone.
func (w *waiter) awaitListed(ctx context.Context, children, names []string, changed <-chan struct{}) error {
	lookAhead := w.mayLookAhead(names)
	if lookAhead {
		names = children[max(w.ahead-2, 0):][:1]
	}
	for !wait.Closed(changed) {
		var fired []<-chan struct{}
		if lookAhead {
			// Our node first: an event about it comes before that of a later deletion.
			if err := w.watchOwn(ctx); err != nil {
				return err
			}
			fired = append(fired, w.own.Done())
		}
		watches, err := w.queue.watchAll(ctx, names)
		if err != nil {
			return err
		}
		if watches == nil {
			err = w.missing(children, names)
		} else {
			for _, watch := range watches {
				fired = append(fired, watch.Done())
			}
			err = w.sleep(ctx, changed, fired...)
		}
		if err != nil {
			return err
		}
		if watches == nil || slices.ContainsFunc(watches, deleted) {
			if lookAhead && w.ahead == 1 && !wait.Closed(w.own.Done()) {
				w.known = children[1:]
			}
			return nil
		}
		// The connection was lost, or somebody wrote to the node: watch the nodes again. The queue ahead of us
		// has not changed.
	}
	return nil
}

// mayLookAhead reports whether nodes ahead of ours can only be deleted, and our predecessor is the only one that we wait for. A driver
// other than Standard may let others get ahead, as a writer does with its reader, and so does the server when the numbers
// overflow. See "The only one ahead" in docs/PROTOCOL.md.
func (w *waiter) mayLookAhead(names []string) bool {
	_, standard := w.queue.driver.(Standard)
	return standard && len(names) == 1 && !nearEnd(w.path)
}

// watchOwn watches our node, unless a watch is there. The error is a nodeLost if the node was deleted.
func (w *waiter) watchOwn(ctx context.Context) error {
	if w.own != nil && !wait.Closed(w.own.Done()) {
		return nil
	}
	_, _, own, err := w.queue.client.GetW(ctx, framework.Join(w.queue.base, w.Name()))
	if errors.Is(err, zk.ErrNoNode) {
		return &nodeLost{ErrNodeDeleted}
	}
	w.own = own
	return err
}

// checkReadable watches our node if its ACL does not show that we may read it: servers report the end of a node only to those
// who may. The error is zk.ErrNoAuth for all others.
func (w *waiter) checkReadable(ctx context.Context) error {
	q := w.queue
	acl := engine.Of(q.client).ACL(framework.Join(q.base, q.name))
	if slices.ContainsFunc(acl, func(a zk.ACL) bool { return a.Perms&zk.PermRead != 0 && (a.Scheme == "world" || a.Scheme == "auth") }) {
		return nil
	}
	return w.watchOwn(ctx)
}

// maxWatched is how many nodes are watched one by one. To wait for one of more nodes, one watch on their parent
// is cheaper, although it fires for new nodes too.
const maxWatched = 4

// watchAll watches nodes. It returns nil if one of them is deleted already.
func (q *Queue) watchAll(ctx context.Context, names []string) ([]*framework.Watch, error) {
	if len(names) > maxWatched {
		return q.watchList(ctx, names)
	}
	var watches []*framework.Watch
	for _, name := range names {
		// Not exists: that would leave a watch behind on a node that is gone.
		_, _, watch, err := q.client.GetW(ctx, framework.Join(q.base, name))
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		watches = append(watches, watch)
	}
	return watches, nil
}

// watchList watches the list of children. It returns nil if one of names is not in it.
func (q *Queue) watchList(ctx context.Context, names []string) ([]*framework.Watch, error) {
	children, _, watch, err := q.client.ChildrenW(ctx, q.base)
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

// deleted reports whether the node that is watched is deleted, or one of its children may be.
func deleted(w *framework.Watch) bool {
	return w.Event().Type == zk.EventNodeDeleted || w.Event().Type == zk.EventNodeChildrenChanged
}
