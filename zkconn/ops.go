package zkconn

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/proto"
)

// AddAuth presents credentials on the current connection and on every later connection.
//
// Errors are
//   - [ErrAuthFailed] if the server refuses these credentials, or earlier credentials;
//   - [ErrBadArguments] if scheme is empty;
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - another of the server's errors, such as [ErrSessionMoved].
func (c *Conn) AddAuth(scheme string, auth []byte) error {
	return unwrapped(c.once.AddAuth(background, scheme, auth))
}

// Children returns the names of a node's children, unsorted, and the node's stat.
//
// Errors are
//   - [ErrNoNode] if the node does not exist;
//   - [ErrNoAuth] if the client is not permitted to read the node;
//   - [ErrInvalidPath] if path is invalid;
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved].
func (c *Conn) Children(path string) ([]string, *Stat, error) {
	children, stat, err := c.once.Children(background, path)
	stat, err = given(stat, err)
	return list(children, err), stat, err
}

// ChildrenW returns the names of a node's children, unsorted, and the node's stat. It sets a watch
// for the next creation or deletion of a child, or the node's deletion.
//
// Errors are
//   - [ErrNoNode] if the node does not exist: no watch is set then;
//   - [ErrNoAuth] if the client is not permitted to read the node;
//   - [ErrInvalidPath] if path is invalid;
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved].
func (c *Conn) ChildrenW(path string) ([]string, *Stat, <-chan Event, error) {
	children, stat, set, err := c.once.ChildrenW(background, path)
	if err != nil {
		return nil, nil, nil, unwrapped(err)
	}
	return list(children, nil), stat, c.watch(path, ofChildren, stat, set), nil
}

// Get returns the data and the stat of a node.
//
// Errors are
//   - [ErrNoNode] if the node does not exist;
//   - [ErrNoAuth] if the client is not permitted to read the node;
//   - [ErrInvalidPath] if path is invalid;
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved].
func (c *Conn) Get(path string) ([]byte, *Stat, error) {
	data, stat, err := c.once.Get(background, path)
	stat, err = given(stat, err)
	return data, stat, err
}

// GetW returns the data and the stat of a node, and sets a watch for the node's next write or
// deletion.
//
// Errors are
//   - [ErrNoNode] if the node does not exist: no watch is set then;
//   - [ErrNoAuth] if the client is not permitted to read the node;
//   - [ErrInvalidPath] if path is invalid;
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved].
func (c *Conn) GetW(path string) ([]byte, *Stat, <-chan Event, error) {
	data, stat, set, err := c.once.GetW(background, path)
	if err != nil {
		return nil, nil, nil, unwrapped(err)
	}
	return data, stat, c.watch(path, ofData, stat, set), nil
}

// ifVersion returns the option o. If the version is -1, which matches any version, it returns none.
func ifVersion[O any](version int32, o O) []O {
	if version == -1 {
		return nil
	}
	return []O{o}
}

// Set replaces the data of a node and returns its new stat, if the data have the given version.
// Version -1 matches every version.
//
// Errors are
//   - [ErrNoNode] if the node does not exist;
//   - [ErrBadVersion] if the node's data do not have the given version;
//   - [ErrNoAuth] if the client is not permitted to write the node;
//   - [ErrShortBuffer] if the request is too long: see [WithMaxConnBufferSize];
//   - [ErrInvalidPath] if path is invalid;
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved].
func (c *Conn) Set(path string, data []byte, version int32) (*Stat, error) {
	if err := framework.ValidatePath(path); err != nil {
		return given(nil, err)
	}
	var stat *Stat // c.once.Set would store empty data for nil
	err := engine.Of(c.once).Do(background, "set", path, func(l *engine.Connection) (err error) {
		stat, err = wire.Call(background, l.Conn, wire.AskSet(path, data, version))
		return err
	})
	return given(stat, err)
}

// Create creates a node and returns its path. With [FlagSequence] the server appends a number to
// the path.
//
// Errors are
//   - [ErrNodeExists] if the node exists;
//   - [ErrNoNode] if the parent does not exist;
//   - [ErrNoAuth] if the client is not permitted to create children of the parent;
//   - [ErrNoChildrenForEphemerals] if the parent is ephemeral;
//   - [ErrInvalidACL] if acl is empty, or the server refuses it;
//   - an error that wraps [ErrInvalidFlags] if flags are invalid;
//   - [ErrShortBuffer] if the request is too long: see [WithMaxConnBufferSize];
//   - [ErrInvalidPath] if path is invalid;
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved].
func (c *Conn) Create(path string, data []byte, flags int32, acl []ACL) (string, error) {
	mode := framework.Mode(flags)
	switch flags {
	case FlagPersistent, FlagEphemeral, FlagSequence, FlagEphemeralSequential:
	case FlagContainer:
		mode = framework.Persistent // as servers treat it in this request
	default:
		return "", badFlags("create", flags)
	}
	return c.create(c.once, path, data, acl, engine.Creation{Mode: int32(mode)})
}

// CreateContainer creates a container, which the servers delete after its last child was deleted.
//
// Errors are
//   - [ErrNodeExists] if the node exists;
//   - [ErrNoNode] if the parent does not exist;
//   - [ErrNoAuth] if the client is not permitted to create children of the parent;
//   - [ErrNoChildrenForEphemerals] if the parent is ephemeral;
//   - [ErrInvalidACL] if acl is empty, or the server refuses it;
//   - an error that wraps [ErrInvalidFlags] if flag is not [FlagContainer];
//   - [framework.ErrUnimplemented] if the server does not support containers;
//   - [ErrShortBuffer] if the request is too long: see [WithMaxConnBufferSize];
//   - [ErrInvalidPath] if path is invalid;
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved].
func (c *Conn) CreateContainer(path string, data []byte, flag int32, acl []ACL) (string, error) {
	if flag != FlagContainer {
		return "", badFlags("create container", flag)
	}
	return c.create(c.once, path, data, acl, engine.Creation{Mode: FlagContainer})
}

// CreateTTL creates a node that the servers delete when it has no children and was not written for
// ttl.
//
// Errors are
//   - [ErrNodeExists] if the node exists;
//   - [ErrNoNode] if the parent does not exist;
//   - [ErrNoAuth] if the client is not permitted to create children of the parent;
//   - [ErrNoChildrenForEphemerals] if the parent is ephemeral;
//   - [ErrInvalidACL] if acl is empty, or the server refuses it;
//   - an error that wraps [ErrInvalidFlags] if flag is neither [FlagTTL] nor
//     [FlagPersistentSequentialWithTTL];
//   - [ErrBadArguments] if ttl is less than a millisecond;
//   - [framework.ErrUnimplemented] if the server does not support TTL nodes;
//   - [ErrShortBuffer] if the request is too long: see [WithMaxConnBufferSize];
//   - [ErrInvalidPath] if path is invalid;
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved].
func (c *Conn) CreateTTL(path string, data []byte, flag int32, acl []ACL, ttl time.Duration) (string, error) {
	mode := framework.Persistent
	switch flag {
	case FlagTTL:
	case FlagPersistentSequentialWithTTL:
		mode = framework.PersistentSequential
	default:
		return "", badFlags("create TTL", flag)
	}
	if ttl = ttl.Truncate(time.Millisecond); ttl <= 0 {
		ttl = -1
	}
	return c.create(c.once, path, data, acl, engine.Creation{Mode: int32(mode), TTL: ttl})
}

// CreateProtectedEphemeralSequential creates an ephemeral sequential node. It prefixes the name
// with "_c_", a UUID and "-", so that the client finds the node if the reply is lost. The request
// is retried when the connection is lost.
//
// If the call fails, the node is deleted.
//
// Errors are
//   - [ErrNoNode] if the parent does not exist;
//   - [ErrNoAuth] if the client is not permitted to create children of the parent;
//   - [ErrNoChildrenForEphemerals] if the parent is ephemeral;
//   - [ErrInvalidACL] if acl is empty, or the server refuses it;
//   - [ErrInvalidPath] if path is invalid;
//   - [ErrShortBuffer] if the request is too long: see [WithMaxConnBufferSize];
//   - [ErrNoServer] if no server was reached in time by any retry;
//   - [ErrConnectionClosed] if the connection was lost before the reply to every retry, or the
//     Conn was closed;
//   - [ErrSessionExpired] if sessions expired before the reply to every retry;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved].
func (c *Conn) CreateProtectedEphemeralSequential(path string, data []byte, acl []ACL) (string, error) {
	return c.create(c.client, path, data, acl, engine.Creation{Mode: FlagEphemeralSequential, Protected: true})
}

// create returns some errors without a request, because the servers would return different errors
// than the client.
func (c *Conn) create(client *framework.Client, path string, data []byte, acl []ACL, o engine.Creation) (string, error) {
	number := "" // the server's addition to the name
	if o.Mode&FlagSequence != 0 {
		number = "0"
	}
	switch {
	case framework.ValidatePath(path+number) != nil:
		return "", zk.ErrInvalidPath
	case o.TTL < 0:
		return "", zk.ErrBadArguments // before the ACL is checked, as in PrepRequestProcessor
	case len(acl) == 0:
		return "", zk.ErrInvalidACL
	case path+number == "/":
		return "", zk.ErrNodeExists
	}
	o.ACL = acl
	// client.Create would store empty data for nil. Here nil is null, as in go-zookeeper.
	created, err := engine.Of(client).Create(background, path, data, o)
	return created, unwrapped(err)
}

// Delete deletes a node, if its data have the given version. Version -1 matches every version. The
// node must not have children.
//
// Errors are
//   - [ErrNoNode] if the node does not exist;
//   - [ErrNotEmpty] if it has children;
//   - [ErrBadVersion] if the node's data do not have the given version;
//   - [ErrNoAuth] if the client is not permitted to delete children of the parent;
//   - [ErrInvalidPath] if path is invalid;
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved].
func (c *Conn) Delete(path string, version int32) error {
	return unwrapped(c.once.Delete(background, path, ifVersion[framework.DeleteOption](version, framework.IfVersion(version))...))
}

// Exists reports whether a node exists, and returns its stat. A missing node is not an error.
//
// Errors are
//   - [ErrNoAuth] if the client is not permitted to read the node, which old servers do not check;
//   - [ErrInvalidPath] if path is invalid;
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved].
func (c *Conn) Exists(path string) (bool, *Stat, error) {
	found, stat, err := c.once.Exists(background, path)
	stat, err = given(stat, err)
	// As in go-zookeeper, only ErrNoNode reports that the node is missing.
	return found || err != nil && stat != nil, stat, err
}

// ExistsW reports whether a node exists, and returns its stat. It sets a watch for the node's next
// creation, write or deletion. A missing node is not an error.
//
// Errors are
//   - [ErrNoAuth] if the client is not permitted to read the node, which old servers do not check;
//   - [ErrInvalidPath] if path is invalid;
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved].
func (c *Conn) ExistsW(path string) (bool, *Stat, <-chan Event, error) {
	found, stat, set, err := c.once.ExistsW(background, path)
	switch {
	case err != nil:
		return false, nil, nil, unwrapped(err)
	case !found:
		return false, new(Stat), c.watch(path, ofCreation, nil, set), nil
	}
	return true, stat, c.watch(path, ofData, stat, set), nil
}

// GetACL returns the ACL and the stat of a node.
//
// Errors are
//   - [ErrNoNode] if the node does not exist;
//   - [ErrNoAuth] if the client is not permitted to read the node;
//   - [ErrInvalidPath] if path is invalid;
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved].
func (c *Conn) GetACL(path string) ([]ACL, *Stat, error) {
	acl, stat, err := c.once.GetACL(background, path)
	stat, err = given(stat, err)
	return acl, stat, err
}

// SetACL replaces the ACL of a node and returns the node's stat, if the ACL has the given version.
// Version -1 matches every version.
//
// Errors are
//   - [ErrNoNode] if the node does not exist;
//   - [ErrBadVersion] if the ACL does not have the given version;
//   - [ErrInvalidACL] if the server refuses the ACL;
//   - [ErrNoAuth] if the client is not permitted to change the ACL;
//   - [ErrShortBuffer] if the request is too long: see [WithMaxConnBufferSize];
//   - [ErrInvalidPath] if path is invalid;
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved].
func (c *Conn) SetACL(path string, acl []ACL, version int32) (*Stat, error) {
	return given(c.once.SetACL(background, path, acl, ifVersion[framework.SetACLOption](version, framework.IfVersion(version))...))
}

// Sync blocks until the server has caught up with the leader, and returns path.
//
// Errors are
//   - [ErrInvalidPath] if path is invalid;
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved].
func (c *Conn) Sync(path string) (string, error) {
	if err := framework.ValidatePath(path); err != nil {
		return "", unwrapped(err)
	}
	err := engine.Of(c.once).Do(background, "sync", path, func(l *engine.Connection) error {
		_, err := wire.Call(background, l.Conn, wire.AskSync(path))
		return err
	})
	if err != nil {
		return "", unwrapped(err)
	}
	return path, nil
}

// Multi applies all operations or none. Each operation is a [*CreateRequest], [*DeleteRequest],
// [*SetDataRequest] or [*CheckVersionRequest]. The servers check paths and flags.
//
// Errors are
//   - the server's error for the first operation that failed, such as [ErrBadVersion]: each
//     response contains the error of its operation;
//   - [ErrBadArguments], wrapped, if an operation is nil;
//   - an error without a name if an operation has another type;
//   - [ErrShortBuffer] if the request is too long: see [WithMaxConnBufferSize];
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved].
func (c *Conn) Multi(ops ...any) ([]MultiResponse, error) {
	if len(ops) == 0 {
		return []MultiResponse{}, nil
	}
	sent := make([]proto.MultiOp, len(ops))
	for i, op := range ops {
		var err error
		if sent[i], err = step(op); err != nil {
			return nil, err
		}
	}
	var results []proto.MultiResult
	err := engine.Of(c.once).Do(background, "multi", "/", func(l *engine.Connection) (err error) {
		if results, err = wire.Call(background, l.Conn, wire.AskMulti(proto.OpMulti, sent)); err == nil {
			_, err = wire.MultiFailure(results, len(ops))
		}
		return err
	})
	responses := make([]MultiResponse, len(results))
	for i := range results {
		switch r := &results[i]; {
		case r.Op == proto.OpError && r.Code != proto.OK:
			responses[i].Error = unwrapped(conn.CodeError(r.Code))
		case r.Op == proto.OpSetData:
			responses[i].Stat = (*Stat)(&r.Stat)
		case r.Op == proto.OpCreate:
			responses[i].String = r.Path
		}
	}
	return responses, unwrapped(err)
}

// step returns the request of an operation of a Multi.
func step(op any) (proto.MultiOp, error) {
	switch op := op.(type) {
	case *CreateRequest:
		if op != nil {
			r := proto.CreateRequest{Path: op.Path, Data: op.Data, ACL: wire.ProtoACL(op.Acl), Flags: op.Flags}
			return proto.MultiOp{Op: proto.OpCreate, Body: &r}, nil
		}
	case *SetDataRequest:
		if op != nil {
			r := proto.SetDataRequest{Path: op.Path, Data: op.Data, Version: op.Version}
			return proto.MultiOp{Op: proto.OpSetData, Body: &r}, nil
		}
	case *DeleteRequest:
		if op != nil {
			return proto.MultiOp{Op: proto.OpDelete, Body: &proto.VersionRequest{Path: op.Path, Version: op.Version}}, nil
		}
	case *CheckVersionRequest:
		if op != nil {
			return proto.MultiOp{Op: proto.OpCheck, Body: &proto.VersionRequest{Path: op.Path, Version: op.Version}}, nil
		}
	default:
		return proto.MultiOp{}, fmt.Errorf("unknown operation type %T", op)
	}
	return proto.MultiOp{}, fmt.Errorf("zk: multi: nil %T: %w", op, zk.ErrBadArguments)
}

// IncrementalReconfig adds and removes servers of the ensemble, and returns the stat of
// /zookeeper/config, if the configuration has the given version. Version -1 matches every version.
//
// joining lists lines of the configuration, such as "server.4=host:2888:3888;2181", and leaving
// lists ids of servers.
//
// Errors are
//   - [ErrReconfigDisabled] if the servers do not set reconfigEnabled;
//   - [ErrNoAuth] if the client is not permitted to write /zookeeper/config;
//   - [ErrBadVersion] if the configuration does not have the given version;
//   - [ErrBadArguments] if the servers refuse a member;
//   - [framework.ErrUnimplemented] if the server runs standalone, or is a ClickHouse Keeper;
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as admin.ErrReconfigInProgress.
func (c *Conn) IncrementalReconfig(joining, leaving []string, version int64) (*Stat, error) {
	return given(c.reconfig(&proto.ReconfigRequest{Joining: listed(joining), Leaving: listed(leaving), Config: version}))
}

// Reconfig replaces the list of servers of the ensemble, and returns the stat of /zookeeper/config,
// if the configuration has the given version. Version -1 matches every version. members lists lines
// of the configuration, such as "server.4=host:2888:3888;2181".
//
// Errors are
//   - [ErrReconfigDisabled] if the servers do not set reconfigEnabled;
//   - [ErrNoAuth] if the client is not permitted to write /zookeeper/config;
//   - [ErrBadVersion] if the configuration does not have the given version;
//   - [ErrBadArguments] if the servers refuse a member;
//   - [framework.ErrUnimplemented] if the server runs standalone, or is a ClickHouse Keeper;
//   - [ErrNoServer] if no server was reached in time: no request was sent;
//   - [ErrConnectionClosed] if the connection was lost before the reply, or the Conn was closed;
//   - [ErrSessionExpired] if the session expired before the reply;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as admin.ErrReconfigInProgress.
func (c *Conn) Reconfig(members []string, version int64) (*Stat, error) {
	return given(c.reconfig(&proto.ReconfigRequest{Members: listed(members), Config: version}))
}

func (c *Conn) reconfig(change *proto.ReconfigRequest) (stat *Stat, err error) {
	err = engine.Of(c.once).Do(background, "reconfig", engine.ConfigPath, func(l *engine.Connection) error {
		r, err := wire.Call(background, l.Conn, wire.AskReconfig(change))
		stat = r.Stat
		return err
	})
	return stat, err
}

// listed joins lines with commas. The result is never nil, because servers treat nil as a missing
// list.
func listed(lines []string) []byte { return []byte(strings.Join(lines, ",")) }

// given converts a stat and an error to go-zookeeper's results. It returns an empty stat for a
// missing node, because programs use it. After a lost connection and for an invalid path, stat
// stays nil.
func given(stat *Stat, err error) (*Stat, error) {
	err = unwrapped(err)
	if stat == nil && !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrInvalidPath) {
		stat = new(Stat)
	}
	return stat, err
}

// list returns children. If both children and err are nil, it returns an empty list.
func list(children []string, err error) []string {
	if children == nil && err == nil {
		return []string{}
	}
	return children
}

func badFlags(op string, flags int32) error {
	return fmt.Errorf("zk: %s: invalid flag value: [%d]: %w", op, flags, zk.ErrInvalidFlags)
}
