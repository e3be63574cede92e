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

// observed acquires with obtain, and has the observer notified.
func (q *Queue) observed(ctx context.Context, obtain func(context.Context) (*Hold, error)) (h *Hold, err error) {
	err = q.Observed(ctx, func(ctx context.Context) ([]*Hold, error) {
		h, err = obtain(ctx)
		return []*Hold{h}, err
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Observed acquires with obtain, and has the observer, if there is one, notified of each hold. What has failed is one acquire.
// What obtain acquires of this queue with its context is not reported again. A hold that was lost while the observer was notified
// is not given to the caller: the error is the cause, and all holds have been given back.
func (q *Queue) Observed(ctx context.Context, obtain func(context.Context) ([]*Hold, error)) error {
	o := q.observer()
	if o == nil || ctx.Value(observedKey{q}) != nil {
		_, err := obtain(ctx)
		return err
	}
	began := time.Now()
	e := framework.AcquiringEvent{Path: q.base, Name: q.name}
	first := o.Acquiring(ctx, e)
	holds, err := obtain(context.WithValue(first, observedKey{q}, true))
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

// notifyJoined notifies the observer, if there is one, that the node has joined the queue.
func (w *waiter) notifyJoined(ctx context.Context) {
	q := w.queue
	if o := q.observer(); o != nil {
		o.Joined(ctx, framework.JoinedEvent{Path: q.base, Name: q.name, Ahead: w.ahead})
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
		if l.wasLost() {
			go notify() // ends with o.Ended
		} else {
			notify()
		}
	}
}
