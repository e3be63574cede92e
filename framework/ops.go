package framework

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// Get returns a node's data and stat. The error is zk.ErrNoNode if there is no such node.
func (c *Client) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	r, err := asked(ctx, c, "get", path, func(real string) question[withStat[[]byte]] { return askGet(real, false) })
	return r.value, r.stat, err
}

// GetW is Get, and sets a watch that fires when the node's data are written or the node is deleted. No
// watch is set on a node that does not exist.
func (c *Client) GetW(ctx context.Context, path string) ([]byte, *zk.Stat, *Watch, error) {
	r, err := watched(ctx, c, "get", path, watchData, askGet)
	return r.value.value, r.value.stat, r.watch, err
}

// Children returns the names of a node's children, in no order, and the node's stat. The error is zk.ErrNoNode
// if there is no such node.
func (c *Client) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	r, err := asked(ctx, c, "children", path, func(real string) question[withStat[[]string]] { return askChildren(real, false) })
	return r.value, r.stat, err
}

// ChildrenW is Children, and sets a watch that fires when a child is created or deleted, or the node is deleted.
func (c *Client) ChildrenW(ctx context.Context, path string) ([]string, *zk.Stat, *Watch, error) {
	r, err := watched(ctx, c, "children", path, watchChildren, askChildren)
	return r.value.value, r.value.stat, r.watch, err
}

// Exists reports whether there is such a node, and returns its stat if so. A missing node is no error.
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

// ExistsW is Exists, and sets a watch that fires when the node is created, written or deleted.
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

// Set replaces a node's data if its version is the one given; -1 is any. nil data are no data, and not the
// client's default data as in [Client.Create]; empty data are something else. Errors are zk.ErrNoNode and
// zk.ErrBadVersion.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	return asked(ctx, c, "set", path, func(real string) question[*zk.Stat] { return askSet(real, data, version) })
}

// Sync makes the server that we are connected to catch up with the leader. What is read after it is nearly
// always at least as new as what anyone had written before it. It is not certain on the leader itself, which
// may apply a write later than a follower does. [Client.CatchUp] is certain.
func (c *Client) Sync(ctx context.Context, path string) error {
	_, err := asked(ctx, c, "sync", path, askSync)
	return err
}

// CatchUp returns when the server that we are connected to has applied every write that was answered, to any client, before
// CatchUp was called. What this session reads after it is at least as new. It is a write that changes nothing, so it costs
// what a write costs. It needs no node and no permission.
func (c *Client) CatchUp(ctx context.Context) error {
	_, err := c.Multi(ctx, &zk.CheckVersionRequest{Path: "/", Version: -1})
	// That the node is missing (it is the namespace's), or must not be read, is an answer in the order of writes, too.
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) {
		return nil
	}
	return opError("catch up", "/", errors.Unwrap(err))
}

// GetACL returns a node's ACL and stat. The error is zk.ErrNoNode if there is no such node.
func (c *Client) GetACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	r, err := asked(ctx, c, "getACL", path, askGetACL)
	return r.value, r.stat, err
}

// SetACL replaces a node's ACL if its ACL version is the one given; -1 is any. Errors are zk.ErrNoNode,
// zk.ErrBadVersion, and zk.ErrInvalidACL, also for an empty list.
func (c *Client) SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) (*zk.Stat, error) {
	return asked(ctx, c, "setACL", path, func(real string) question[*zk.Stat] { return askSetACL(real, acl, version) })
}

// Session returns the session that the client is connected with. If there is no connection it waits for one as
// an operation does: for the connection timeout, again and again under the retry policy. The error then wraps
// zk.ErrNoServer.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	var s *Session
	err := c.core.do(ctx, "connect", "/", func(l *link) error {
		s = l.session
		return nil
	})
	if err != nil {
		return nil, opError("connect", "/", err)
	}
	return s, nil
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
		result, err = askIfKnown(ctx, l, q(real))
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
