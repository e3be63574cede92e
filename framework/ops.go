package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

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
	r, err := asked(ctx, c, "get", path, askGet)
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
	r, err := asked(ctx, c, "children", path, askChildren)
	return r.value, r.stat, err
}

// ChildrenW is Children, and a watch that fires when a child comes or goes, or the node goes.
func (c *Client) ChildrenW(ctx context.Context, path string) ([]string, *zk.Stat, *Watch, error) {
	r, err := watched(ctx, c, "children", path, watchChildren, askChildren)
	return r.value.value, r.value.stat, r.watch, err
}

// Exists reports whether there is such a node, and its stat if so. A missing node is no error.
func (c *Client) Exists(ctx context.Context, path string) (bool, *zk.Stat, error) {
	r, err := request(ctx, c, "exists", path, func(conn *zk.Conn, real string) (withStat[bool], error) {
		return stated(conn.Exists(real))
	})
	if !r.value {
		return false, nil, err
	}
	return true, r.stat, err
}

// ExistsW is Exists, and a watch that fires when the node comes, changes or goes.
func (c *Client) ExistsW(ctx context.Context, path string) (bool, *zk.Stat, *Watch, error) {
	if err := ValidatePath(path); err != nil {
		return false, nil, nil, opError("exists", path, err)
	}
	var found bool
	var stat *zk.Stat
	var watch *Watch
	real := c.real(path)
	err := c.core.do(ctx, "exists", path, func(l *link) error {
		// Which of the two kinds it will be is for the server to say.
		there, gone := watchKey{real, watchData}, watchKey{real, watchGone}
		wThere, armedThere := l.watches.begin(there)
		wGone, armedGone := l.watches.begin(gone)
		r, err := call(ctx, l, func(conn *zk.Conn) (withStat[bool], error) {
			found, stat, _, err := conn.ExistsW(real)
			if !armedThere {
				l.watches.settle(there, wThere, err == nil && found)
			}
			if !armedGone {
				l.watches.settle(gone, wGone, err == nil && !found)
			}
			return withStat[bool]{found, stat}, err
		}, nil)
		if err != nil {
			return err
		}
		if found = r.value; found {
			stat, watch = r.stat, &Watch{wThere, c}
		} else {
			stat, watch = nil, &Watch{wGone, c}
		}
		return nil
	})
	return found, stat, watch, opError("exists", path, err)
}

// Set replaces a node's data if its version is the one given; -1 is any. nil and empty
// data are different things.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	return request(ctx, c, "set", path, func(conn *zk.Conn, real string) (*zk.Stat, error) {
		return conn.Set(real, data, version)
	})
}

// Sync has the server that we are connected to catch up with the leader: what
// is read after it is nearly always at least as new as what anyone had written before it. The
// leader itself may tell a follower to apply a write before it does so, and does not wait for
// that when one of its own clients syncs. A write, such as a Multi that only checks, is
// the certain way to catch up.
func (c *Client) Sync(ctx context.Context, path string) error {
	_, err := request(ctx, c, "sync", path, func(conn *zk.Conn, real string) (string, error) {
		return conn.Sync(real)
	})
	return err
}

// GetACL returns a node's ACL and stat.
func (c *Client) GetACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	r, err := request(ctx, c, "getACL", path, func(conn *zk.Conn, real string) (withStat[[]zk.ACL], error) {
		return stated(conn.GetACL(real))
	})
	return r.value, r.stat, err
}

// SetACL replaces a node's ACL if its ACL version is the one given; -1 is any. An empty
// list is zk.ErrInvalidACL.
func (c *Client) SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) (*zk.Stat, error) {
	return request(ctx, c, "setACL", path, func(conn *zk.Conn, real string) (*zk.Stat, error) {
		return conn.SetACL(real, acl, version)
	})
}

// Multi carries out all operations or none: *zk.CreateRequest (its Acl may be nil:
// then the client's ACL provider is asked), *zk.SetDataRequest, *zk.DeleteRequest and
// *zk.CheckVersionRequest. The requests are not changed. On failure the error wraps
// the first operation's that failed, and each response has its own. Containers
// and TTL nodes cannot be created in a Multi; that is [ErrBadArgument].
func (c *Client) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	if len(ops) == 0 {
		return nil, opError("multi", "", fmt.Errorf("%w: no operations", ErrBadArgument))
	}
	real := make([]any, len(ops))
	first := ""
	for i, op := range ops {
		path, served, err := c.multiOp(op)
		if i == 0 {
			first = path
		}
		if err != nil {
			return nil, opError("multi", path, err)
		}
		real[i] = served
	}
	var responses []zk.MultiResponse
	err := c.core.do(ctx, "multi", first, func(l *link) error {
		var err error
		responses, err = call(ctx, l, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
			return conn.Multi(real...)
		}, nil)
		return err
	})
	for i := range responses {
		responses[i].String = c.unreal(responses[i].String)
	}
	return responses, opError("multi", first, err)
}

// multiOp returns an operation of a Multi as the server shall see it.
func (c *Client) multiOp(op any) (path string, real any, err error) {
	switch op := op.(type) {
	case *zk.CreateRequest:
		if op == nil {
			break
		}
		switch op.Flags {
		case zk.FlagPersistent, zk.FlagEphemeral, zk.FlagSequence, zk.FlagEphemeralSequential:
		default:
			return op.Path, nil, fmt.Errorf("%w: create flags %d in a multi", ErrBadArgument, op.Flags)
		}
		r := *op
		r.Path = c.realNew(op.Path)
		if r.Acl == nil {
			r.Acl = c.core.acl(r.Path)
		}
		return op.Path, &r, ValidatePath(op.Path)
	case *zk.SetDataRequest:
		if op == nil {
			break
		}
		r := *op
		r.Path = c.real(op.Path)
		return op.Path, &r, ValidatePath(op.Path)
	case *zk.DeleteRequest:
		if op == nil {
			break
		}
		r := *op
		r.Path = c.real(op.Path)
		return op.Path, &r, ValidatePath(op.Path)
	case *zk.CheckVersionRequest:
		if op == nil {
			break
		}
		r := *op
		r.Path = c.real(op.Path)
		return op.Path, &r, ValidatePath(op.Path)
	}
	return "", nil, fmt.Errorf("%w: %T in a multi", ErrBadArgument, op)
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
	try := func() error {
		if attempts != nil {
			*attempts++
		}
		l, err := c.awaitLink(ctx, pinned, c.cfg.connectionTimeout)
		if err != nil {
			return err
		}
		return attempt(l)
	}
	err := try()
	if !retry.Retryable(err) {
		return err
	}
	// From here on it is slow anyway, and may afford a context that also ends
	// with the client.
	ctx, cancel := c.untilClosed(ctx)
	defer cancel()
	first := true
	err = retry.Do(ctx, c.cfg.policy, func() error {
		if first {
			first = false
			return err
		}
		return try()
	})
	if c.ctx.Err() != nil && !errors.Is(err, ErrClosed) {
		return backoff.Permanent(fmt.Errorf("%w: %w", ErrClosed, err))
	}
	return err
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

// request is an operation that is one request on one path.
func request[T any](ctx context.Context, c *Client, op, path string, f func(conn *zk.Conn, real string) (T, error)) (T, error) {
	var result T
	if err := ValidatePath(path); err != nil {
		return result, opError(op, path, err)
	}
	real := c.real(path)
	err := c.core.do(ctx, op, path, func(l *link) error {
		var err error
		result, err = call(ctx, l, func(conn *zk.Conn) (T, error) { return f(conn, real) }, nil)
		return err
	})
	if err != nil {
		var none T
		return none, opError(op, path, err)
	}
	return result, nil
}

// asked is request for those that go past the Conn.
func asked[T any](ctx context.Context, c *Client, op, path string, q func(real string, watch bool) question[T]) (T, error) {
	var none T
	if err := ValidatePath(path); err != nil {
		return none, opError(op, path, err)
	}
	real := c.real(path)
	var result T
	err := c.core.do(ctx, op, path, func(l *link) error {
		var err error
		result, err = ask(ctx, l, q(real, false))
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
		shared, armed := l.watches.begin(key)
		q := q(key.path, !armed)
		if !armed {
			q.settle = func(err error) { l.watches.settle(key, shared, err == nil) }
		}
		value, err := ask(ctx, l, q)
		result = withWatch[T]{value, &Watch{shared, c}}
		return err
	})
	if err != nil {
		return withWatch[T]{}, opError(op, path, err)
	}
	return result, nil
}

// withStat is a result that comes with a stat, as one value.
type withStat[T any] struct {
	value T
	stat  *zk.Stat
}

func stated[T any](value T, stat *zk.Stat, err error) (withStat[T], error) {
	return withStat[T]{value, stat}, err
}
