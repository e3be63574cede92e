package wait

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Err returns an error in which errors.Is finds context.Canceled or context.DeadlineExceeded, and
// the cause of ctx. ctx must be done.
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

// both is a context's error and its cause. Its text is the cause's.
type both struct{ err, cause error }

func (b *both) Error() string   { return b.cause.Error() }
func (b *both) Unwrap() []error { return []error{b.err, b.cause} }

// Sleep waits for d. If ctx is done first, it returns Err(ctx).
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

// Join returns a context with the deadline, cancellation and cause of ctx, and the values of both.
// A value of values hides one of ctx with the same key. The cancellation of values has no effect.
func Join(ctx, values context.Context) context.Context {
	// The context package finds the cause by a value: WithoutCancel hides the cause of values.
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
