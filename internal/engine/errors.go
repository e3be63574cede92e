package engine

import (
	"errors"
	"fmt"

	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/retry"
)

// Errors that package framework documents.
var (
	ErrClosed           = wire.ErrClosed
	ErrUnimplemented    = wire.ErrUnimplemented
	ErrWatchUnsupported = wire.ErrWatchUnsupported
	ErrShutdown         = verdict.NewOver("client is shutting down", ErrClosed)
	ErrLost             = errors.New("lost")
	ErrSessionLost      = verdict.NewOver("session lost", ErrLost)
	ErrSuspended        = verdict.NewOver("connection suspended", ErrLost)
)

// Ended is why no operation of a view of one session can succeed any more: see [Client.Over].
type Ended struct{ Reason error }

func (e *Ended) Error() string { return e.Reason.Error() }
func (e *Ended) Unwrap() error { return e.Reason }

// Over returns nil while an operation of the client may succeed, now or later. It returns
// [ErrClosed] if the client was closed, and an [*Ended] if it is a view of one session, which is
// over. A loop that retries in the next session, or on the next connection, ends with it.
func (c Client) Over() error {
	switch s := c.session; {
	case c.ctx.Err() != nil:
		return ErrClosed
	case s == nil:
		return nil
	case s.core != c.core:
		return &Ended{notOurs(s)}
	case s.Err() != nil:
		return &Ended{s.Err()}
	}
	return nil
}

// afterTries returns err, the error of the last of several attempts. If unknown is true, an earlier
// attempt may have been carried out, and [retry.Unknown] reports true for the result.
func afterTries(err error, unknown bool) error {
	if err == nil || !unknown || retry.Unknown(err) {
		return err
	}
	return wire.Doubtful(fmt.Errorf("%w (the answer to an earlier attempt was lost)", err))
}
