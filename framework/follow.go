package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/internal/engine"
)

// Follow calls read, and calls it again whenever the returned channel is closed or the connection
// is lost. It returns nil when read returns a nil channel and no error. Only ctx limits its
// duration.
//
// read runs on the caller's goroutine, with a view of c in the session of the connection: see
// [Client.In]. After a reconnect, Follow first waits until the server has caught up, as
// [Client.Sync] does. So no call sees an older state than an earlier call. The package comment
// describes the errors after which Follow calls read again.
//
// Errors are
//   - the error of read, if it is not transient,
//   - [ErrClosed] if the client is closed,
//   - the error of ctx if ctx is done, wrapped with the last error of read, if any, and with
//     zk.ErrNoServer if the client is not connected,
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

// Again is a closed channel. If the read function of [Client.Follow] returns it, Follow calls read
// again at once.
var Again <-chan struct{} = engine.Again
