// Package opt applies functional options.
package opt

import (
	"errors"
	"fmt"
)

// ErrBadArgument is framework.ErrBadArgument.
var ErrBadArgument = errors.New("bad argument")

// Apply calls each of opts with cfg, in order, and returns the first error. A nil option is [ErrBadArgument].
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
