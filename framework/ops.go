package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/retry"
)

// Create makes a node and returns its path, which differs from the one asked for if it
// is sequential or protected. By default the node is persistent. nil data mean the client's default data; for a
// node with empty data, give an empty slice that is not nil. If the parent is the node of the client's
// namespace and is missing, it is made, too, as with [ContainerParents].
//
// Errors are zk.ErrNodeExists, zk.ErrNoNode (a parent is missing and neither [ContainerParents] nor
// [PersistentParents] was given), zk.ErrNoChildrenForEphemerals, zk.ErrInvalidACL, and [ErrBadArgument] for
// options that do not go together. If a reply was lost and Create fails, [retry.Unknown] is true: without
// [Protected] the node may be there. [ErrUnimplemented] means that the server makes no
// containers, or no nodes with a TTL, or knows nothing of [StatTo].
func (c *Client) Create(ctx context.Context, path string, data []byte, opts ...CreateOption) (string, error) {
	o, err := newCreation(path, opts)
	if err != nil {
		return "", opError("create", path, err)
	}
	created, err := c.engine.Create(ctx, path, c.orDefault(data), o)
	return created, opError("create", path, err)
}

// Get returns a node's data and stat. The error is zk.ErrNoNode if there is no such node.
func (c *Client) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	r, err := unwatched(ctx, c, "get", path, engine.AskGet)
	return r.Value, r.Stat, err
}

// GetW is Get, and sets a watch that fires when the node's data are written or the node is deleted. No
// watch is set on a node that does not exist.
func (c *Client) GetW(ctx context.Context, path string) ([]byte, *zk.Stat, *Watch, error) {
	r, watch, err := watched(ctx, c, "get", path, engine.WatchData, engine.AskGet)
	return r.Value, r.Stat, watch, err
}

// Children returns the names of a node's children, in no order, and the node's stat. The error is zk.ErrNoNode
// if there is no such node.
func (c *Client) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	r, err := unwatched(ctx, c, "children", path, engine.AskChildren)
	return r.Value, r.Stat, err
}

// ChildrenW is Children, and sets a watch that fires when a child is created or deleted, or the node is deleted.
func (c *Client) ChildrenW(ctx context.Context, path string) ([]string, *zk.Stat, *Watch, error) {
	r, watch, err := watched(ctx, c, "children", path, engine.WatchChildren, engine.AskChildren)
	return r.Value, r.Stat, watch, err
}

// Exists reports whether there is such a node, and returns its stat if so. A missing node is no error.
func (c *Client) Exists(ctx context.Context, path string) (bool, *zk.Stat, error) {
	stat, err := unwatched(ctx, c, "exists", path, engine.AskExists)
	return stat != nil, stat, err
}

// ExistsW is Exists, and sets a watch that fires when the node is created, written or deleted.
func (c *Client) ExistsW(ctx context.Context, path string) (found bool, stat *zk.Stat, watch *Watch, err error) {
	stat, watch, err = watched(ctx, c, "exists", path, engine.WatchData, engine.AskExists)
	return stat != nil, stat, watch, err
}

// AddWatch sets a persistent watch on path, which need not exist. It does not report what is there
// already: add the watch first, then read. It is Curator's watchers().add().
//
// f is called with every event, on the connection's goroutine and in the order of the connection: an
// event that the server sent before a reply has been given to f before the operation of that
// reply returns. So f must be quick, must not block and must not call the client. If f panics, the panic is logged, and f is
// called with the next event; if it ends the goroutine, as t.FailNow does, the connection ends. Watches on the same
// path and with the same mode share one watch on the server. Servers report nothing about nodes that the client is not allowed to read.
// If the client also has a recursive watch on this path, a [WatchPersistent] gets no event for children that the client
// may not read.
//
// The watch ends with its connection, also if the session lives on: nothing is replayed, so add
// it again then, and read again. Errors are [ErrWatchUnsupported], [ErrBadPath] and [ErrBadArgument].
func (c *Client) AddWatch(ctx context.Context, path string, mode WatchMode, f func(zk.Event)) (*PersistentWatch, error) {
	const op = "addWatch"
	if f == nil {
		return nil, opError(op, path, fmt.Errorf("%w: nil function", ErrBadArgument))
	}
	if mode != WatchPersistent && mode != WatchRecursive {
		return nil, opError(op, path, fmt.Errorf("%w: watch mode %d", ErrBadArgument, mode))
	}
	return do(ctx, c, op, path, func(l *engine.Connection, _ string) (*PersistentWatch, error) {
		w, err := c.engine.AddWatch(ctx, l, path, engine.Mode(mode), f)
		return &PersistentWatch{w}, err
	})
}

// Set replaces a node's data if its version is the one given; -1 is any. nil data are no data, and not the
// client's default data as in [Client.Create]; empty data are something else. Errors are zk.ErrNoNode and
// zk.ErrBadVersion.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	return asked(ctx, c, "set", path, func(real string) engine.Request[*zk.Stat] { return engine.AskSet(real, data, version) })
}

// Delete deletes a node if its version is the one given; -1 is any. Errors are zk.ErrNoNode, zk.ErrBadVersion
// and zk.ErrNotEmpty.
//
// A deletion whose reply was lost is repeated as the retry policy says. If the node is missing then, nobody
// knows who deleted it: the error wraps zk.ErrNoNode, and [retry.Unknown] is true. ([Client.DeleteIfExists] and
// [Client.DeleteGuaranteed] return no error.) If somebody has made the node again, with the same version, that
// one is deleted. New nodes have version 0.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	_, err := asked(ctx, c, "delete", path, func(real string) engine.Request[engine.None] { return engine.AskDelete(real, version) })
	return err
}

// DeleteIfExists is [Client.Delete], but a missing node is no error. found is false if the node was
// missing, unless this call may have deleted it. It is Curator's delete().quietly(), except that
// other failures are still errors.
func (c *Client) DeleteIfExists(ctx context.Context, path string, version int32) (found bool, err error) {
	err = c.Delete(ctx, path, version)
	if errors.Is(err, zk.ErrNoNode) {
		return retry.Unknown(err), nil
	}
	return err == nil, err
}

// DeleteGuaranteed deletes a node of any version, however long it takes: it tries
// until the node is gone, the server refuses for good (zk.ErrNoAuth,
// zk.ErrNotEmpty) or the client is closed. When ctx is done first, DeleteGuaranteed
// returns its error, and the client continues in the background. A missing node is success; found
// is false then, unless this call may have deleted it. With a context from [InSession] all of this
// ends with the session, and the error is [ErrSessionLost].
//
// It is Curator's delete().guaranteed().
func (c *Client) DeleteGuaranteed(ctx context.Context, path string) (found bool, err error) {
	if err := ValidatePath(path); err != nil {
		return false, opError("delete", path, err)
	}
	found, err = c.engine.DeleteGuaranteed(ctx, path, false)
	return found, opError("delete", path, err)
}

// Sync returns when the server that we are connected to has applied every write that was answered, to any client, before
// Sync was called. What this session reads after it is at least as new. It is a write that changes nothing, so it costs
// what a write costs: more than one if nobody can depend on the session yet, see [Session.Depend], which somebody can when Sync
// returns. It needs no node and no permission. It is stronger than the operation "sync" of ZooKeeper and of Curator for Java, which a
// leader that its followers have replaced answers alone.
func (c *Client) Sync(ctx context.Context) error {
	err := c.engine.Do(ctx, "sync", "/", func(l *engine.Connection) error { return l.Confirm(ctx) })
	return opError("sync", "/", err)
}

// GetACL returns a node's ACL and stat. The error is zk.ErrNoNode if there is no such node.
func (c *Client) GetACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	r, err := asked(ctx, c, "getACL", path, askGetACL)
	return r.Value, r.Stat, err
}

// SetACL replaces a node's ACL if its ACL version is the one given; -1 is any. Errors are zk.ErrNoNode,
// zk.ErrBadVersion, and zk.ErrInvalidACL, also for an empty list.
func (c *Client) SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) (*zk.Stat, error) {
	return asked(ctx, c, "setACL", path, func(real string) engine.Request[*zk.Stat] { return askSetACL(real, acl, version) })
}

// Session returns the session that the client is connected with. If there is no connection it waits for one as
// an operation does: for the connection timeout, again and again under the retry policy. The error then wraps
// zk.ErrNoServer.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	return do(ctx, c, "connect", "/", func(l *engine.Connection, _ string) (*Session, error) { return (*Session)(l.Session()), nil })
}

func askGetACL(path string) engine.Request[engine.WithStat[[]zk.ACL]] {
	return engine.AskAbout(proto.OpGetACL, path, func(d *proto.Decoder) engine.WithStat[[]zk.ACL] {
		acls := d.ACLs()
		list := make([]zk.ACL, len(acls))
		for i, a := range acls {
			list[i] = zk.ACL(a)
		}
		return engine.WithStat[[]zk.ACL]{Value: list, Stat: engine.ParseStat(d)}
	})
}

func askSetACL(path string, acl []zk.ACL, version int32) engine.Request[*zk.Stat] {
	r := proto.SetACLRequest{Path: path, ACL: engine.ProtoACL(acl), Version: version}
	return engine.Request[*zk.Stat]{Op: proto.OpSetACL, Frame: r.Append(conn.Begin(64 + len(path))), Parse: engine.ParseStat}
}

// do is an operation on a path: run is called with each connection that it is tried on, and with the path on the server. What it
// returns beside an error is dropped. For an exists, a missing node is no error.
func do[T any](ctx context.Context, c *Client, op, path string, run func(l *engine.Connection, real string) (T, error)) (result T, err error) {
	if err = ValidatePath(path); err == nil {
		real := c.engine.Real(path)
		err = c.engine.Do(ctx, op, path, func(l *engine.Connection) (err error) {
			result, err = run(l, real)
			if op == "exists" && errors.Is(err, zk.ErrNoNode) {
				err = nil
			}
			return err
		})
	}
	if err != nil {
		var none T
		return none, opError(op, path, err)
	}
	return result, nil
}

// asked is an operation that is one request on one path.
func asked[T any](ctx context.Context, c *Client, op, path string, q func(real string) engine.Request[T]) (T, error) {
	return do(ctx, c, op, path, func(l *engine.Connection, real string) (T, error) { return engine.Call(ctx, l, q(real)) })
}

// unwatched is asked without a watch.
func unwatched[T any](ctx context.Context, c *Client, op, path string, q engine.Reading[T]) (T, error) {
	return do(ctx, c, op, path, func(l *engine.Connection, real string) (T, error) { return engine.Call(ctx, l, q(real, false)) })
}

// watched is asked with a watch, which is asked for unless it is there already.
func watched[T any](ctx context.Context, c *Client, op, path string, kind engine.WatchKind, q engine.Reading[T]) (result T, watch *Watch, err error) {
	result, err = do(ctx, c, op, path, func(l *engine.Connection, real string) (T, error) {
		result, set, err := engine.Watched(ctx, c.engine, l, real, kind, q)
		watch = (*Watch)(set)
		return result, err
	})
	if err != nil {
		watch = nil
	}
	return result, watch, err
}
