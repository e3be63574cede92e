package wait

import (
	"context"
	"sync"
)

// Value is an awaitable value. The zero Value holds the zero T.
//
// All methods are safe for concurrent use. It must not be copied.
type Value[T any] struct {
	mu      sync.Mutex // guards the fields below
	value   T
	changed chan struct{} // nil without a waiter
}

// Get returns the value and a channel that is closed at the next call of Set. The data behind a
// pointer, map or slice in the value is shared.
func (v *Value[T]) Get() (value T, changed <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.changed == nil {
		v.changed = make(chan struct{})
	}
	return v.value, v.changed
}

// Set calls change to modify the value. change runs under a lock: it must be fast and must not use
// v.
func (v *Value[T]) Set(change func(value *T)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(&v.value)
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
