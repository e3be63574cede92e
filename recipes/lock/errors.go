package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/lock/internal/view"
)

// Reasons why a lock was not acquired. Package framework defines other errors.
var (
	// ErrNotAcquired means that another holder has the lock, in this process or in another.
	// TryAcquire returns it, and Acquire wraps it if its context is done. The node of the call is
	// deleted.
	ErrNotAcquired = errors.New("not free")

	// ErrSequenceExhausted means that the sequence numbers below the lock's path have overflowed,
	// so they do not order the queue any more. They restart when the queue is empty and the path is
	// deleted. The last client that leaves the queue deletes the path.
	ErrSequenceExhausted = view.ErrSequenceExhausted
)

// Reasons why a hold ended: the cause of its context, and the error of Release if the hold ended
// before. Others are [framework.ErrSessionLost], [framework.ErrSuspended], [framework.ErrShutdown]
// and [framework.ErrClosed]. errors.Is finds [framework.ErrLost] in every loss: in all of them
// except ErrReleased, framework.ErrShutdown and framework.ErrClosed.
var (
	// ErrReleased means that the holder has released the lock.
	ErrReleased = errors.New("already released")

	// ErrNodeDeleted means that another client, such as an operator's, deleted the lock's node, or
	// that the servers did because they expired the session, before the client noticed.
	ErrNodeDeleted error = &lossError{"lock node deleted by another"}

	// ErrMaxHold means that the time given by WithMaxHold has passed.
	ErrMaxHold error = &lossError{"held for too long"}
)

var (
	// See Queue.heldHere.
	errHeldHere     = fmt.Errorf("%w: held by this client", ErrNotAcquired)
	errNotReentered = fmt.Errorf("%w (pass hold.Context() to re-enter)", errHeldHere)

	// errPanicked is what an observer is told of an acquire in which a function of the user
	// panicked.
	errPanicked = errors.New("panicked")
)

// lossError is a sentinel that wraps framework.ErrLost.
type lossError struct{ text string }

func (e *lossError) Error() string { return e.text }
func (e *lossError) Unwrap() error { return framework.ErrLost }

// loss returns the cause of the end of a term if the term was lost, or nil.
func loss(cause error) error {
	if errors.Is(cause, ErrReleased) {
		return nil
	}
	return cause
}

// givenUp returns why a wait ended with ctx.
func givenUp(ctx context.Context, notFree error) error {
	return fmt.Errorf("%w: %w", notFree, wait.Err(ctx))
}
