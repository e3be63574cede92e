package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/internal/ctxerr"
	"github.com/gocurator/curator/retry"
)

// What all operations of this file have in common: they wait for a connection if there
// is none, are repeated under the client's policy as long as [retry.Retryable] allows,
// and return at once when ctx is done or the client closed. An error wraps what
// ZooKeeper said; [retry.Unknown] tells whether a write may have been carried out
// all the same. A write that was carried out and whose reply was lost is sent again, so it
// may meet itself: a Set with a version as zk.ErrBadVersion, a Create as
// zk.ErrNodeExists (protection avoids that), a Multi as either.

// Get returns a node's data and stat. The error is zk.ErrNoNode if there is no such node.
func (c *Client) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	r, err := asked(ctx, c, "get", path, func(real string) question[withStat[[]byte]] { return askGet(real, false) })
	return r.value, r.stat, err
}

// GetW is Get, and a watch that fires when the node's data change or the node goes. No
// watch is set on a node that is not there.
func (c *Client) GetW(ctx context.Context, path string) ([]byte, *zk.Stat, *Watch, error) {
	r, err := watched(ctx, c, "get", path, watchData, askGet)
	return r.value.value, r.value.stat, r.watch, err
}

// Children returns the names of a node's children, in no order, and the node's stat.
func (c *Client) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	r, err := asked(ctx, c, "children", path, func(real string) question[withStat[[]string]] { return askChildren(real, false) })
	return r.value, r.stat, err
}

// ChildrenW is Children, and a watch that fires when a child comes or goes, or the node goes.
func (c *Client) ChildrenW(ctx context.Context, path string) ([]string, *zk.Stat, *Watch, error) {
	r, err := watched(ctx, c, "children", path, watchChildren, askChildren)
	return r.value.value, r.value.stat, r.watch, err
}

// Exists reports whether there is such a node, and its stat if so. A missing node is no error.
func (c *Client) Exists(ctx context.Context, path string) (bool, *zk.Stat, error) {
	if err := ValidatePath(path); err != nil {
		return false, nil, opError("exists", path, err)
	}
	var stat *zk.Stat
	err := c.core.do(ctx, "exists", path, func(l *link) error {
		var err error
		if stat, err = ask(ctx, l, askExists(c.real(path), false)); errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	})
	return err == nil && stat != nil, stat, opError("exists", path, err)
}

// ExistsW is Exists, and a watch that fires when the node comes, changes or goes.
func (c *Client) ExistsW(ctx context.Context, path string) (bool, *zk.Stat, *Watch, error) {
	if err := ValidatePath(path); err != nil {
		return false, nil, nil, opError("exists", path, err)
	}
	var stat *zk.Stat
	var watch *Watch
	real := c.real(path)
	err := c.core.do(ctx, "exists", path, func(l *link) error {
		var shared *sharedWatch
		var err error
		stat, shared, err = l.watches.askExists(ctx, real)
		watch = &Watch{shared, c}
		return err
	})
	found := err == nil && stat != nil
	if err != nil {
		stat, watch = nil, nil
	}
	return found, stat, watch, opError("exists", path, err)
}

// Set replaces a node's data if its version is the one given; -1 is any. nil and empty
// data are different things.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	return asked(ctx, c, "set", path, func(real string) question[*zk.Stat] { return askSet(real, data, version) })
}

// Sync has the server that we are connected to catch up with the leader: what
// is read after it is nearly always at least as new as what anyone had written before it. The
// leader itself may tell a follower to apply a write before it does so, and does not wait for
// that when one of its own clients syncs. A write, such as a Multi that only checks, is
// the certain way to catch up.
func (c *Client) Sync(ctx context.Context, path string) error {
	_, err := asked(ctx, c, "sync", path, askSync)
	return err
}

// GetACL returns a node's ACL and stat.
func (c *Client) GetACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	r, err := asked(ctx, c, "getACL", path, askGetACL)
	return r.value, r.stat, err
}

// SetACL replaces a node's ACL if its ACL version is the one given; -1 is any. An empty
// list is zk.ErrInvalidACL.
func (c *Client) SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) (*zk.Stat, error) {
	return asked(ctx, c, "setACL", path, func(real string) question[*zk.Stat] { return askSetACL(real, acl, version) })
}

// do runs attempt on a connection, and again on the next one as the policy says. With a
// context from [InSession] it stays in that session. op and path are what the caller
// asked for.
func (c *core) do(ctx context.Context, op, path string, attempt func(l *link) error) error {
	if c.observer == nil {
		return c.repeat(ctx, attempt, nil)
	}
	return c.observed(ctx, op, path, func(attempts *int) error { return c.repeat(ctx, attempt, attempts) })
}

// repeat is do, and counts the attempts unless attempts is nil.
func (c *core) repeat(ctx context.Context, attempt func(l *link) error, attempts *int) error {
	pinned := sessionOf(ctx)
	var used *link // by the last attempt
	try := func() error {
		if attempts != nil {
			*attempts++
		}
		var err error
		if used, err = c.awaitLink(ctx, pinned, c.cfg.connectionTimeout); err != nil {
			return err
		}
		return attempt(used)
	}
	failed := try()
	if !retry.Retryable(failed) || clientapi.HintsOf(ctx).Once {
		return failed
	}
	// From here on it is slow anyway, and may afford a context that also ends
	// with the client.
	ctx, cancel := c.untilClosed(ctx)
	defer cancel()
	first := true
	pause := func(ctx context.Context, d time.Duration) error { return c.pause(ctx, d, used) }
	err := retry.DoPausing(ctx, c.cfg.policy, pause, func() error {
		if first {
			first = false
			return failed
		}
		return try()
	})
	if first { // ctx has ended meanwhile; the first attempt may have been carried out all the same
		err = fmt.Errorf("%w: %w", err, failed)
	}
	if c.ctx.Err() != nil && !errors.Is(err, ErrClosed) {
		return backoff.Permanent(fmt.Errorf("%w: %w", ErrClosed, err))
	}
	return err
}

// pause waits for d, or until there is another connection than the one that was used.
func (c *core) pause(ctx context.Context, d time.Duration, used *link) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		c.mu.Lock()
		l, changed := c.link, c.changed
		c.mu.Unlock()
		if ctx.Err() != nil {
			return ctxerr.Of(ctx)
		}
		if l != nil && l != used && l.up() {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil
		case <-ctx.Done():
		}
	}
}

// untilClosed returns a context that ends with ctx or, with cause ErrClosed, with the client.
func (c *core) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// asked is an operation that is one request on one path.
func asked[T any](ctx context.Context, c *Client, op, path string, q func(real string) question[T]) (T, error) {
	var none T
	if err := ValidatePath(path); err != nil {
		return none, opError(op, path, err)
	}
	real := c.real(path)
	var result T
	err := c.core.do(ctx, op, path, func(l *link) error {
		var err error
		result, err = ask(ctx, l, q(real))
		return err
	})
	if err != nil {
		return none, opError(op, path, err)
	}
	return result, nil
}

// withWatch is the result of a read that set a watch.
type withWatch[T any] struct {
	value T
	watch *Watch
}

// watched is asked with a watch, which is asked for unless it is there already.
func watched[T any](ctx context.Context, c *Client, op, path string, kind watchKind, q func(real string, watch bool) question[T]) (withWatch[T], error) {
	var result withWatch[T]
	if err := ValidatePath(path); err != nil {
		return result, opError(op, path, err)
	}
	key := watchKey{c.real(path), kind}
	err := c.core.do(ctx, op, path, func(l *link) error {
		value, shared, err := askWatched(ctx, l, key, q)
		result = withWatch[T]{value, &Watch{shared, c}}
		return err
	})
	if err != nil {
		return withWatch[T]{}, opError(op, path, err)
	}
	return result, nil
}
