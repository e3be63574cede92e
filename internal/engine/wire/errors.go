package wire

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/internal/wait"
)

// Errors that package framework documents.
var (
	ErrClosed        = verdict.NewOver("client is closed", nil)
	ErrUnimplemented = conn.CodeError(proto.Unimplemented)
)

// Unreachable is the error of a wait for a connection. It wraps zk.ErrNoServer and Given, the error
// of the caller's context, which is nil unless the wait was given up.
//
// Why is the reason that no server could be used. It is in the text only, since it says nothing
// about the request, which was not sent.
type Unreachable struct{ Given, Why error }

func (u *Unreachable) Error() string {
	text := zk.ErrNoServer.Error()
	if u.Why != nil {
		text += ": " + u.Why.Error()
	}
	if u.Given != nil {
		text = u.Given.Error() + ": " + text
	}
	return text
}

func (u *Unreachable) Unwrap() []error {
	if u.Given == nil {
		return []error{zk.ErrNoServer}
	}
	return []error{u.Given, zk.ErrNoServer}
}

// doubtful is the error of a request that may have been carried out.
type doubtful struct{ error }

func (d doubtful) Unwrap() error { return d.error }

// Unknown reports that the outcome is unknown: see retry.Unknown.
func (d doubtful) Unknown() bool { return true }

// Doubtful returns an error that wraps err and for which retry.Unknown reports true.
func Doubtful(err error) error { return doubtful{err} }

// abandoned is the error of a request that was given up before its answer arrived.
type abandoned struct{ doubtful }

// Abandoned returns the error of a request that was given up before its answer arrived, for a
// reason such as [ErrClosed].
func Abandoned(reason error) error { return abandoned{doubtful{reason}} }

// GivenUp returns the [Abandoned] error of a request whose ctx is done.
func GivenUp(ctx context.Context) error { return Abandoned(wait.Err(ctx)) }

// Reason returns the reason of an [Abandoned] error, and any other error as it is.
func Reason(err error) error {
	var given abandoned
	if errors.As(err, &given) {
		return given.error
	}
	return err
}
