package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
)

// Again is the channel of a read that is to be repeated at once.
var Again = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Follow calls read on the connection that there is, and again when the channel that it returned is closed, or that connection
// has ended. On another connection than the one before, the server has caught up before read is called, so that read sees
// nothing older. A read that fails with an error that may pass (see [retry.MayPass]) is repeated after a pause.
//
// It returns nil when read returns a nil channel without an error, and otherwise the error with which read failed, or that of
// [Client.GaveUp] when ctx has ended.
func Follow(ctx context.Context, c Client, read func(ctx context.Context, l Link) (changed <-chan struct{}, err error)) error {
	pauses := wait.Pauses{First: RefusedPause, Last: 3 * time.Second}
	var last Link
	for {
		l, err := c.Link(ctx)
		if err == nil && l != last && last != (Link{}) {
			err = Ask(ctx, l.CatchUp)
		}
		var changed <-chan struct{}
		if err == nil {
			last = l
			if changed, err = read(ctx, l); errors.Is(err, ErrSessionLost) {
				changed, err = Again, confirm(ctx, l)
			}
		}
		switch {
		case err == nil && changed == nil:
			return nil
		case err == nil:
			pauses.Reset()
			select {
			case <-changed:
			case <-l.Down():
			case <-ctx.Done():
			case <-c.Done(): // c.Link says so
			}
		case ctx.Err() != nil:
		case !retry.MayPass(err):
			return err
		default:
			if Sleep(ctx, c, pauses.Next()) == nil {
				continue
			}
		}
		if ctx.Err() != nil {
			return c.GaveUp(ctx, err)
		}
	}
}

// confirm confirms a session that lives, which was lost only to those who depend on it: nothing was proven for long. It pauses, so that
// the caller does not do so again and again.
func confirm(ctx context.Context, l Link) error {
	if l.Session().Err() != nil {
		return nil
	}
	return errors.Join(l.Confirm(ctx), Sleep(ctx, l.client, RefusedPause))
}

// GaveUp is the error of a wait that ended with ctx, which must be done: the error and the cause of ctx, then reason,
// unless it is nil, and zk.ErrNoServer if there is no connection.
func (c Client) GaveUp(ctx context.Context, reason error) error {
	err := wait.Err(ctx)
	if reason != nil && !errors.Is(reason, ctx.Err()) {
		err = fmt.Errorf("%w: %w", err, reason)
	}
	if c.current().usable(nil) || errors.Is(err, zk.ErrNoServer) {
		return err
	}
	return c.unreachable(err)
}

// Sleep waits for d, and less long if the client is closed: whatever is asked of it next says so. The error is that of ctx.
func Sleep(ctx context.Context, c Client, d time.Duration) error { return c.sleep(ctx, d) }

// Ask sends a request that has no result, and waits for its answer or for ctx.
func Ask(ctx context.Context, send func(done func(error))) error {
	answered := make(chan error, 1)
	send(func(err error) { answered <- err })
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return wait.Err(ctx)
	}
}
