package lock

import "github.com/gocurator/curator/recipes/internal/queue"

// Reasons why a lock was not acquired. Others are errors of package framework.
var (
	// ErrNotAcquired means that somebody else holds the lock, in this process or in another, and TryAcquire does not wait or
	// the wait of Acquire was given up. No node of ours stays. Try again later.
	ErrNotAcquired = queue.ErrNotAcquired

	// ErrSequenceExhausted means that the sequence numbers below the lock's path have overflowed, so they give
	// no order any more. They begin again when the queue is empty and the path is deleted; the last one to
	// leave the queue deletes it.
	ErrSequenceExhausted = queue.ErrSequenceExhausted
)

// Reasons why a hold ended: the cause of its context, and the error of Release if the hold ended before. There are also
// [framework.ErrSessionLost], [framework.ErrSuspended] and [framework.ErrClosed]. errors.Is finds [framework.ErrLost] in every
// loss: in all of them except ErrReleased and framework.ErrClosed.
var (
	// ErrReleased means that the holder has released the lock.
	ErrReleased = queue.ErrReleased

	// ErrNodeDeleted means that somebody else deleted the lock's node: an operator, or the servers, if they
	// have ended the session and the client does not know it yet.
	ErrNodeDeleted = queue.ErrNodeDeleted

	// ErrMaxHold means that the time given by WithMaxHold has passed.
	ErrMaxHold = queue.ErrMaxHold
)
