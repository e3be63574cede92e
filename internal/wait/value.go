package wait

import (
	"context"
	"sync"
	"sync/atomic"
)

// Value is an awaitable value. The zero Value holds the zero T.
//
// All methods are safe for concurrent use. It must not be copied.
type Value[T any] struct {
	now atomic.Pointer[T] // nil: the zero T; replaced while mu is held

	mu      sync.Mutex    // guards changed
	changed chan struct{} // nil without a waiter
}

// Load returns the value. It does not wait for a call of Set.
func (v *Value[T]) Load() (value T) {
	if now := v.now.Load(); now != nil {
		value = *now
	}
	return value
}

// Get returns the value and a channel that is closed at the next call of Set. The data behind a
// pointer, map or slice in the value is shared.
func (v *Value[T]) Get() (value T, changed <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.changed == nil {
		v.changed = make(chan struct{})
	}
	return v.Load(), v.changed
}

// Set calls change to modify the value. change runs under a lock: it must be fast and must not use
// v.
func (v *Value[T]) Set(change func(value *T)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	value := v.Load()
	change(&value)
	v.now.Store(&value)
	if v.changed != nil {
		close(v.changed)
		v.changed = nil
	}
}

// Until returns the first value for which ok is true. It may miss a value that is soon replaced.
//
// If ctx is done first, it returns the last value that it saw, and Err(ctx). ok is called before
// ctx is checked.
func (v *Value[T]) Until(ctx context.Context, ok func(T) bool) (T, error) {
	for {
		value, changed := v.Get()
		if ok(value) {
			return value, nil
		}
		if ctx.Err() != nil {
			return value, Err(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}
