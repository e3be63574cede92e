package framework

import (
	"errors"

	"github.com/go-zookeeper/zk"
)

var (
	// ErrClosed means that the client was closed, before the call or during it.
	ErrClosed = errors.New("client is closed")

	// ErrLost is wrapped by ErrSessionLost and ErrSuspended, and by all losses of package lock.
	ErrLost = errors.New("lost")

	// ErrSessionLost means that the session of the call or of the lock is over, or
	// counts as over because no server has confirmed it in time. Its ephemeral
	// nodes are deleted, or will be. It wraps ErrLost.
	ErrSessionLost error = &lossError{"session lost"}

	// ErrSuspended means that the connection was lost, while the session may
	// still live. It ends holds under [connstate.Standard]. It wraps ErrLost.
	ErrSuspended error = &lossError{"connection suspended"}

	// ErrBadPath means that a path is empty, relative, ends in a slash or has
	// an element that ZooKeeper does not allow. Nothing was sent.
	ErrBadPath = errors.New("bad path")

	// ErrBadArgument means that another argument is not valid. Nothing was sent.
	ErrBadArgument = errors.New("bad argument")
)

// lossError is a sentinel that wraps ErrLost.
type lossError struct{ text string }

func (e *lossError) Error() string { return e.text }
func (e *lossError) Unwrap() error { return ErrLost }

// Retryable makes [retry.Retryable] false, whatever is wrapped beside: what is lost stays lost.
func (e *lossError) Retryable() bool { return false }

// unreachable is the error of a wait for a connection. It wraps zk.ErrNoServer and, if the wait was given up,
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

// OpError says which operation failed, and on which path (as the caller wrote
// it, without the namespace). Err keeps what ZooKeeper said, so errors.Is(err,
// zk.ErrNoNode) works.
type OpError struct {
	Op   string
	Path string
	Err  error
}

func (e *OpError) Error() string {
	if e.Path == "" {
		return e.Op + ": " + e.Err.Error() // of a Multi without operations
	}
	return e.Op + " " + e.Path + ": " + e.Err.Error()
}

func (e *OpError) Unwrap() error { return e.Err }

// opError wraps err, unless there is none.
func opError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &OpError{Op: op, Path: path, Err: err}
}

// unanswered is the error of a request that was given up before its answer came.
type unanswered struct{ error }

func (u unanswered) Unwrap() error { return u.error }

// Unknown makes [retry.Unknown] true: the server may carry the request out.
func (u unanswered) Unknown() bool { return true }

// doubtful is the error of a request whose answer does not say whether it was carried out.
type doubtful struct{ error }

func (d doubtful) Unwrap() error { return d.error }

// Unknown makes [retry.Unknown] true.
func (d doubtful) Unknown() bool { return true }
