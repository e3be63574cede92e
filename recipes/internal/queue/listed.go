package queue

import (
	"context"
	"errors"
	"slices"
	"sync"

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
func (w *waiter) awaitListed(ctx context.Context, children, names []string, changed <-chan struct{}) error {
	if w.mayLookAhead(names) {
		return w.lookAhead(ctx, children, changed)
	}
	for {
		set, err := w.queue.watchAll(ctx, names)
		if err != nil {
			return err
		}
		if set == nil {
			return w.missing(children, names)
		}
		deleted, err := w.sleepUntil(ctx, set, nil, changed)
		if err != nil || deleted || wait.Closed(changed) {
			return err
		}
		// The connection was lost, or somebody wrote to the node: watch the nodes again. The queue ahead of us
		// has not changed.
	}
}

// mayLookAhead reports whether nodes ahead of ours can only be deleted, and our predecessor is the only one that we wait
// for. A driver other than Standard may let others get ahead, as a writer does with its reader, and so does the server when
// the numbers overflow. See "The only one ahead" in docs/PROTOCOL.md.
func (w *waiter) mayLookAhead(names []string) bool {
	_, standard := w.queue.driver.(Standard)
	return standard && len(names) == 1 && !nearEnd(w.path)
}

// lookAhead is for a waiter in a queue that was listed after our create. If one node is ahead, it waits for that one. When
// that is deleted, and our node is still there, we are first, and w.known is what a list would show. If more are ahead, it
// waits for the one before our predecessor: then the next list, while the predecessor holds, shows that one alone.
//
// It returns when the queue must be looked at again.
func (w *waiter) lookAhead(ctx context.Context, children []string, changed <-chan struct{}) error {
	i := max(w.ahead-2, 0)
	for !wait.Closed(changed) {
		// Our node first: an event about it comes before that of a later deletion.
		if err := w.watchOwn(ctx); err != nil {
			return err
		}
		set, err := w.queue.watchAll(ctx, children[i:i+1])
		deleted := set == nil
		if err == nil && !deleted {
			deleted, err = w.sleepUntil(ctx, set, w.own.Done(), changed)
		}
		if err != nil {
			return err
		}
		if deleted {
			if w.ahead == 1 && !wait.Closed(w.own.Done()) {
				w.known = children[1:]
			}
			return nil
		}
	}
	return nil
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

// sleepUntil is sleep until a watch of set fires. It reports whether one of the nodes is deleted, or may be.
func (w *waiter) sleepUntil(ctx context.Context, set *watchSet, also, changed <-chan struct{}) (deleted bool, err error) {
	awake := make(chan struct{})
	defer close(awake)
	if err := w.sleep(ctx, set.fired(awake), also, changed); err != nil {
		return false, err
	}
	return set.gone(), nil
}

// watchSet are watches on several nodes.
type watchSet struct {
	watches []*framework.Watch
}

// maxWatched is how many nodes are watched one by one. To wait for one of more nodes, one watch on their parent
// is cheaper, although it fires for new nodes too.
const maxWatched = 4

// watchAll watches nodes. It returns nil if one of them is deleted already.
func (q *Queue) watchAll(ctx context.Context, names []string) (*watchSet, error) {
	if len(names) > maxWatched {
		watch, err := q.watchList(ctx, names)
		if watch == nil {
			return nil, err
		}
		return &watchSet{[]*framework.Watch{watch}}, nil
	}
	set := &watchSet{}
	for _, name := range names {
		// Not exists: that would leave a watch behind on a node that is gone.
		_, _, watch, err := q.client.GetW(ctx, framework.Join(q.base, name))
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		set.watches = append(set.watches, watch)
	}
	return set, nil
}

// watchList watches the list of children. It returns nil if one of names is not in it.
func (q *Queue) watchList(ctx context.Context, names []string) (*framework.Watch, error) {
	children, _, watch, err := q.client.ChildrenW(ctx, q.base)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	there := make(map[string]bool, len(children))
	for _, child := range children {
		there[child] = true
	}
	if slices.ContainsFunc(names, func(name string) bool { return !there[name] }) {
		return nil, nil
	}
	return watch, nil
}

// fired is closed when one of the watches fires, unless stop is closed before.
func (s *watchSet) fired(stop <-chan struct{}) <-chan struct{} {
	if len(s.watches) == 1 {
		return s.watches[0].Done()
	}
	fired := make(chan struct{})
	var once sync.Once
	for _, w := range s.watches {
		go func() { // ends with the first watch that fires, or with stop
			select {
			case <-w.Done():
				once.Do(func() { close(fired) })
			case <-fired:
			case <-stop:
			}
		}()
	}
	return fired
}

// gone reports whether one of the nodes is deleted, or may be.
func (s *watchSet) gone() bool {
	return slices.ContainsFunc(s.watches, func(w *framework.Watch) bool {
		return w.Event().Type == zk.EventNodeDeleted || w.Event().Type == zk.EventNodeChildrenChanged
	})
}
