// Package operr names operations in errors. Whoever calls others for a caller of theirs says one operation and one path: those of the caller.
package operr

import "github.com/gocurator/curator/framework"

// New names an operation and its path instead of those of a request. It returns nil for nil.
func New(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &framework.OpError{Op: op, Path: path, Err: Bare(err)}
}

// Bare is err without the operations and paths of requests, and of recipes that it came from. What wraps these is not taken off.
func Bare(err error) error {
	for {
		switch inner := err.(type) {
		case *framework.OpError:
			err = inner.Err
		case *framework.MultiError:
			err = inner.Err
		default:
			return err
		}
	}
}
