package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
)

// Releases that cost less than a delete of their own.

// WithAsyncRelease makes [Hold.Release] return when the delete of the node has been sent, without waiting for
// the answer. A following Acquire of the same client is sent directly after it. Release then reports no failure
// of the delete: if the connection is lost, the client deletes the node in the background, or the session ends; a
// refusal is logged.
// Until then nobody else acquires, and the hold's Guard still lets writes through. By default Release returns when the
// node is deleted.
func WithAsyncRelease() Option {
	return func(c *config) error {
		c.async = true
		return nil
	}
}

// ReleaseWith releases the lease and carries out ops, as [framework.Client.Multi] does on the client that the
// lock was made with, all in one transaction. So others see the results exactly when the lock is released. If
// the lease's node does not exist, nothing is written, and the error wraps zk.ErrNoNode.
//
// First the hold's context ends, as in [Hold.Release]. The lease is released also after an error, which is that
// of Multi or the cause of a loss; retry.Unknown tells whether ops may have been carried out. The transaction
// is sent once and not repeated. A lease with several holds, by re-entry, cannot be released in this way: the
// error is [ErrBadArgument], and nothing has changed.
func (h *Hold) ReleaseWith(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	l := h.lease
	responses, err := h.releaseWith(ctx, ops)
	if err != nil {
		err = &framework.OpError{Op: "release", Path: l.node.path, Err: err}
	}
	return responses, err
}

func (h *Hold) releaseWith(ctx context.Context, ops []any) ([]zk.MultiResponse, error) {
	l := h.lease
	if _, err := h.endAlone(false); err != nil {
		return nil, err
	}
	n := l.node
	all := append(append([]any(nil), ops...), &zk.DeleteRequest{Path: n.path, Version: -1})
	once := engine.WithHints(framework.InSession(ctx, n.session), engine.Hints{Once: true})
	responses, err := n.queue.client.Multi(once, all...)
	if err != nil {
		leaving, cancel := n.leavingIn(context.Background())
		defer cancel()
		_ = l.remove(leaving) // the first error is the news
		return responses, err
	}
	n.queue.rewind(ctx, n.path)
	l.removed()
	return responses[:len(ops)], nil
}

// endAlone ends the lease for its only hold, as Release does before it gives the node back. The node is lent only if lend is true.
func (h *Hold) endAlone(lend bool) (dropped, error) {
	l := h.lease
	if !lend {
		l.show()
	}
	d := l.drop(h, true)
	switch {
	case d.lost != nil:
		ctx, cancel := l.node.leavingIn(context.Background())
		defer cancel()
		_ = h.release(ctx) // the node may still be there, after ErrSuspended
		return d, d.lost
	case !d.first:
		return d, ErrReleased
	case !d.last:
		return d, fmt.Errorf("%w: the lease has %d holds", ErrBadArgument, d.holds)
	}
	return d, nil
}

// Requeue releases the lease, queues again at the end, and waits for the next hold. It does what Release and
// Acquire do, with one write less. Others on the path see that one node is deleted and another is created.
//
// First the hold's context ends, as in [Hold.Release]. Errors are those of Acquire; then nothing is held and no
// node of ours stays. If the lease was lost, the error is the cause of the loss, and nothing was created. A
// lease with several holds, by re-entry, cannot be released in this way, nor one of a Queue with [WithQueueAhead],
// such as a semaphore's: the error is [ErrBadArgument], and nothing has changed.
func (h *Hold) Requeue(ctx context.Context) (*Hold, error) {
	q := h.lease.node.queue
	if q.cfg.ahead != nil { // its waiters would be overtaken
		return nil, q.opError("requeue", fmt.Errorf("%w: new contenders wait in %s first", ErrBadArgument, q.cfg.ahead.base))
	}
	d, err := h.endAlone(q.local != nil)
	if err != nil {
		return nil, q.opError("requeue", err)
	}
	if q.local != nil { // others of this process come first
		if err := h.lease.give(h.lease.node.session.Context(), d); err != nil {
			return nil, q.opError("requeue", err)
		}
		next, err := q.enter(outside{ctx, q}, true)
		return next, q.opError("requeue", err)
	}
	again := func(ctx context.Context) (*Hold, error) {
		next, err := q.requeue(ctx, h.lease)
		return next, q.unreachable(ctx, err)
	}
	var next *Hold
	if o := q.observer(); o != nil {
		next, err = q.observed(outside{ctx, q}, again, o)
	} else {
		next, err = again(outside{ctx, q})
	}
	return next, q.opError("requeue", err)
}

// requeue replaces the node of a lease by that of the next hold. The lease has ended.
func (q *Queue) requeue(ctx context.Context, old *lease) (*Hold, error) {
	n := old.node
	v := q.view(n.session)
	n.set(leaving)
	n.rest()
	hints := engine.WithHints(framework.InSession(ctx, n.session), engine.Hints{Replaces: n.path})
	next, err := q.join(hints, n.session, v, true)
	if err != nil {
		return nil, old.notReplaced(ctx, err)
	}
	old.removed()
	return q.resume(ctx, next, true)
}

// resume waits, if it may, with a node that is in the queue, and begins again if that is lost.
func (q *Queue) resume(ctx context.Context, w *waiter, wait bool) (*Hold, error) {
	h, err := w.hold(framework.InSession(ctx, w.session), wait)
	if err == nil {
		return h, nil
	}
	w.leave()
	err = q.whyNot(ctx, w.session, err)
	var lost *nodeLost
	if errors.As(err, &lost) {
		return q.contend(ctx, wait)
	}
	return nil, err
}

// notReplaced deletes the node that requeue could not replace, and returns why.
func (l *lease) notReplaced(ctx context.Context, err error) error {
	leaving, cancel := l.node.leavingIn(context.Background())
	defer cancel()
	_ = l.remove(leaving)
	switch {
	case l.node.session.Err() != nil:
		return l.node.session.Err()
	case errors.Is(err, zk.ErrNoNode):
		return l.deletion()
	}
	return err
}

// outside is a context without its hold of one Queue: an acquire with it does not re-enter. Holds of other Queues are
// there, so that the next hold's context re-enters them.
type outside struct {
	context.Context
	queue *Queue
}

func (o outside) Value(key any) any {
	if key == (heldKey{o.queue}) {
		return nil
	}
	return o.Context.Value(key)
}
