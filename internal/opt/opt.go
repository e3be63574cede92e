// Package opt applies functional options.
package opt

import (
	"errors"
	"fmt"
)

// ErrBadArgument means that an argument is invalid. Package framework exports it.
var ErrBadArgument = errors.New("bad argument")

// Apply calls the options with cfg, in order, and returns the first error. It returns
// [ErrBadArgument] for a nil option.
func Apply[C any, O ~func(*C) error](cfg *C, opts []O) error {
	for _, o := range opts {
		if o == nil {
			return fmt.Errorf("%w: nil option", ErrBadArgument)
		}
		if err := o(cfg); err != nil {
			return err
		}
	}
	return nil
}

// Checked returns an option that calls set if ok is true, and otherwise returns [ErrBadArgument]
// with the given text.
func Checked[C any](ok bool, set func(*C), format string, args ...any) func(*C) error {
	return func(c *C) error {
		if !ok {
			return fmt.Errorf("%w: "+format, append([]any{ErrBadArgument}, args...)...)
		}
		set(c)
		return nil
	}
}

// Set returns an option that always calls set.
func Set[C any](set func(*C)) func(*C) error { return Checked(true, set, "") }

// All returns an option that applies opts, in order.
func All[C any, O ~func(*C) error](opts ...O) O {
	return func(c *C) error { return Apply(c, opts) }
}
