package queue

import (
	"cmp"
	"context"
	"time"

	"github.com/gocurator/curator/framework"
)

// observer is that of the client, or nil if this Queue is not reported.
func (q *Queue) observer() *framework.Observer {
	if q.cfg.Silent {
		return nil
	}
	return q.client.Observer()
}

// observedKey is the key of a context with which an acquire of a Queue is reported already.
type observedKey struct{ queue *Queue }

// Observe notifies the observer, if there is one, of an acquire that begins. Whoever acquires does so with the context, and calls
// done with what comes of it: its holds, or an error of the whole acquire. What is acquired of this queue with the context is not
// reported again. A hold that was lost while the observer was notified is not for the caller: the error of done is the cause,
// and all holds have been given back.
func (q *Queue) Observe(ctx context.Context) (observed context.Context, done func(err error, holds ...*Hold) error) {
	o := q.observer()
	if o == nil || ctx.Value(observedKey{q}) != nil {
		return ctx, func(err error, _ ...*Hold) error { return err }
	}
	began := time.Now()
	e := framework.AcquiringEvent{Path: q.base, Name: q.name}
	first := o.Acquiring(ctx, e)
	return context.WithValue(first, observedKey{q}, true), func(err error, holds ...*Hold) error {
		waited := time.Since(began)
		if err != nil {
			o.NotAcquired(first, framework.NotAcquiredEvent{Path: q.base, Name: q.name, Waited: waited, Err: err})
			return err
		}
		for i, h := range holds {
			own := first
			if i > 0 {
				own = o.Acquiring(ctx, e)
			}
			h.observe(o.Acquired(own, framework.AcquiredEvent{Path: q.base, Name: q.name, Node: h.lease.node.path, Waited: waited}), o)
		}
		for _, h := range holds {
			err = cmp.Or(err, h.Err())
		}
		if err != nil {
			Leave(holds)
		}
		return err
	}
}

// observe has o notified of the end of the first hold of a lease, which nobody has yet, and gives the hold the
// values of ctx.
func (h *Hold) observe(ctx context.Context, o *framework.Observer) {
	l, q := h.lease, h.lease.node.queue
	ctx = framework.InSession(context.WithoutCancel(ctx), h.Session()) // as without an observer
	h.hasValues(ctx)
	notify := func() {
		o.Ended(ctx, framework.EndedEvent{
			Path: q.base, Name: q.name, Node: l.node.path,
			Held:  time.Since(l.began),
			Cause: l.endedBy(),
		})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		go notify()
		return
	}
	// Release calls the observer before it sends the delete. A loss must not: other holders have to be notified, too.
	undepend := l.ended
	l.ended = func() {
		undepend()
		if loss(l.endedBy()) != nil {
			go notify() // ends with o.Ended
		} else {
			notify()
		}
	}
}
