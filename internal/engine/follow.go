package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/internal/wait"
)

// Again is a closed channel. If the read function of [Follow] returns it, Follow calls read again
// at once.
var Again = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Follow calls read on the current connection, and again when the channel that it returned is
// closed or the connection is lost. On a new connection it waits until the server has caught up, so
// read sees nothing older. A read that fails with a transient error (see [verdict.MayPass]) is
// repeated after a pause.
//
// The context of read is cancelled when Follow returns, which removes the watches that read has
// set.
//
// It returns nil when read returns a nil channel without an error, the error of read if it is not
// transient, and the error of [Client.GaveUp] when ctx is done.
func Follow(ctx context.Context, c Client, read func(ctx context.Context, l Link) (changed <-chan struct{}, err error)) error {
	reading, end := context.WithCancel(ctx)
	defer end()
	pauses := wait.Pauses{First: RefusedPause, Last: 3 * time.Second}
	var last Link
	for {
		l, err := c.caughtUp(ctx, last)
		var changed <-chan struct{}
		if err == nil {
			last = l
			if changed, err = read(reading, l); errors.Is(err, ErrSessionLost) {
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
		case !verdict.MayPass(err):
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

// caughtUp returns the current connection. If it is another one than last, which is not the first,
// its server has caught up.
func (c Client) caughtUp(ctx context.Context, last Link) (Link, error) {
	l, err := c.Link(ctx)
	if err == nil && l != last && last != (Link{}) {
		err = Ask(ctx, l.CatchUp)
	}
	return l, err
}

// confirm confirms a live session that its dependents count as lost, since nothing was proven for
// long. It pauses, so a caller does not confirm in a tight loop. If writes are too slow to prove
// the session, the error is [ErrSessionLost] with that reason.
func confirm(ctx context.Context, l Link) error {
	if l.Session().Err() != nil {
		return nil
	}
	err := cmp.Or(l.Confirm(ctx), Sleep(ctx, l.client, RefusedPause))
	if err == nil && l.session.core.pace.slow.Load() > 0 && !l.session.dependable() {
		return l.session.unconfirmed("it cannot be confirmed in time")
	}
	return err
}

// GaveUp returns the error of a wait that returns because ctx is done. It wraps the error and the
// cause of ctx, reason unless it is nil, and zk.ErrNoServer if the client is not connected.
func (c Client) GaveUp(ctx context.Context, reason error) error {
	err := wait.Err(ctx)
	if reason != nil && !errors.Is(reason, ctx.Err()) {
		err = fmt.Errorf("%w: %w", err, reason)
	}
	now := c.current()
	switch {
	case now.usable(nil) || errors.Is(err, zk.ErrNoServer):
		return err
	case reason != nil && now.why != nil && strings.HasSuffix(now.why.Error(), reason.Error()):
		return &wire.Unreachable{Given: err} // which says why
	}
	return c.unreachable(err)
}

// Sleep waits for d. It returns ctx's error when ctx is done, and [ErrClosed] when the client is
// closed.
func Sleep(ctx context.Context, c Client, d time.Duration) error { return c.sleep(ctx, d) }

// Ask sends a request without a result, and waits for the reply. It returns the error of ctx if ctx
// is done first.
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
