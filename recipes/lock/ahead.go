package lock

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
)

// Waiting without a view.

// awaitListed is await without a view.
func (e *entry) awaitListed(ctx context.Context, children, names []string, changed <-chan struct{}) error {
	if e.mayLookAhead(names) {
		return e.lookAhead(ctx, children, changed)
	}
	for {
		set, err := e.queue.watchAll(ctx, names)
		if err != nil {
			return err
		}
		if set == nil {
			return e.gone(children, names)
		}
		deleted, err := e.sleepUntil(ctx, set, nil, changed)
		if err != nil || deleted || isClosed(changed) {
			return err
		}
		// The connection was lost, or somebody wrote to the node: watch the nodes again. The queue ahead of us
		// has not changed.
	}
}

// mayLookAhead reports whether nodes ahead of ours can only be deleted, and our predecessor is the only one that we wait
// for. A driver other than Standard may let others get ahead, as a writer does with its reader, and so does the server when
// the numbers overflow. See "The only one ahead" in docs/PROTOCOL.md.
func (e *entry) mayLookAhead(names []string) bool {
	_, standard := e.queue.driver.(Standard)
	return standard && len(names) == 1 && !nearEnd(e.path)
}

// lookAhead is for a waiter in a queue that was listed after our create. If one node is ahead, it waits for that one. When
// that is deleted, and our node is still there, we are first, and e.known is what a list would show. If more are ahead, it
// waits for the one before our predecessor: then the next list, while the predecessor holds, shows that one alone.
//
// It returns when the queue must be looked at again.
func (e *entry) lookAhead(ctx context.Context, children []string, changed <-chan struct{}) error {
	i := max(e.ahead-2, 0)
	for !isClosed(changed) {
		// Our node first: an event about it comes before that of a later deletion.
		if err := e.watchOwn(ctx); err != nil {
			return err
		}
		set, err := e.queue.watchAll(ctx, children[i:i+1])
		deleted := set == nil
		if err == nil && !deleted {
			deleted, err = e.sleepUntil(ctx, set, e.own.Done(), changed)
		}
		if err != nil {
			return err
		}
		if deleted {
			if e.ahead == 1 && !isClosed(e.own.Done()) {
				e.known = children[1:]
			}
			return nil
		}
	}
	return nil
}

// watchOwn watches our node, unless a watch is there. The error is an entryLost if the node was deleted.
func (e *entry) watchOwn(ctx context.Context) error {
	if e.own != nil && !isClosed(e.own.Done()) {
		return nil
	}
	_, _, own, err := e.queue.client.GetW(ctx, framework.Join(e.queue.base, e.name))
	if errors.Is(err, zk.ErrNoNode) {
		return &entryLost{ErrNodeDeleted}
	}
	e.own = own
	return err
}

// checkReadable watches our node if its ACL does not show that we may read it: servers report the end of a node only to those
// who may. The error is zk.ErrNoAuth for all others.
func (e *entry) checkReadable(ctx context.Context) error {
	q := e.queue
	acl := engine.Of(q.client).ACL(framework.Join(q.base, q.name))
	if slices.ContainsFunc(acl, func(a zk.ACL) bool { return a.Perms&zk.PermRead != 0 && (a.Scheme == "world" || a.Scheme == "auth") }) {
		return nil
	}
	return e.watchOwn(ctx)
}

// sleepUntil is sleep until a watch of set fires. It reports whether one of the nodes is deleted, or may be.
func (e *entry) sleepUntil(ctx context.Context, set *watchSet, also, changed <-chan struct{}) (deleted bool, err error) {
	awake := make(chan struct{})
	defer close(awake)
	if err := e.sleep(ctx, set.fired(awake), also, changed); err != nil {
		return false, err
	}
	return set.gone(), nil
}
