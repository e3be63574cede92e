// Package verdict classifies the outcome of a failed request: whether it may be sent again, and
// whether the server may have carried it out.
package verdict

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"syscall"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"
)

// Verdict is the outcome of a failed request, as far as its error shows.
type Verdict int

const (
	// Answered means that a server has answered, or that the request was invalid. Sending the
	// request again does not help. Answered is also the verdict on nil and on unknown errors.
	Answered Verdict = iota + 1

	// Refused means that the request was certainly not applied, and may be sent again.
	Refused

	// Lost means that no answer was received, so the request may have been applied. It may be sent
	// again.
	Lost

	// Over means that the client, session, hold or context of the request has ended.
	Over
)

// Of returns the outcome of a request that failed with err. The whole library uses it.
//
// It is [Lost] or [Refused] for
//   - a request that was lost or never sent: [zk.ErrConnectionClosed], [zk.ErrClosing],
//     [zk.ErrNoServer], the connection loss and timeout codes, and the [net.Error] or [io.EOF] of a
//     failed socket write;
//   - a request that the server refused for now: [zk.ErrSessionMoved], [zk.ErrSessionExpired], the
//     throttling code, and the code of a ClickHouse Keeper with too little memory.
//
// It is [Over] for errors of a context, and [Answered] for a [backoff.PermanentError], for replies
// of a healthy server such as [zk.ErrNoNode], and for unknown errors. Before an error that is
// neither Answered nor Over, an earlier try may have been lost: see [Unknown].
//
// Wrapped and joined errors are examined too. If one of them is Over, so is the whole error.
// Otherwise, if one of them is Answered, so is the whole error. An unknown error counts only if no
// other is known. The method Verdict() Verdict of an error, if it exists, decides instead of the
// wrapped errors.
//
// After an expired session the request can be retried, but the session's ephemeral nodes and
// watches are lost.
func Of(err error) Verdict {
	switch {
	case contains(err, Over):
		return Over
	case contains(err, Answered) || !contains(err, Refused) && !contains(err, Lost):
		return Answered
	case Unknown(err):
		return Lost
	}
	return Refused
}

// Retryable reports whether the request that failed with err may succeed when it is sent again
// unchanged: it was [Refused] or [Lost]. It is false for nil.
func Retryable(err error) bool {
	v := Of(err)
	return v == Refused || v == Lost
}

// MayPass reports whether an operation that failed with err may succeed later in the same session:
// err is [Retryable] or [zk.ErrAuthFailed], since the next server, or the same one later, may
// accept the credentials. Until then operations fail without being sent, so the caller must pause
// between retries.
func MayPass(err error) bool {
	return Retryable(err) || errors.Is(err, zk.ErrAuthFailed) && Of(err) != Over
}

// Unknown reports whether the server may have carried out the operation that failed with err: see
// retry.Unknown.
func Unknown(err error) bool {
	if e, ok := err.(interface{ Unknown() bool }); ok {
		return e.Unknown()
	}
	return judge(err) == Lost || slices.ContainsFunc(unwrap(err), Unknown)
}

// verdicts holds every error value that has a verdict. go-zookeeper also declares
// ErrUnknown, which it never returns, and ErrNothing and ErrAPIError, which
// no server sends.
var verdicts = []struct {
	err error
	Verdict
}{
	{zk.ErrConnectionClosed, Lost},
	{zk.ErrClosing, Lost}, // a request in flight when the Conn was closed
	{io.EOF, Lost},
	{io.ErrUnexpectedEOF, Lost},
	{io.ErrClosedPipe, Lost}, // a write to the closed half of a net.Pipe
	{syscall.ECONNRESET, Lost},
	{syscall.EPIPE, Lost},

	{zk.ErrNoServer, Refused}, // flushed from the send queue
	// The server checks a request's session before anything else.
	{zk.ErrSessionExpired, Refused},
	{zk.ErrSessionMoved, Refused},

	{zk.ErrNoNode, Answered},
	{zk.ErrNodeExists, Answered},
	{zk.ErrBadVersion, Answered},
	{zk.ErrNotEmpty, Answered},
	{zk.ErrNoChildrenForEphemerals, Answered},
	{zk.ErrNoAuth, Answered},
	{zk.ErrAuthFailed, Answered},
	{zk.ErrInvalidACL, Answered},
	{zk.ErrReconfigDisabled, Answered},
	{zk.ErrBadArguments, Answered},
	{zk.ErrInvalidFlags, Answered},
	{zk.ErrInvalidPath, Answered},
	{context.Canceled, Over},
	{context.DeadlineExceeded, Over},
}

// judge examines err without the errors that it wraps. It returns 0 for an error that shows no
// outcome.
func judge(err error) Verdict {
	if err == nil {
		return 0
	}
	for _, v := range verdicts {
		if err == v.err {
			return v.Verdict
		}
	}
	switch err := err.(type) {
	case interface{ Verdict() Verdict }:
		return err.Verdict()
	case *backoff.PermanentError:
		return Answered
	case syscall.Errno:
		// It has the methods of a net.Error, but files return it too. Errors of a socket are inside
		// a *net.OpError.
		return 0
	case net.Error:
		return Lost
	}
	return 0
}

// contains reports whether err or an error that it wraps has verdict v.
func contains(err error, v Verdict) bool {
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

// over is an error with the verdict [Over], whatever is wrapped beside it.
type over struct {
	text    string
	wrapped error // may be nil
}

// NewOver returns an error with the verdict Over. wrapped may be nil.
func NewOver(text string, wrapped error) error { return &over{text, wrapped} }

func (e *over) Error() string    { return e.text }
func (e *over) Unwrap() error    { return e.wrapped }
func (e *over) Verdict() Verdict { return Over }
