package wait

import (
	"context"
	"sync"
)

// Value is a value whose changes can be waited for. The zero Value holds the zero T. All methods are safe for
// concurrent use. It must not be copied.
type Value[T any] struct {
	mu      sync.Mutex // guards what follows
	value   T
	changed chan struct{} // nil: nobody waits
}

// Get returns the value and a channel that is closed at the next call of Set. What a pointer, map or slice in the
// value refers to is shared.
func (v *Value[T]) Get() (value T, changed <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.changed == nil {
		v.changed = make(chan struct{})
	}
	return v.value, v.changed
}

// Set has change modify the value. It is called under a lock: it must be quick, and must not use v.
func (v *Value[T]) Set(change func(value *T)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(&v.value)
	if v.changed != nil {
		close(v.changed)
		v.changed = nil
	}
}

// Until returns the first value for which ok is true. A value that is replaced soon may be missed. If ctx is done
// before, it returns the last value that it saw, and Err(ctx); a value that is there already is returned first.
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
