// Package admin administers an ensemble: its members and changes of them, a client's identities,
// and bulk reads. Services do not need it: [framework.WithEnsembleTracking]
// follows the members by itself.
//
//	ensemble, err := admin.Config(ctx, client)
//	if err != nil { ... }
//	change := admin.Change{Leaving: []int64{3}}
//	ensemble, err = admin.Reconfig(ctx, client, change, ensemble.Version)
//
// All functions are operations of the given client: they are retried under its policy, paths are
// relative to its namespace, its observers see them, and errors are [*framework.OpError]. They are
// safe for concurrent use. Each function names the ZooKeeper version that introduced its operation.
// No ClickHouse Keeper supports these operations, and the client sends a Keeper no such request.
package admin

import (
	"context"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/proto"
)

// Identity is an identity of a client. User is the client's address for scheme "ip", and its user
// name for scheme "digest".
type Identity struct{ Scheme, User string }

// WhoAmI returns the identities that the server knows for the connection, from its credentials, its
// certificate and its address. It is ZooKeeper's whoAmI, since 3.7.
//
// Errors are
//   - [framework.ErrUnimplemented] if the server is older than ZooKeeper 3.7, or a ClickHouse
//     Keeper;
//   - [framework.ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [framework.ErrAuthRequired].
func WhoAmI(ctx context.Context, client *framework.Client) ([]Identity, error) {
	q := wire.Request[[]Identity]{Op: proto.OpWhoAmI, Frame: conn.Begin(0), Parse: func(d *proto.Decoder) []Identity {
		var r proto.WhoAmIResponse
		r.Decode(d)
		list := make([]Identity, len(r.Identities))
		for i, identity := range r.Identities {
			list[i] = Identity(identity)
		}
		return list
	}}
	return ask(ctx, client, "whoAmI", "/", func(string) wire.Request[[]Identity] { return q })
}

// Ephemerals returns the sorted paths of the ephemeral nodes at path and below it that the client's
// session owns. path need not exist. It is ZooKeeper's getEphemerals, since 3.6.
//
// Errors are
//   - [framework.ErrUnimplemented] if the server is older than ZooKeeper 3.6, or a ClickHouse
//     Keeper;
//   - [framework.ErrBadPath] if path is invalid;
//   - [framework.ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [framework.ErrAuthRequired].
func Ephemerals(ctx context.Context, client *framework.Client, path string) ([]string, error) {
	paths, err := ask(ctx, client, "ephemerals", path, func(real string) wire.Request[[]string] {
		return wire.AskAbout(proto.OpGetEphemerals, real, (*proto.Decoder).Strings)
	})
	if err != nil {
		return nil, err
	}
	// The server compares characters: for /a it also sends /ab.
	c := engine.Of(client)
	root := c.Real(path)
	paths = slices.DeleteFunc(paths, func(p string) bool { return p != root && !strings.HasPrefix(p, framework.Join(root, "")) })
	for i, p := range paths {
		paths[i] = c.Unreal(p)
	}
	slices.Sort(paths)
	return paths, nil
}

// CountDescendants returns the number of all descendants of a node. It is ZooKeeper's
// getAllChildrenNumber, since 3.6.
//
// Errors are
//   - zk.ErrNoNode if the node does not exist;
//   - zk.ErrNoAuth if the client is not permitted to read the node;
//   - [framework.ErrUnimplemented] if the server is older than ZooKeeper 3.6, or a ClickHouse
//     Keeper;
//   - [framework.ErrBadPath] if path is invalid;
//   - [framework.ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [framework.ErrAuthRequired].
func CountDescendants(ctx context.Context, client *framework.Client, path string) (int, error) {
	return ask(ctx, client, "countDescendants", path, func(real string) wire.Request[int] {
		return wire.AskAbout(proto.OpGetChildrenNumber, real, func(d *proto.Decoder) int { return int(d.Int32()) })
	})
}

// do runs an operation on a path. It calls run on each connection that is tried. A result beside an
// error is dropped.
func do[T any](ctx context.Context, client *framework.Client, op, path string, run func(l *engine.Connection) (T, error)) (result T, err error) {
	if err = framework.ValidatePath(path); err == nil {
		err = engine.Of(client).Do(ctx, op, path, func(l *engine.Connection) (err error) {
			result, err = run(l)
			return err
		})
	}
	if err != nil {
		var none T
		return none, opError(op, path, err)
	}
	return result, nil
}

// ask runs an operation that consists of one request.
func ask[T any](ctx context.Context, client *framework.Client, op, path string, q func(real string) wire.Request[T]) (T, error) {
	return do(ctx, client, op, path, func(l *engine.Connection) (T, error) {
		return wire.Call(ctx, l.Conn, q(engine.Of(client).Real(path)))
	})
}

func opError(op, path string, err error) error {
	return &framework.OpError{Op: op, Path: path, Err: err}
}
