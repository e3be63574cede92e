package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/queue/view"
)

// The errors of package lock, which says what they mean.
var (
	ErrNotAcquired             = errors.New("not free")
	ErrSequenceExhausted       = view.ErrSequenceExhausted
	ErrReleased                = errors.New("already released")
	ErrNodeDeleted       error = &lossError{"lock node deleted by another"}
	ErrMaxHold           error = &lossError{"held for too long"}

	// errHeldHere is ErrNotAcquired if the holder has the lock from the same Queue.
	errHeldHere = fmt.Errorf("%w: held by this client (pass hold.Context() to re-enter)", ErrNotAcquired)

	// errUnused ends a lease that has no hold.
	errUnused = errors.New("not used")
)

// lossError is a sentinel that wraps framework.ErrLost.
type lossError struct{ text string }

func (e *lossError) Error() string { return e.text }
func (e *lossError) Unwrap() error { return framework.ErrLost }

// NodeLost means that a node of ours was deleted before we had all that we acquire, by the end of the session or by
// somebody else. So the acquire may begin again: see [Repeat].
type NodeLost struct{ Cause error }

func (e *NodeLost) Error() string { return e.Cause.Error() }
func (e *NodeLost) Unwrap() error { return e.Cause }

// givenUp is why a wait ends with ctx.
func givenUp(ctx context.Context, notFree error) error {
	return fmt.Errorf("%w: %w", notFree, wait.Err(ctx))
}
