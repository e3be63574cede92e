package queue

import (
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
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
)

// lossError is a sentinel that wraps framework.ErrLost.
type lossError struct{ text string }

func (e *lossError) Error() string { return e.text }
func (e *lossError) Unwrap() error { return framework.ErrLost }
