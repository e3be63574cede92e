package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/internal/engine"
)

// Follow reads, waits for a change, and reads again: it calls read, and again when the channel that read returned is closed,
// such as [Watch.Done], or the connection has ended. It is what most recipes are made of:
//
//	err := client.Follow(ctx, func(ctx context.Context) (<-chan struct{}, error) {
//		data, _, watch, err := client.GetW(ctx, "/config")
//		if err != nil {
//			return nil, err
//		}
//		use(data)
//		return watch.Done(), nil
//	})
//
// read is called with a context from [InSession], one call at a time, on the caller's goroutine. On another connection than the
// call before, the server has caught up first, as with [Client.Sync]: no call sees an older state than one before it. If
// read fails with an error that may pass (see [retry.MayPass]), it is called again after a pause. If it fails with [ErrSessionLost], it
// is called again in the next session, or, if [Session.Depend] refused a session that was idle for long, when that was confirmed.
// So read must not return the loss of something else as it is, such as that of a lock that the caller holds. zk.ErrNoNode does not pass:
// the example ends when the node is missing. To follow a node that may be missing, use [Client.ExistsW] and return its watch.
//
// Follow returns nil when read returns a nil channel without an error, and otherwise an [*OpError]: with the error of read that
// does not pass, with [ErrClosed], or, when ctx is done, with the error of ctx, the last error of read, and
// zk.ErrNoServer if there is no connection. A nil read is an [ErrBadArgument]. It waits without a limit of its own.
func (c *Client) Follow(ctx context.Context, read func(ctx context.Context) (changed <-chan struct{}, err error)) error {
	if read == nil {
		return opError("follow", "", fmt.Errorf("%w: nil function", ErrBadArgument))
	}
	err := engine.Follow(ctx, c.engine, func(ctx context.Context, l engine.Link) (<-chan struct{}, error) {
		return read(engine.InSession(ctx, l.Session()))
	})
	if op := (*OpError)(nil); errors.As(err, &op) && ctx.Err() == nil {
		return err
	}
	return opError("follow", "", err)
}
