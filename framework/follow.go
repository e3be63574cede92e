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
// [Client.In]. After a reconnect, Follow first waits until the server has applied every write that
// completed before. So no call sees an older state than an earlier call.
//
// After a transient error of read, such as a lost connection or refused credentials, Follow pauses
// and calls read again. zk.ErrNoNode is not transient: to follow a node that may be missing, use
// [Client.ExistsW]. After [ErrSessionLost] Follow calls read in the next session, or when an idle
// session has been confirmed. So read must not return an error that wraps the ErrSessionLost of
// something else, such as the caller's lock.
//
// Errors are
//   - the error of read, if it is not transient;
//   - [ErrClosed] if the client is closed;
//   - [ErrSessionLost] if c is a view of a lost session, or if writes are too slow to confirm an
//     idle session;
//   - the error of ctx if ctx is done, wrapped with the last error of read, if any, and with
//     zk.ErrNoServer if the client is not connected;
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
