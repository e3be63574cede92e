package lock

import (
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock/internal/queueview"
)

// Reasons why a lock was not acquired.
var (
	// ErrNotAcquired means that somebody else holds the lock, in this process or in another, and TryAcquire does not wait or
	// the wait of Acquire was given up. No node of ours stays. Try again later.
	ErrNotAcquired = errors.New("not free")

	// errHeldHere is ErrNotAcquired if the holder has the lock from the same Queue.
	errHeldHere = fmt.Errorf("%w: held by this client (pass hold.Context() to re-enter)", ErrNotAcquired)

	// ErrSequenceExhausted means that the sequence numbers below the lock's path have overflowed, so they give
	// no order any more. They begin again when the queue is empty and the path is deleted; the last one to
	// leave the queue deletes it.
	ErrSequenceExhausted = queueview.ErrSequenceExhausted

	// ErrBadArgument and ErrBadPath mean that nothing was sent.
	ErrBadArgument = framework.ErrBadArgument
	ErrBadPath     = framework.ErrBadPath
)

// Reasons why a hold ended: the cause of its context, and the error of Release if the hold ended before.
var (
	// ErrReleased means that the holder has released the lock.
	ErrReleased = errors.New("already released")

	// ErrLost is wrapped by every loss: errors.Is finds it in all errors below except ErrClosed, and not in
	// ErrReleased.
	ErrLost = framework.ErrLost

	// ErrNodeDeleted means that somebody else deleted the lock's node: an operator, or the servers, if they
	// have ended the session and we were not told yet.
	ErrNodeDeleted error = &lossError{"lock node deleted by another"}

	// ErrMaxHold means that the time given by WithMaxHold has passed.
	ErrMaxHold error = &lossError{"held for too long"}

	// ErrSessionLost means that the session that the node belongs to is over.
	ErrSessionLost = framework.ErrSessionLost

	// ErrSuspended means that the connection was lost, and the error policy ends a hold then. The node may
	// still be there.
	ErrSuspended = framework.ErrSuspended

	// ErrClosed means that the client was closed.
	ErrClosed = framework.ErrClosed
)

// lossError is a sentinel that wraps ErrLost.
type lossError struct{ text string }

func (e *lossError) Error() string { return e.text }
func (e *lossError) Unwrap() error { return ErrLost }
