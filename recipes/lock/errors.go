package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/lock/internal/view"
)

// Reasons why a lock was not acquired. Other errors are those of package framework.
var (
	// ErrNotAcquired means that another holder has the lock, in this process or in another, and
	// TryAcquire does not wait or the wait of Acquire was given up. No node of this call stays. Try
	// again later.
	ErrNotAcquired = errors.New("not free")

	// ErrSequenceExhausted means that the sequence numbers below the lock's path have overflowed,
	// so they give no order any more. They start again when the queue is empty and the path is
	// deleted; the last client that leaves the queue deletes it.
	ErrSequenceExhausted = view.ErrSequenceExhausted
)

// Reasons why a hold ended: the cause of its context, and the error of Release if the hold ended
// before. Others are [framework.ErrSessionLost], [framework.ErrSuspended], [framework.ErrShutdown]
// and [framework.ErrClosed]. errors.Is finds [framework.ErrLost] in every loss: in all of them
// except ErrReleased, framework.ErrShutdown and framework.ErrClosed.
var (
	// ErrReleased means that the holder has released the lock.
	ErrReleased = errors.New("already released")

	// ErrNodeDeleted means that another client deleted the lock's node, such as an operator, or the
	// servers, if they have expired the session and the client does not know it yet.
	ErrNodeDeleted error = &lossError{"lock node deleted by another"}

	// ErrMaxHold means that the time given by WithMaxHold has passed.
	ErrMaxHold error = &lossError{"held for too long"}
)

var (
	// errHeldHere is ErrNotAcquired if the holder has the lock from the same Queue: in Java the
	// thread would re-enter.
	errHeldHere = fmt.Errorf("%w: held by this client (pass hold.Context() to re-enter)", ErrNotAcquired)

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
