package wait

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Err returns an error in which errors.Is finds context.Canceled or context.DeadlineExceeded, and also the cause
// with which ctx was ended. ctx must be done.
func Err(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return &both{err, cause} // "context canceled: context deadline exceeded" says nothing more
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// both is a context's error and its cause. Its text is that of the cause.
type both struct{ err, cause error }

func (b *both) Error() string   { return b.cause.Error() }
func (b *both) Unwrap() []error { return []error{b.err, b.cause} }

// Sleep waits for d. If ctx ends before, it returns Err(ctx) at once.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	// Both may have happened, and select then picks one at random.
	if ctx.Err() != nil {
		return Err(ctx)
	}
	return nil
}

// Join returns a context that has the deadline, the end and the cause of ctx, and the values of both. A value of
// values comes before one of ctx with the same key. The end of values has no effect.
func Join(ctx, values context.Context) context.Context {
	// The context package asks for a value to find the cause: WithoutCancel hides that of values.
	return joined{ctx, context.WithoutCancel(values)}
}

type joined struct {
	context.Context
	values context.Context
}

func (j joined) Value(key any) any {
	if v := j.values.Value(key); v != nil {
		return v
	}
	return j.Context.Value(key)
}
