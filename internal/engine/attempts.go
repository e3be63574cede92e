package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
)

// Do runs attempt on a connection, and retries it on the next connection under the retry policy. A
// view of one session retries in that session only. op and path name the caller's operation in
// errors.
func (c Client) Do(ctx context.Context, op, path string, attempt func(l *Connection) error) error {
	began := time.Now()
	tries, err := c.repeat(ctx, false, attempt)
	c.report(ctx, Operation{Op: op, Path: path, Began: began, Attempts: tries, Err: err})
	return err
}

// Repeat runs attempt on a connection, and retries it under the retry policy, without a report to
// the observer.
func (c Client) Repeat(ctx context.Context, attempt func(l *Connection) error) error {
	_, err := c.repeat(ctx, false, attempt)
	return err
}

// report passes an operation that has ended to the observer, if one is configured.
func (c *core) report(ctx context.Context, e Operation) {
	if c.cfg.Operation != nil {
		e.Duration = time.Since(e.Began)
		c.cfg.Operation(ctx, e)
	}
}

// repeat tries as the policy says, or, with persist, until attempt succeeds or fails for good, ctx
// is done or the client is closed. It returns the number of tries. If one before the last may have
// been carried out, [retry.Unknown] is true of an error.
func (c Client) repeat(ctx context.Context, persist bool, attempt func(l *Connection) error) (tries int, err error) {
	limit, mayPass := c.cfg.ConnectionTimeout, verdict.Retryable
	if persist {
		limit, mayPass = noLimit, verdict.MayPass
	}
	var next func() time.Duration // the next pause; nil: none was needed yet
	unknown := false              // a try before the last was lost
	for {
		tries++
		var used *Connection
		if used, err = c.awaitLink(ctx, c.session, limit); err == nil {
			err = attempt(used)
		}
		if !mayPass(err) || c.once && !persist {
			break
		}
		if next == nil {
			next = c.pauses(persist)
		}
		d := next()
		if d < 0 && ctx.Err() == nil && c.ctx.Err() == nil {
			if tries > 1 {
				err = fmt.Errorf("%w after %d attempts: %w", retry.ErrExhausted, tries, err)
			}
			break
		}
		if ended := c.pause(ctx, d, used); ended != nil {
			if ctx.Err() == nil || !errors.Is(err, ctx.Err()) { // otherwise it says so already
				err = fmt.Errorf("%w: %w", ended, err)
			}
			break
		}
		unknown = unknown || retry.Unknown(err)
	}
	return tries, afterTries(err, unknown)
}

// pauses returns the policy's pauses between tries, or with persist the pauses of work that must
// succeed.
func (c Client) pauses(persist bool) (next func() time.Duration) {
	if persist {
		pauses := connectPauses()
		return pauses.Next
	}
	return c.Pauses().NextBackOff
}

// pause waits for d, or until there is another connection than used. An error means that ctx has
// ended or the client was closed.
func (c *core) pause(ctx context.Context, d time.Duration, used *Connection) error {
	within, cancel := c.within(ctx, d)
	defer cancel()
	_, _ = c.now.Until(within, func(now inUse) bool { return now.link != used && now.usable(nil) })
	switch {
	case ctx.Err() != nil:
		return wait.Err(ctx)
	case c.ctx.Err() != nil:
		return ErrClosed
	}
	return nil
}
