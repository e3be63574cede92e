package lock

import (
	"errors"

	"github.com/gocurator/curator/framework"
)

// Why a lock was not acquired.
var (
	// ErrNotAcquired means that someone else holds the lock and TryAcquire does
	// not wait. Nothing of ours stays and nothing is wrong: come back later.
	ErrNotAcquired = errors.New("held by another")

	// ErrSequenceExhausted means that the numbers of the nodes below the lock's
	// path have come to their end, where they give no order any more. It heals
	// when all nodes there have gone and the path itself is deleted; whoever
	// leaves the queue last does that.
	ErrSequenceExhausted = errors.New("sequence numbers exhausted")

	// ErrBadArgument and ErrBadPath mean that nothing was sent.
	ErrBadArgument = framework.ErrBadArgument
	ErrBadPath     = framework.ErrBadPath
)

// Why a hold ended: the cause of its context, and what Release returns if the end
// came before it.
var (
	// ErrReleased means that the holder has released the lock itself.
	ErrReleased = errors.New("already released")

	// ErrLost is in every loss: errors.Is finds it in all that follow but ErrClosed, and not in ErrReleased.
	ErrLost = framework.ErrLost

	// ErrNodeDeleted means that someone else deleted the lock's node: an operator, or the servers, if they have
	// ended the session and we have not heard of that yet.
	ErrNodeDeleted error = &lossError{"lock node deleted by another"}

	// ErrMaxHold means that the time given by WithMaxHold has passed.
	ErrMaxHold error = &lossError{"held for too long"}

	// ErrSessionLost means that the session that the node belongs to is over.
	ErrSessionLost = framework.ErrSessionLost

	// ErrSuspended means that the connection was lost and the error policy
	// takes that for trouble. The node may still be there.
	ErrSuspended = framework.ErrSuspended

	// ErrClosed means that the client was closed.
	ErrClosed = framework.ErrClosed
)

// lossError is a sentinel that wraps ErrLost.
type lossError struct{ text string }

func (e *lossError) Error() string { return e.text }
func (e *lossError) Unwrap() error { return ErrLost }
