package queue

import (
	"context"
	"errors"
	"slices"
)

// Group is a lock.Group.
type Group struct {
	holds []*Hold
	ctx   context.Context
	end   context.CancelCauseFunc
}

// NewGroup combines holds, of which there must be one at least, in the order in which they were acquired.
func NewGroup(holds []*Hold) *Group {
	// The last has the values of the others if each was acquired with the context of the one
	// before, so that all of them can be re-entered.
	g := &Group{holds: slices.Clone(holds)}
	g.ctx, g.end = context.WithCancelCause(holds[len(holds)-1].Context())
	for _, h := range holds {
		h.join(g)
	}
	return g
}

// join has g end with the hold, also if that has ended. A goroutine that waits for the hold's context would end it later,
// perhaps after somebody else has acquired.
func (h *Hold) join(g *Group) {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	if err := h.Err(); err != nil {
		g.end(err)
	} else {
		h.groups = append(h.groups, g.end)
	}
}

// Holds are the holds in the order in which they were acquired.
func (g *Group) Holds() []*Hold { return slices.Clone(g.holds) }

// Context ends as soon as one of the holds ends, with the same cause.
func (g *Group) Context() context.Context { return g.ctx }

// Done is Context().Done().
func (g *Group) Done() <-chan struct{} { return g.ctx.Done() }

// Err is nil while all holds last, and then the cause of the first end.
func (g *Group) Err() error { return context.Cause(g.ctx) }

// Do is that of lock.Group.
func (g *Group) Do(ctx context.Context, f func(ctx context.Context) error) error {
	path := g.holds[0].lease.node.path
	for _, h := range g.holds {
		if h.Err() != nil {
			path = h.lease.node.path
			break
		}
	}
	return do(ctx, g.ctx, path, g.Release, f)
}

// Guards are operations for [framework.Client.Multi] that succeed only if the nodes of all
// holds are there: see [Hold.Guard].
func (g *Group) Guards() []any {
	guards := make([]any, len(g.holds))
	for i, h := range g.holds {
		guards[i] = h.Guard()
	}
	return guards
}

// Release releases all leases, the last first. The error joins those of [Hold.Release], also for a second call.
func (g *Group) Release() error {
	g.end(ErrReleased)
	var errs []error
	for _, h := range slices.Backward(g.holds) {
		errs = append(errs, h.Release())
	}
	return errors.Join(errs...)
}
