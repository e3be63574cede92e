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
	ErrShutdown         = verdict.NewOver("client is shutting down", nil)
	ErrLost             = errors.New("lost")
	ErrSessionLost      = verdict.NewOver("session lost", ErrLost)
	ErrSuspended        = verdict.NewOver("connection suspended", ErrLost)
)

// afterTries returns err, the error of the last of several attempts. If unknown is true, an earlier
// attempt may have been carried out, and [retry.Unknown] reports true for the result.
func afterTries(err error, unknown bool) error {
	if err == nil || !unknown || retry.Unknown(err) {
		return err
	}
	return wire.Doubtful(fmt.Errorf("%w (the answer to an earlier attempt was lost)", err))
}
