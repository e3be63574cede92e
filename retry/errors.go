package retry

import (
	"context"
	"io"
	"net"
	"slices"
	"syscall"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"
)

// Retryable reports whether the request that failed with err may succeed when it is sent again unchanged. The
// whole library uses it to decide that.
//
// Yes for
//   - a request that was lost or never sent: [zk.ErrConnectionClosed],
//     [zk.ErrClosing], [zk.ErrNoServer], the connection loss and operation
//     timeout codes, and the [net.Error] or [io.EOF] of a failed socket write;
//   - a request that the server refused for now: [zk.ErrSessionMoved],
//     [zk.ErrSessionExpired] and the throttling code.
//
// No for nil and everything else: answers of a healthy server such as [zk.ErrNoNode], requests that were wrong
// to begin with, errors of a context, errors that it does not know, and a [backoff.PermanentError], which marks
// the error in it as not retryable.
//
// Wrapped and joined errors are examined too. One that means no outweighs any that mean yes; an unknown one
// outweighs none.
//
// An error with a method Retryable() bool that returns false also means no, whatever it wraps and whatever
// wraps it.
//
// After an expired session the request can be retried, but the ephemeral nodes and watches of the session are
// gone.
//
// go-zookeeper fails a request on a closed [zk.Conn] with either ErrConnectionClosed or ErrClosing, and with
// ErrConnectionClosed also if only the connection was lost. If you close a Conn, end the context given to [Do],
// or wrap the error with [backoff.Permanent].
//
// It is Curator's RetryPolicy.allowRetry(Throwable), which does not retry a throttled request.
func Retryable(err error) bool {
	return !contains(err, final) && (contains(err, refused) || contains(err, lost))
}

// Unknown reports whether the server may have carried out the operation that failed with err: its request was
// or may have been sent, and there was no answer.
//
// It is true for connection loss ([zk.ErrConnectionClosed], [zk.ErrClosing], a [net.Error] or [io.EOF] of a
// failed socket write) and for the operation timeout code. It is false for [zk.ErrNoServer], which means that
// the request was not sent, for requests that a server refuses before it does anything, and for any other
// answer. An error of a context alone says nothing about a request.
//
// The method Unknown() bool of an error decides for that error and all that it wraps. Of joined errors, one is
// enough.
func Unknown(err error) bool {
	if e, ok := err.(interface{ Unknown() bool }); ok {
		return e.Unknown()
	}
	return judge(err) == lost || slices.ContainsFunc(unwrap(err), Unknown)
}

// verdict is what one error says about the request that failed with it.
type verdict int

const (
	silent  verdict = iota // nothing
	final                  // it was answered, or must not be sent again
	refused                // surely not carried out, and may be sent again
	lost                   // perhaps carried out, and may be sent again
)

// verdicts holds every error value that has a verdict. go-zookeeper also declares
// ErrUnknown, which it never returns, and ErrNothing and ErrAPIError, which
// no server sends.
var verdicts = []struct {
	err error
	verdict
}{
	{zk.ErrConnectionClosed, lost},
	{zk.ErrClosing, lost}, // a request in flight when the Conn was closed
	{io.EOF, lost},
	{io.ErrUnexpectedEOF, lost},
	{io.ErrClosedPipe, lost}, // a write to the closed half of a net.Pipe
	{syscall.ECONNRESET, lost},
	{syscall.EPIPE, lost},

	{zk.ErrNoServer, refused}, // flushed from the send queue
	// The server checks a request's session before anything else.
	{zk.ErrSessionExpired, refused},
	{zk.ErrSessionMoved, refused},

	{zk.ErrNoNode, final},
	{zk.ErrNodeExists, final},
	{zk.ErrBadVersion, final},
	{zk.ErrNotEmpty, final},
	{zk.ErrNoChildrenForEphemerals, final},
	{zk.ErrNoAuth, final},
	{zk.ErrAuthFailed, final},
	{zk.ErrInvalidACL, final},
	{zk.ErrReconfigDisabled, final},
	{zk.ErrBadArguments, final},
	{zk.ErrInvalidFlags, final},
	{zk.ErrInvalidPath, final},
	{context.Canceled, final},
	{context.DeadlineExceeded, final},
}

// judge looks at err alone, not at what it wraps.
func judge(err error) verdict {
	if err == nil {
		return silent
	}
	for _, v := range verdicts {
		if err == v.err {
			return v.verdict
		}
	}
	if e, ok := err.(interface{ Retryable() bool }); ok && !e.Retryable() {
		return final
	}
	switch err.(type) {
	case *backoff.PermanentError:
		return final
	case syscall.Errno:
		// It has the methods of a net.Error, but files return it too. Errors of a socket are inside a
		// *net.OpError.
		return silent
	case net.Error:
		return lost
	}
	// Only the text tells: go-zookeeper has no values for these codes.
	switch err.Error() {
	case "unknown error: -4", // connection loss
		"unknown error: -7": // operation timeout
		return lost
	case "unknown error: -127": // throttled
		return refused
	}
	return silent
}

// contains reports whether err or an error that it wraps has verdict v.
func contains(err error, v verdict) bool {
	return judge(err) == v || slices.ContainsFunc(unwrap(err), func(err error) bool {
		return contains(err, v)
	})
}

// unwrap returns the errors that err wraps directly, one or several.
func unwrap(err error) []error {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	}
	return nil
}
