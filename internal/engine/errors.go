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

// afterTries is err, with which the last of several tries has ended. If an earlier one may have
// been carried out, unknown, [retry.Unknown] is true of it.
func afterTries(err error, unknown bool) error {
	if err == nil || !unknown || retry.Unknown(err) {
		return err
	}
	return wire.Doubtful(fmt.Errorf("%w (the answer to an earlier attempt was lost)", err))
}
