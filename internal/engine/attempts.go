package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
)

// Do runs attempt on a connection, and again on the next one as the policy says. With a
// context of [InSession] it stays in that session. op and path are what the caller
// asked for.
func (c *core) Do(ctx context.Context, op, path string, attempt func(l *Connection) error) error {
	if c.cfg.Operation == nil {
		return c.repeat(ctx, attempt, nil)
	}
	return c.observed(ctx, op, path, func(attempts *int) error { return c.repeat(ctx, attempt, attempts) })
}

// Session is the session of the connection, for which it waits as an operation does, and is not observed.
func (c *core) Session(ctx context.Context) (s *Session, err error) {
	err = c.repeat(ctx, func(l *Connection) error {
		s = l.session
		return nil
	}, nil)
	return s, err
}

// repeat is Do, and counts the attempts unless attempts is nil.
func (c *core) repeat(ctx context.Context, attempt func(l *Connection) error, attempts *int) error {
	pinned := c.pinned(ctx)
	var used *Connection // by the last attempt
	try := func() error {
		if attempts != nil {
			*attempts++
		}
		var err error
		if used, err = c.awaitLink(ctx, pinned, c.cfg.ConnectionTimeout); err != nil {
			return err
		}
		return attempt(used)
	}
	err := try()
	if !retry.Retryable(err) || HintsOf(ctx).Once {
		return err
	}
	pauses := c.cfg.Policy.NewBackOff()
	unknown := false // an attempt before the last one was lost
	for tries := 1; retry.Retryable(err); tries++ {
		unknown = unknown || retry.Unknown(err)
		d := pauses.NextBackOff()
		if d < 0 && ctx.Err() == nil && c.ctx.Err() == nil {
			if tries > 1 {
				err = fmt.Errorf("%w after %d calls: %w", retry.ErrExhausted, tries, err)
			}
			break
		}
		if ended := c.pause(ctx, d, used); ended != nil {
			err = fmt.Errorf("%w: %w", ended, err)
			break
		}
		err = try()
	}
	if err != nil && c.ctx.Err() != nil && !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	if err != nil && unknown {
		err = doubtful{err}
	}
	return err
}

// pause waits for d, or until there is another connection than the one that was used. An error means that ctx has
// ended or the client was closed.
func (c *core) pause(ctx context.Context, d time.Duration, used *Connection) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		now, changed := c.now.Get()
		if ctx.Err() != nil {
			return wait.Err(ctx)
		}
		if c.ctx.Err() != nil {
			return ErrClosed
		}
		if l := now.link; l != nil && l != used && l.up() {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil
		case <-ctx.Done():
		case <-c.ctx.Done():
		}
	}
}

// persist repeats attempt, whatever the policy says, until it succeeds, fails for
// good, ctx is done or the client is closed.
func (c *core) persist(ctx context.Context, attempt func(l *Connection) error) error {
	pinned := c.pinned(ctx)
	pauses := connectPauses()
	for {
		l, err := c.awaitLink(ctx, pinned, 0)
		if err == nil {
			err = attempt(l)
		}
		if err == nil || !retry.MayPass(err) {
			return err
		}
		if ended := c.pause(ctx, pauses.Next(), l); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}
