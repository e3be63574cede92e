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

// removeSoon deletes the node, and does not wait for the answer. It is called once, before any other removal.
func (l *lease) removeSoon() {
	e, r := l.entry, &removal{done: make(chan struct{})}
	l.mu.Lock()
	l.removal = r
	l.mu.Unlock()
	e.leaveView()
	e.unwatchNode()
	ctx := framework.InSession(e.session.Context(), e.session)
	engine.Of(e.queue.client).DeleteSoon(ctx, e.path, func(found bool, err error) { // must not block
		_ = l.finishRemoval(r, found, err)
		switch {
		case err == nil && nearEnd(e.path):
			go e.queue.rewind(ctx, e.path) // ends with its requests, or the session
		case err != nil && ctx.Err() == nil:
			go e.staysBehind(err) // ends with the logger
		}
	})
	e.end() // what another goroutine sends from now on comes after the delete
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
		err = &framework.OpError{Op: "release", Path: l.entry.path, Err: err}
	}
	return responses, err
}

func (h *Hold) releaseWith(ctx context.Context, ops []any) ([]zk.MultiResponse, error) {
	l := h.lease
	if err := h.endAlone(); err != nil {
		return nil, err
	}
	e := l.entry
	all := append(append([]any(nil), ops...), &zk.DeleteRequest{Path: e.path, Version: -1})
	once := engine.WithHints(framework.InSession(ctx, e.session), engine.Hints{Once: true})
	responses, err := e.queue.client.Multi(once, all...)
	if err != nil {
		leaving, cancel := e.leaving()
		defer cancel()
		_ = l.remove(leaving) // the first error is the news
		return responses, err
	}
	e.queue.rewind(ctx, e.path)
	l.removed()
	return responses[:len(ops)], nil
}

// endAlone ends the lease for its only hold, as Release does before it deletes the node.
func (h *Hold) endAlone() error {
	l := h.lease
	l.mu.Lock()
	var err error
	switch {
	case l.lost != nil:
		err = l.lost
	case h.released || l.released:
		err = ErrReleased
	case l.holds > 1:
		err = fmt.Errorf("%w: the lease has %d holds", ErrBadArgument, l.holds)
	default:
		h.released, l.released, l.holds = true, true, 0
	}
	lost := l.lost != nil
	l.mu.Unlock()
	if lost {
		ctx, cancel := l.entry.leaving()
		defer cancel()
		_ = h.release(ctx) // the node may still be there, after ErrSuspended
	}
	if err != nil {
		return err
	}
	h.cancel(ErrReleased)
	l.finish(ErrReleased)
	if l.tellEnded != nil {
		l.tellEnded()
	}
	return nil
}

// releaseAlone is Release for the only hold of a lease. The error is also that of a loss after which Release has none.
func (h *Hold) releaseAlone() error {
	l := h.lease
	l.mu.Lock()
	releases, holds := l.lost == nil && !h.released, l.holds
	several := releases && holds > 1
	l.leaving = l.leaving || releases && !several
	l.mu.Unlock()
	if several {
		return fmt.Errorf("%w: the lease has %d holds", ErrBadArgument, holds)
	}
	if err := h.Release(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// removed notes that we have deleted the node.
func (l *lease) removed() {
	r := &removal{done: make(chan struct{})}
	close(r.done)
	l.mu.Lock()
	l.removal = r
	l.mu.Unlock()
	l.entry.end()
}

// Requeue releases the lease, queues again at the end, and waits for the next hold. It does what Release and
// Acquire do, with one write less. Others on the path see that one node is deleted and another is created.
//
// First the hold's context ends, as in [Hold.Release]. Errors are those of Acquire; then nothing is held and no
// node of ours stays. If the lease was lost, the error is the cause of the loss, and nothing was created. A
// lease with several holds, by re-entry, cannot be released in this way, nor one of a Queue with [WithQueueAhead],
// such as a semaphore's: the error is [ErrBadArgument], and nothing has changed.
func (h *Hold) Requeue(ctx context.Context) (*Hold, error) {
	q := h.lease.entry.queue
	if q.cfg.ahead != nil { // its waiters would be overtaken
		return nil, q.opError("requeue", fmt.Errorf("%w: new contenders wait in %s first", ErrBadArgument, q.cfg.ahead.base))
	}
	if q.local != nil { // others of this process come first
		if err := h.releaseAlone(); err != nil {
			return nil, q.opError("requeue", err)
		}
		next, err := q.enter(outside{ctx, q}, true)
		return next, q.opError("requeue", err)
	}
	if err := h.endAlone(); err != nil {
		return nil, q.opError("requeue", err)
	}
	again := func(ctx context.Context) (*Hold, error) {
		next, err := q.requeue(ctx, h.lease)
		return next, q.unreachable(ctx, err)
	}
	var next *Hold
	var err error
	if o := q.observer(); o != nil {
		next, err = q.observed(outside{ctx, q}, again, o)
	} else {
		next, err = again(outside{ctx, q})
	}
	return next, q.opError("requeue", err)
}

// requeue replaces the node of a lease by that of the next hold. The lease has ended.
func (q *Queue) requeue(ctx context.Context, old *lease) (*Hold, error) {
	e := old.entry
	session := e.session
	v := q.view(session)
	e.leaveView()
	e.unwatchNode()
	hints := engine.WithHints(framework.InSession(ctx, session), engine.Hints{Replaces: e.path})
	next, err := q.join(hints, session, v, true)
	if err != nil {
		return nil, old.notReplaced(ctx, err)
	}
	old.removed()
	return q.resume(ctx, next)
}

// resume waits with a node that is in the queue, and begins again if that is lost.
func (q *Queue) resume(ctx context.Context, e *entry) (*Hold, error) {
	h, err := e.hold(framework.InSession(ctx, e.session), true)
	if err == nil {
		return h, nil
	}
	e.leave()
	err = q.whyNot(ctx, e.session, err)
	var lost *entryLost
	if errors.As(err, &lost) {
		return q.contend(ctx, true)
	}
	return nil, err
}

// notReplaced deletes the node that requeue could not replace, and returns why.
func (l *lease) notReplaced(ctx context.Context, err error) error {
	leaving, cancel := l.entry.leaving()
	defer cancel()
	_ = l.remove(leaving)
	switch {
	case l.entry.session.Err() != nil:
		return l.entry.session.Err()
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
