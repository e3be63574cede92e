package lock

import (
	"context"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
)

// observed acquires with obtain, and tells o of it.
func (q *Queue) observed(ctx context.Context, obtain func(context.Context) (*Hold, error), o *framework.Observer) (*Hold, error) {
	ctx = o.Acquiring(ctx, framework.AcquiringEvent{Path: q.base, Name: q.name})
	began := time.Now()
	h, err := obtain(ctx)
	waited := time.Since(began)
	if err != nil {
		o.NotAcquired(ctx, framework.NotAcquiredEvent{Path: q.base, Name: q.name, Waited: waited, Err: err})
		return nil, err
	}
	h.observe(o.Acquired(ctx, framework.AcquiredEvent{Path: q.base, Name: q.name, Node: h.lease.entry.path, Waited: waited}), o)
	return h, nil
}

// tellJoined tells the observer, if there is one, that an entry has joined the queue.
func (e *entry) tellJoined(ctx context.Context) {
	q := e.queue
	if o := q.client.Observer(); o != nil {
		o.Joined(ctx, framework.JoinedEvent{Path: q.base, Name: q.name, Ahead: e.ahead})
	}
}

// observe makes o be told of the end of the first hold of a lease, which nobody has yet, and gives the hold the
// values of ctx.
func (h *Hold) observe(ctx context.Context, o *framework.Observer) {
	l, q := h.lease, h.lease.entry.queue
	ctx = framework.InSession(context.WithoutCancel(ctx), h.Session()) // as without an observer
	h.ctx = holdContext{h.ctx.(holdContext).Context, ctx}
	l.tellEnded = sync.OnceFunc(func() {
		o.Ended(ctx, framework.EndedEvent{
			Path: q.base, Name: q.name, Node: l.entry.path,
			Held:  time.Since(l.began),
			Cause: context.Cause(l.ctx),
		})
	})
	// Release calls the observer before it sends the delete. A loss must not: others have to be told of it too.
	// So this call has a goroutine of its own, which ends with o.Ended.
	context.AfterFunc(l.ctx, l.tellEnded)
}
