package lock

import (
	"context"
	"slices"

	"github.com/gocurator/curator/internal/nocopy"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/wait"
)

// Group combines several holds: it is the result of a recipe that acquires all or none. The group
// is lost when the first of its holds is lost.
//
// All methods are safe for concurrent use.
type Group struct {
	_ nocopy.Mark

	holds []*Hold
	asked context.Context // the context that the recipe was called with
	ctx   context.Context
	end   context.CancelCauseFunc
}

// newGroup combines holds, of which there must be at least one, in the order in which they were
// acquired. ctx is the context of the acquire.
func newGroup(ctx context.Context, holds []*Hold) *Group {
	// The last has the values of the others if each was acquired with the context of the one
	// before, so that all of them can be re-entered.
	g := &Group{holds: slices.Clone(holds), asked: ctx}
	g.ctx, g.end = context.WithCancelCause(holds[len(holds)-1].Context())
	g.endsWith(g.end)
	return g
}

// Holds returns the holds in the order in which they were acquired.
func (g *Group) Holds() []*Hold { return slices.Clone(g.holds) }

// Context returns a context that is cancelled with the first context of the holds, with the same
// cause.
func (g *Group) Context() context.Context { return g.ctx }

// Done returns Context().Done().
func (g *Group) Done() <-chan struct{} { return g.ctx.Done() }

// Err returns nil while all holds are valid, and then the cause of Context.
func (g *Group) Err() error { return context.Cause(g.ctx) }

// Release releases all leases in reverse order of acquisition. It joins the errors of the leases.
//
// Errors are
//   - the cause of the loss, which wraps [framework.ErrLost], if a lease was lost before. After
//     [framework.ErrSuspended] the release of a lease succeeds if it has deleted the node;
//   - [ErrNodeDeleted] if another client has deleted the node, and the servers have not reported it
//     before;
//   - [framework.ErrSessionLost] or [framework.ErrClosed] if the session is over, which deletes the
//     node;
//   - [ErrReleased] at a second call, which tries again if a node could not be deleted;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to delete the node.
func (g *Group) Release() error {
	g.end(ErrReleased)
	var errs []error
	func() {
		for _, h := range g.holds {
			defer func() { errs = append(errs, h.Release()) }() // the last first, and all of them if an observer panics
		}
	}()
	return operr.Join(errs...)
}

// Do calls f, and releases all leases, even if f panics. f's context derives from ctx, and is
// cancelled with the first context of the holds. If one of the leases has ended already, f is not
// called.
//
// Errors are
//   - the error of f, joined with the cause of the loss if a lease was lost;
//   - the cause of the loss, which wraps [framework.ErrLost], if a lease was lost before the
//     release. If f returns nil after [framework.ErrSuspended], Do returns nil if the nodes still
//     existed at the release;
//   - [framework.ErrBadArgument] if f or ctx is nil: the leases are released;
//   - [ErrReleased] if one of the holds was released before;
//   - [framework.ErrSessionLost] or [framework.ErrClosed] if the session is over, which deletes the
//     nodes;
//   - [ErrNodeDeleted] if another client has deleted a node, and the servers have not reported it
//     before;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to delete a node.
func (g *Group) Do(ctx context.Context, f func(ctx context.Context) error) error {
	path := g.holds[0].Path()
	for _, h := range g.holds {
		if h.Err() != nil {
			path = h.Path()
			break
		}
	}
	return do(ctx, g, path, f)
}

// inside implements holder: see Hold.inside.
func (g *Group) inside(ctx, life context.Context) context.Context {
	switch {
	case !same(ctx, g.asked):
		return &doContext{life, g.ctx}
	case slices.ContainsFunc(g.holds, func(h *Hold) bool { return h.traced }):
		return wait.Join(life, g.ctx)
	}
	for _, h := range g.holds {
		life = &heldContext{life, h}
	}
	return life
}

// endsWith implements holder: the first hold that ends calls end.
func (g *Group) endsWith(end context.CancelCauseFunc) {
	for _, h := range g.holds {
		h.endsWith(end)
	}
}
