// Package operr names operations in errors. A function that is built from requests and other
// recipes reports one operation and one path: its own.
package operr

import (
	"strings"

	"github.com/gocurator/curator/framework"
)

// New replaces the operations and paths of err by op and path. It returns nil for nil.
func New(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &framework.OpError{Op: op, Path: path, Err: Bare(err)}
}

// Bare returns err without the operations and paths of the requests and recipes that it passed
// through. An error that wraps those is returned as it is.
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

// Join returns an error that wraps errs, or nil if all of them are nil. Unlike the text of
// errors.Join, its text is one line.
func Join(errs ...error) error {
	var all []error
	for _, err := range errs {
		if err != nil {
			all = append(all, err)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return &joined{all}
}

type joined struct{ errs []error }

func (j *joined) Error() string {
	texts := make([]string, len(j.errs))
	for i, err := range j.errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (j *joined) Unwrap() []error { return j.errs }
