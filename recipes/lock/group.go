package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Group is several holds as one: the result of a recipe that acquires all or none. It ends when the first of
// its holds ends.
//
// All methods are safe for concurrent use.
type Group struct {
	holds []*Hold
	ctx   context.Context
	end   context.CancelCauseFunc
}

// NewGroup combines holds, given in the order in which they were acquired. It needs at least one, and none may
// be nil: otherwise the error is [ErrBadArgument]. It is for recipes that acquire several locks.
func NewGroup(holds ...*Hold) (*Group, error) {
	if len(holds) == 0 || slices.Contains(holds, nil) {
		return nil, fmt.Errorf("lock: %w: a group of %d holds, with none missing", ErrBadArgument, len(holds))
	}
	// The last has the values of the others if each was acquired with the context of the one
	// before, so that all of them can be re-entered.
	g := &Group{holds: slices.Clone(holds)}
	g.ctx, g.end = context.WithCancelCause(holds[len(holds)-1].Context())
	for _, h := range holds {
		h.join(g)
	}
	return g, nil
}

// join has g end with the hold. A goroutine that waits for the hold's context would end it later, perhaps after
// somebody else has acquired.
func (h *Hold) join(g *Group) {
	l := h.lease
	l.mu.Lock()
	held := slices.Contains(l.holds, h) // if not, its context may end a moment later
	if held {
		h.groups = append(h.groups, g)
	}
	l.mu.Unlock()
	if err := h.Err(); err != nil {
		g.end(err)
	} else if !held {
		g.end(ErrReleased)
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

// Do calls f and releases. f's context ends with the group, and when ctx ends. The error is f's and Release's
// joined. If f panics, the leases are released. If the group has ended already, f is not called, and the error wraps the cause.
func (g *Group) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return do(ctx, g.ctx, g.Release, f)
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
