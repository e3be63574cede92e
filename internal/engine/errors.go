package engine

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/retry"
)

// Errors that package framework documents.
var (
	ErrClosed        error = &overError{"client is closed", nil}
	ErrLost                = errors.New("lost")
	ErrSessionLost   error = &overError{"session lost", ErrLost}
	ErrSuspended     error = &overError{"connection suspended", ErrLost}
	ErrUnimplemented       = conn.CodeError(proto.Unimplemented)
)

// overError is a sentinel for what stays over, whatever is wrapped beside.
type overError struct {
	text    string
	wrapped error // may be nil
}

func (e *overError) Error() string { return e.text }
func (e *overError) Unwrap() error { return e.wrapped }

// Verdict is for [retry.Judge].
func (e *overError) Verdict() retry.Verdict { return retry.Over }

// unreachable is the error of a wait for a connection, or for room on one. It wraps zk.ErrNoServer and, if the wait was given up,
// the error of the context. Why no server could be used is in the text only: it says
// nothing about the request, which was not sent.
type unreachable struct{ given, why error }

func (u *unreachable) Error() string {
	text := zk.ErrNoServer.Error()
	if u.why != nil {
		text += ": " + u.why.Error()
	}
	if u.given != nil {
		text = u.given.Error() + ": " + text
	}
	return text
}

func (u *unreachable) Unwrap() []error {
	if u.given == nil {
		return []error{zk.ErrNoServer}
	}
	return []error{u.given, zk.ErrNoServer}
}

// doubtful is the error of a request that may have been carried out.
type doubtful struct{ error }

func (d doubtful) Unwrap() error { return d.error }

// Unknown makes [retry.Unknown] true.
func (d doubtful) Unknown() bool { return true }

// Doubtful is err, with [retry.Unknown] true.
func Doubtful(err error) error { return doubtful{err} }

// afterTries is err, with which the last of several tries has ended. If an earlier one may have been carried out, unknown,
// [retry.Unknown] is true of it.
func afterTries(err error, unknown bool) error {
	if err == nil || !unknown || retry.Unknown(err) {
		return err
	}
	return Doubtful(fmt.Errorf("%w (the answer to an earlier attempt was lost)", err))
}

// unanswered is the error of a request that was given up before its answer came.
type unanswered struct{ doubtful }

func givenUp(err error) error { return unanswered{doubtful{err}} }
