package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/proto"
)

// Create creates a node and returns its path, which differs from path if the node is sequential or
// protected. The default mode is persistent: see [As]. nil is empty data.
//
// Errors are
//   - zk.ErrNodeExists if the node exists;
//   - zk.ErrNoNode if a parent is missing and neither [ContainerParents] nor [PersistentParents]
//     is given;
//   - zk.ErrNoAuth if the client is not permitted to create children of the parent;
//   - zk.ErrNoChildrenForEphemerals if the parent is ephemeral;
//   - zk.ErrInvalidACL if the server refuses the ACL;
//   - [ErrUnimplemented] if the server does not support containers, TTL nodes or [StatTo];
//   - [ErrBadArgument] if an option is invalid, or options cannot be combined;
//   - [ErrTooLong] if the request is longer than [WithMaxRequest] allows;
//   - [ErrTooLarge] if a client [WithCompression] is given more data than [WithMaxDecompressed]
//     allows;
//   - [ErrBadPath] if path is invalid;
//   - [ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [ErrSessionLost] if the client is a view of a lost session: see [Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [ErrAuthRequired] or [ErrQuotaExceeded].
//
// If Create fails after a reply was lost, [retry.Unknown] reports true for the error. Without
// [Protected] the node may then exist. If the node of the namespace is missing, Create also creates
// that node, as a container.
func (c *Client) Create(ctx context.Context, path string, data []byte, opts ...CreateOption) (string, error) {
	o, err := newCreation(path, opts)
	if err != nil {
		return "", opError("create", path, err)
	}
	created, err := c.engine.Create(ctx, path, orEmpty(data), o)
	return created, opError("create", path, err)
}

// orEmpty returns empty data for nil. The client never stores null: Java's recipes fail on it.
func orEmpty(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// Get returns a node's data and stat.
//
// Errors are
//   - zk.ErrNoNode if the node does not exist;
//   - zk.ErrNoAuth if the client is not permitted to read the node;
//   - [ErrNotCompressed] if a client [WithCompression] cannot decompress the data;
//   - [ErrBadPath] if path is invalid;
//   - [ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [ErrSessionLost] if the client is a view of a lost session: see [Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [ErrAuthRequired].
func (c *Client) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	r, err := unwatched(ctx, c, "get", path, wire.AskGet)
	if err == nil {
		r.Value, err = c.decode(path, r.Value)
	}
	if err != nil {
		return nil, nil, err
	}
	return r.Value, r.Stat, nil
}

// GetW returns a node's data and stat, and sets a watch for the node's next write or deletion.
//
// Errors are
//   - zk.ErrNoNode if the node does not exist: no watch is set then;
//   - zk.ErrNoAuth if the client is not permitted to read the node;
//   - [ErrNotCompressed] if a client [WithCompression] cannot decompress the data: stat and watch
//     are valid;
//   - [ErrBadPath] if path is invalid;
//   - [ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [ErrSessionLost] if the client is a view of a lost session: see [Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [ErrAuthRequired].
func (c *Client) GetW(ctx context.Context, path string) ([]byte, *zk.Stat, *Watch, error) {
	r, watch, err := watched(ctx, c, "get", path, wire.WatchData, wire.AskGet)
	if err == nil {
		r.Value, err = c.decode(path, r.Value)
	}
	return r.Value, r.Stat, watch, err
}

// Children returns the unsorted names of a node's children, and the node's stat.
//
// Errors are
//   - zk.ErrNoNode if the node does not exist;
//   - zk.ErrNoAuth if the client is not permitted to read the node;
//   - [ErrBadPath] if path is invalid;
//   - [ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [ErrSessionLost] if the client is a view of a lost session: see [Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [ErrAuthRequired].
func (c *Client) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	r, err := unwatched(ctx, c, "children", path, wire.AskChildren)
	return r.Value, r.Stat, err
}

// ChildrenW returns the unsorted names of a node's children and the node's stat. It sets a watch
// for the next creation or deletion of a child, or the node's deletion.
//
// Errors are
//   - zk.ErrNoNode if the node does not exist: no watch is set then;
//   - zk.ErrNoAuth if the client is not permitted to read the node;
//   - [ErrBadPath] if path is invalid;
//   - [ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [ErrSessionLost] if the client is a view of a lost session: see [Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [ErrAuthRequired].
func (c *Client) ChildrenW(ctx context.Context, path string) ([]string, *zk.Stat, *Watch, error) {
	r, watch, err := watched(ctx, c, "children", path, wire.WatchChildren, wire.AskChildren)
	return r.Value, r.Stat, watch, err
}

// Exists reports whether a node exists, and returns its stat. A missing node is not an error.
//
// Errors are
//   - zk.ErrNoAuth if the client is not permitted to read the node, which old servers do not check;
//   - [ErrBadPath] if path is invalid;
//   - [ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [ErrSessionLost] if the client is a view of a lost session: see [Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [ErrAuthRequired].
func (c *Client) Exists(ctx context.Context, path string) (bool, *zk.Stat, error) {
	stat, err := unwatched(ctx, c, "exists", path, wire.AskExists)
	return stat != nil, stat, err
}

// ExistsW reports whether a node exists, and returns its stat. It sets a watch for the node's next
// creation, write or deletion. A missing node is not an error.
//
// Errors are
//   - zk.ErrNoAuth if the client is not permitted to read the node, which old servers do not check;
//   - [ErrBadPath] if path is invalid;
//   - [ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [ErrSessionLost] if the client is a view of a lost session: see [Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [ErrAuthRequired].
func (c *Client) ExistsW(ctx context.Context, path string) (found bool, stat *zk.Stat, watch *Watch, err error) {
	stat, watch, err = watched(ctx, c, "exists", path, wire.WatchData, wire.AskExists)
	return stat != nil, stat, watch, err
}

// AddWatch sets a persistent watch on path, which need not exist. It does not report existing
// nodes: add the watch first, then read. It is Curator's watchers().add().
//
// f is called with every event, on the connection's goroutine. An event that the server sent before
// a reply is delivered before the operation of that reply returns. So f must return quickly, and
// must neither block nor call the client. A panic of f is logged. If f calls [runtime.Goexit], as
// t.FailNow does, the connection is closed.
//
// The watch is lost with its connection, even if the session continues. Events are not replayed:
// add the watch again, then read again.
//
// Errors are
//   - [ErrWatchUnsupported] if the server does not support persistent watches;
//   - [ErrBadArgument] if f is nil or mode is invalid;
//   - [ErrBadPath] if path is invalid;
//   - [ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [ErrSessionLost] if the client is a view of a lost session: see [Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [ErrAuthRequired].
func (c *Client) AddWatch(ctx context.Context, path string, mode WatchMode, f func(zk.Event)) (*PersistentWatch, error) {
	const op = "addWatch"
	if f == nil {
		return nil, opError(op, path, fmt.Errorf("%w: nil function", ErrBadArgument))
	}
	if mode != WatchPersistent && mode != WatchRecursive {
		return nil, opError(op, path, fmt.Errorf("%w: unknown watch mode %d", ErrBadArgument, mode))
	}
	return do(ctx, c, op, path, func(l *engine.Connection, _ string) (*PersistentWatch, error) {
		w, err := c.engine.AddWatch(ctx, l, path, wire.Mode(mode), f)
		return &PersistentWatch{w}, err
	})
}

// SetOption is an option of [Client.Set]: [IfVersion] or [Idempotent].
type SetOption interface{ set(*setting) error }

// SetACLOption is an option of [Client.SetACL]: [IfVersion].
type SetACLOption interface{ setACL(*setting) error }

// setting contains the options of one Set or SetACL.
type setting struct {
	version    int32
	idempotent bool
}

const anyVersion int32 = -1

// IfVersion makes [Client.Set], [Client.Delete] and operations of a [Client.Multi] fail with
// zk.ErrBadVersion unless the node's data have this version. [Client.SetACL] compares the version
// of the ACL instead. Version -1 fails with [ErrBadArgument], because servers do not compare it.
type IfVersion int32

func (v IfVersion) opVersion() int32 { return int32(v) }

func (v IfVersion) version(to *int32) error {
	if int32(v) == anyVersion {
		return fmt.Errorf("%w: version %d means any version", ErrBadArgument, v)
	}
	*to = int32(v)
	return nil
}

func (v IfVersion) set(s *setting) error     { return v.version(&s.version) }
func (v IfVersion) setACL(s *setting) error  { return v.version(&s.version) }
func (v IfVersion) delete(d *deletion) error { return v.version(&d.version) }

func newSetting[O any](opts []O, apply func(o O, s *setting) error) (s setting, err error) {
	s.version = anyVersion
	for _, o := range opts {
		if any(o) == nil {
			return s, fmt.Errorf("%w: nil option", ErrBadArgument)
		}
		if err := apply(o, &s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Set replaces a node's data, whatever their version, and returns the new stat. nil is empty data.
//
// Errors are
//   - zk.ErrNoNode if the node does not exist;
//   - zk.ErrBadVersion if the data do not have the version of [IfVersion];
//   - zk.ErrNoAuth if the client is not permitted to write the node;
//   - [ErrBadArgument] if an option is invalid;
//   - [ErrTooLong] if the request is longer than [WithMaxRequest] allows;
//   - [ErrTooLarge] if a client [WithCompression] is given more data than [WithMaxDecompressed]
//     allows;
//   - [ErrBadPath] if path is invalid;
//   - [ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [ErrSessionLost] if the client is a view of a lost session: see [Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [ErrAuthRequired] or [ErrQuotaExceeded].
//
// If Set fails after a reply was lost, [retry.Unknown] reports true for the error, and the data may
// have been written.
func (c *Client) Set(ctx context.Context, path string, data []byte, opts ...SetOption) (*zk.Stat, error) {
	s := setting{version: anyVersion}
	if len(opts) > 0 {
		var err error
		if s, err = newSetting(opts, SetOption.set); err != nil {
			return nil, opError("set", path, err)
		}
	}
	data, err := c.engine.Encode(orEmpty(data))
	if err != nil {
		return nil, opError("set", path, err)
	}
	if s.idempotent {
		return c.setIdempotent(ctx, path, data, s.version)
	}
	return asked(ctx, c, "set", path, func(real string) wire.Request[*zk.Stat] { return wire.AskSet(real, data, s.version) })
}

// setIdempotent sets encoded data with [Idempotent]. It succeeds if the node already has the next
// version and these data. If the client is not permitted to read the node, the reply to the
// write stands.
func (c *Client) setIdempotent(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	return do(ctx, c, "set", path, func(l *engine.Connection, real string) (*zk.Stat, error) {
		stat, err := wire.Call(ctx, l.Conn, wire.AskSet(real, data, version))
		if !errors.Is(err, zk.ErrBadVersion) {
			return stat, err
		}
		now, failed := wire.Call(ctx, l.Conn, wire.AskGet(real, false))
		switch {
		case failed == nil && now.Stat.Version == version+1 && bytes.Equal(now.Value, data):
			return now.Stat, nil
		case failed != nil && !errors.Is(failed, zk.ErrNoNode) && !errors.Is(failed, zk.ErrNoAuth):
			return nil, failed
		}
		return nil, err
	})
}

// Sync returns when the connected server has applied every write that any client completed before
// the call. It costs one write, or two after a long idle period. After Sync, [Session.Depend]
// succeeds.
//
// Unlike the sync of ZooKeeper and of Curator for Java, Sync cannot succeed with the answer of a
// deposed leader alone.
//
// Errors are
//   - [ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [ErrSessionLost] if the client is a view of a lost session: see [Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [ErrAuthRequired].
func (c *Client) Sync(ctx context.Context) error {
	err := c.engine.Do(ctx, "sync", "/", func(l *engine.Connection) error { return l.Confirm(ctx) })
	return opError("sync", "/", err)
}

// GetACL returns a node's ACL and stat.
//
// Errors are
//   - zk.ErrNoNode if the node does not exist;
//   - zk.ErrNoAuth if the client is not permitted to read the node;
//   - [ErrBadPath] if path is invalid;
//   - [ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [ErrSessionLost] if the client is a view of a lost session: see [Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [ErrAuthRequired].
func (c *Client) GetACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	r, err := asked(ctx, c, "getACL", path, askGetACL)
	return r.Value, r.Stat, err
}

// SetACL replaces a node's ACL and returns the new stat.
//
// Errors are
//   - zk.ErrNoNode if the node does not exist;
//   - zk.ErrBadVersion if the ACL does not have the version of [IfVersion];
//   - zk.ErrInvalidACL if the server refuses the ACL;
//   - zk.ErrNoAuth if the client is not permitted to change the ACL;
//   - [ErrBadArgument] if an option is invalid;
//   - [ErrTooLong] if the request is longer than [WithMaxRequest] allows;
//   - [ErrBadPath] if path is invalid;
//   - [ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [ErrSessionLost] if the client is a view of a lost session: see [Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [ErrAuthRequired].
func (c *Client) SetACL(ctx context.Context, path string, acl []zk.ACL, opts ...SetACLOption) (*zk.Stat, error) {
	s, err := newSetting(opts, SetACLOption.setACL)
	if err != nil {
		return nil, opError("setACL", path, err)
	}
	return asked(ctx, c, "setACL", path, func(real string) wire.Request[*zk.Stat] { return askSetACL(real, acl, s.version) })
}

// Session returns the session of the current connection. It waits until the client is connected.
//
// Errors are
//   - [ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached;
//   - [retry.ErrExhausted], which wraps zk.ErrNoServer, if there were retries;
//   - [ErrSessionLost] if the client is a view of a lost session: see [Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - [ErrAuthRequired] if the server requires credentials that the client does not have.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	return do(ctx, c, "connect", "/", func(l *engine.Connection, _ string) (*Session, error) { return (*Session)(l.Session()), nil })
}

func askGetACL(path string) wire.Request[wire.WithStat[[]zk.ACL]] {
	return wire.AskAbout(proto.OpGetACL, path, func(d *proto.Decoder) wire.WithStat[[]zk.ACL] {
		acls := d.ACLs()
		list := make([]zk.ACL, len(acls))
		for i, a := range acls {
			list[i] = zk.ACL(a)
		}
		return wire.WithStat[[]zk.ACL]{Value: list, Stat: wire.ParseStat(d)}
	})
}

func askSetACL(path string, acl []zk.ACL, version int32) wire.Request[*zk.Stat] {
	r := proto.SetACLRequest{Path: path, ACL: wire.ProtoACL(acl), Version: version}
	return wire.Request[*zk.Stat]{Op: proto.OpSetACL, Frame: r.Append(conn.Begin(64 + len(path))), Parse: wire.ParseStat}
}

// do runs an operation on a path. It calls run on each connection that is tried, with the path on
// the server. A result beside an error is dropped. For exists, a missing node is not an error.
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

// asked runs an operation that consists of one request.
func asked[T any](ctx context.Context, c *Client, op, path string, q func(real string) wire.Request[T]) (T, error) {
	return do(ctx, c, op, path, func(l *engine.Connection, real string) (T, error) { return wire.Call(ctx, l.Conn, q(real)) })
}

// unwatched runs a read that sets no watch.
func unwatched[T any](ctx context.Context, c *Client, op, path string, q wire.Reading[T]) (T, error) {
	return do(ctx, c, op, path, func(l *engine.Connection, real string) (T, error) { return wire.Call(ctx, l.Conn, q(real, false)) })
}

// watched runs a read that sets a watch, unless the server already has it.
func watched[T any](ctx context.Context, c *Client, op, path string, kind wire.WatchKind, q wire.Reading[T]) (result T, watch *Watch, err error) {
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
