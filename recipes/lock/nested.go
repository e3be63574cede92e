package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/wait"
)

// ErrHeld means that the context of the call derives from a hold of the same lock, so the caller
// would wait for itself. It wraps neither [ErrNotAcquired] nor [framework.ErrLost]: a retry does
// not help.
//
// Acquire and TryAcquire return ErrHeld at once, without a request: with [Hold.Context], with the
// context inside Do, and with every context that derives from these. Goroutines that are started
// inside a hold do not enter together.
//
// Two objects are the same lock if they have the same node names, at the same path of the same
// client or of a view of it. Acquire of a lock with several leases acquires another lease instead.
//
// A hold that was released or lost does not count. There is one exception, while its node still
// exists: after [framework.ErrSuspended], until Release, Acquire returns the cause.
//
// Acquire does not recognize a caller that holds the lock and uses a context from outside of the
// hold. That caller waits for itself until the context is done. For work that is started inside a
// hold and outlives it, see [Outside]. With a driver that lets several nodes hold one lease, such
// as a reader's, ErrHeld may refuse what would not have waited.
var ErrHeld = errors.New("held by the caller already")

// WithReentry makes Acquire with the context of a hold return another hold of the same lease.
// Without it, Acquire returns [ErrHeld]. The lock must have one lease: otherwise constructors
// return [framework.ErrBadArgument].
//
// All goroutines that have the context of one hold re-enter, and hold the lock together. The lease
// is released when all its holds are released. If the lease has ended, Acquire returns the cause.
//
// Only the object that returned the hold re-enters. Another object for the same lock returns
// ErrHeld. Java's Curator re-enters by thread.
func WithReentry() Option { return func(c *config) error { c.reentry = true; return nil } }

// nesting is what Acquire does with the context of a hold at its place. nestingOf chooses it:
//
//	leases                   option         nesting
//	one                      -              refuses
//	one                      WithReentry    reenters
//	several, or semaphore    -              another
//	several, or semaphore    WithReentry    ErrBadArgument
type nesting int8

const (
	refuses  nesting = iota // ErrHeld
	reenters                // another hold of the same lease
	another                 // another lease
)

func nestingOf(c config) (nesting, error) {
	switch several := c.recipe.Another || c.maxLeases > 1; {
	case several && c.reentry:
		return another, fmt.Errorf("%w: WithReentry requires a lock with one lease", framework.ErrBadArgument)
	case several:
		return another, nil
	case c.reentry:
		return reenters, nil
	default:
		return refuses, nil
	}
}

// nested returns another hold of the caller's lease, or why the caller, whose context comes from a
// hold at the place of q, must not wait. If it returns neither, the Queue acquires.
//
//	the lease of that hold       refuses, or of another Queue    reenters
//	any, and ctx is done         ctx's reason                    the next rows
//	lives                        ErrHeld                         another hold
//	suspended and not released   while its node exists, the      the cause
//	                             cause, and then acquires
//	lost, or released            acquires                        the cause
//
// The lease counts, not the hold: a hold may have been released while others of its lease live. If
// ctx is done, the hold counts as well.
func (q *Queue) nested(ctx context.Context) (*Hold, error) {
	h, _ := ctx.Value(q.place).(*Hold)
	switch {
	case h == nil || q.cfg.nesting == another:
		return nil, nil
	case !q.reenters(h):
		return nil, q.refuseNested(ctx, ErrHeld, "lock.WithReentry allows it")
	case ctx.Err() != nil:
		return h.again(ctx)
	default:
		return h.term.again(ctx)
	}
}

// reenters reports whether Acquire with the context of h returns another hold of its lease.
func (q *Queue) reenters(h *Hold) bool {
	return q.cfg.nesting == reenters && h.term.node.queue == q
}

// refuseNested returns why a caller whose context comes from a hold at the place of q must not wait
// for q, or nil. It returns held with a way out if the lease lives, and nil if q re-enters.
func (q *Queue) refuseNested(ctx context.Context, held error, wayOut string) error {
	h, _ := ctx.Value(q.place).(*Hold)
	if h == nil || q.reenters(h) {
		return nil
	}
	if ctx.Err() != nil {
		return wait.Err(ctx)
	}
	switch cause := h.term.why(); {
	case cause == nil && h.term.node.queue != q:
		return fmt.Errorf("%w: %s, by another object for this path (use a context from outside the hold)", held, h.Path())
	case cause == nil:
		return fmt.Errorf("%w: %s (%s, or use a context from outside the hold)", held, h.Path(), wayOut)
	case outlasts(cause) && h.term.isHeld() && !wait.Closed(h.term.node.gone): // the node is in the queue
		return cause
	default:
		return nil
	}
}

// heldIn returns the hold of this Queue that ctx comes from, or nil. The hold may have ended.
func (q *Queue) heldIn(ctx context.Context) *Hold {
	h, _ := ctx.Value(q.place).(*Hold)
	if h == nil || h.term.node.queue != q {
		return nil
	}
	return h
}
