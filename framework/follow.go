package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/internal/engine"
)

// Follow calls read, and again whenever the returned channel is closed or the connection has ended.
// It returns nil when read returns a nil channel and no error, and has no time limit of its own.
//
// read runs on the caller's goroutine, with a view of c in the session of the connection: see
// [Client.In]. On a later connection the server has caught up first, as with [Client.Sync], so no
// call sees an older state than an earlier one. The package comment describes errors of read.
//
// Errors are
//   - an error of read that is not transient,
//   - [ErrClosed],
//   - the error of ctx, with the last error of read, and zk.ErrNoServer without a connection,
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

// Again is returned by a read of [Client.Follow] to be called again at once.
var Again <-chan struct{} = engine.Again
