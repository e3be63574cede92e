package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/internal/engine"
)

// Follow calls read, and calls it again whenever the returned channel is closed or the connection
// is lost. It returns nil when read returns a nil channel and no error. It has no time limit of its
// own.
//
// read runs on the caller's goroutine, with a view of c in the session of the connection: see
// [Client.In]. On a later connection, Follow first waits until the server has caught up, as
// [Client.Sync] does, so no call sees an older state than an earlier one. The package comment
// describes errors of read.
//
// Errors are
//   - the error of read, if it is not transient,
//   - [ErrClosed] when the client is closed,
//   - the error of ctx, wrapped with the last error of read, and with zk.ErrNoServer if the client
//     is not connected,
//   - [ErrBadArgument] if read is nil.
func (c *Client) Follow(ctx context.Context, read func(ctx context.Context, in *Client) (changed <-chan struct{}, err error)) error {
	if read == nil {
		return opError("follow", "", fmt.Errorf("%w: nil function", ErrBadArgument))
	}
	err := engine.Follow(ctx, c.engine, func(ctx context.Context, l engine.Link) (<-chan struct{}, error) {
		return read(ctx, c.In((*Session)(l.Session())))
	})
	if op := (*OpError)(nil); errors.As(err, &op) && ctx.Err() == nil {
		return err
	}
	return opError("follow", "", err)
}

// Again returns the channel with which a read of [Client.Follow] asks to be called again at once.
var Again <-chan struct{} = engine.Again
