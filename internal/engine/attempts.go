package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
)

// Do runs attempt on a connection, and again on the next one as the policy says. With a
// context of [InSession] it stays in that session. op and path are what the caller
// asked for.
func (c *core) Do(ctx context.Context, op, path string, attempt func(l *Connection) error) error {
	began := time.Now()
	tries, err := c.repeat(ctx, false, attempt)
	c.report(ctx, Operation{Op: op, Path: path, Began: began, Attempts: tries, Err: err})
	return err
}

// report reports an operation that has ended, if somebody observes.
func (c *core) report(ctx context.Context, e Operation) {
	if c.cfg.Operation != nil {
		e.Duration = time.Since(e.Began)
		c.cfg.Operation(ctx, e)
	}
}

// repeat tries as the policy says, or, with persist, until attempt succeeds or fails for good, ctx is done or the client is
// closed. It returns the number of tries. If one before the last may have been carried out, [retry.Unknown] is true of an error.
func (c *core) repeat(ctx context.Context, persist bool, attempt func(l *Connection) error) (tries int, err error) {
	pinned := c.pinned(ctx)
	limit, mayPass := c.cfg.ConnectionTimeout, retry.Retryable
	if persist {
		limit, mayPass = noLimit, retry.MayPass
	}
	var next func() time.Duration // the next pause; nil: none was needed yet
	unknown := false              // a try before the last one was lost
	for {
		tries++
		var used *Connection
		if used, err = c.awaitLink(ctx, pinned, limit); err == nil {
			err = attempt(used)
		}
		if !mayPass(err) || HintsOf(ctx).Once && !persist {
			break
		}
		if next == nil {
			next = c.cfg.Policy.NewBackOff().NextBackOff
			if persist {
				pauses := connectPauses()
				next = pauses.Next
			}
		}
		d := next()
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
		unknown = unknown || retry.Unknown(err)
	}
	return tries, afterTries(err, unknown)
}

// pause waits for d, or until there is another connection than the one that was used. An error means that ctx has
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

// Hints are how a single operation is to be carried out. They are in a context since they pass through functions of others: Sent
// and Replaces through the Create of a driver, Once through reads that are followed.
type Hints struct {
	// Sent is called when a create has been written to the network, before its answer, and again if the
	// request is repeated: for a request that is to follow at once. ZooKeeper answers the requests of a
	// session in order. It must not block.
	Sent func()

	// Once has an operation tried once, whatever the retry policy is: it is not repeated when its outcome is unknown.
	Once bool

	// Replaces is the path of a node that a protected create deletes in the same transaction. If it does not exist the
	// create fails with zk.ErrNoNode.
	Replaces string
}

type hintsKey struct{}

// WithHints returns a context with which operations are carried out as hints say.
func WithHints(ctx context.Context, hints Hints) context.Context {
	return context.WithValue(ctx, hintsKey{}, hints)
}

// HintsOf returns the hints of a context.
func HintsOf(ctx context.Context) Hints {
	hints, _ := ctx.Value(hintsKey{}).(Hints)
	return hints
}
