// Package admin is what operators and their tools ask an ensemble: who its members are, how to change them, which rights a client
// has, and what nodes there are, many at a time. A service does not need it: [framework.WithEnsembleTracking] follows the members by itself.
//
//	ensemble, err := admin.Config(ctx, client)
//	if err != nil { ... }
//	ensemble, err = admin.Reconfig(ctx, client, admin.Change{Leaving: []int64{3}}, ensemble.Version)
//
// All functions are operations of the client that they are given: they are repeated under its policy, paths are those of its
// namespace, its observers see them, and errors are [*framework.OpError]. They are safe for concurrent use.
package admin

import (
	"context"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/proto"
)

// Identity is how a server knows a client: User is the address for "ip", and the user, without a password, for "digest".
type Identity struct{ Scheme, User string }

// WhoAmI returns the identities that the client's connection has on its server, by [framework.WithAuth],
// [framework.Client.AddAuth], a certificate, or its address. It is ZooKeeper's whoAmI.
//
// The error is [framework.ErrUnimplemented] if the server cannot say: ZooKeeper before 3.7, and a ClickHouse Keeper, which is not
// asked.
func WhoAmI(ctx context.Context, client *framework.Client) ([]Identity, error) {
	q := engine.Request[[]Identity]{Op: proto.OpWhoAmI, Frame: conn.Begin(0), Parse: func(d *proto.Decoder) []Identity {
		var r proto.WhoAmIResponse
		r.Decode(d)
		list := make([]Identity, len(r.Identities))
		for i, identity := range r.Identities {
			list[i] = Identity(identity)
		}
		return list
	}}
	return ask(ctx, client, "whoAmI", "/", func(string) engine.Request[[]Identity] { return q })
}

// Ephemerals returns the paths of the ephemeral nodes of the client's session at path and below it, sorted. There need not be a
// node at path. With a context from [framework.InSession] it is that session. It is ZooKeeper's getEphemerals.
//
// The error is [framework.ErrUnimplemented] if the server cannot: ZooKeeper before 3.6, and a ClickHouse Keeper, which is not
// asked.
func Ephemerals(ctx context.Context, client *framework.Client, path string) ([]string, error) {
	paths, err := ask(ctx, client, "ephemerals", path, func(real string) engine.Request[[]string] {
		return engine.AskAbout(proto.OpGetEphemerals, real, (*proto.Decoder).Strings)
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

// CountDescendants returns how many nodes there are below a node: children, their children, and so on. It is ZooKeeper's
// getAllChildrenNumber. The number of children alone is NumChildren of a stat.
//
// The error is zk.ErrNoNode if there is no such node, and [framework.ErrUnimplemented] if the server cannot count: ZooKeeper
// before 3.6, and a ClickHouse Keeper, which is not asked.
func CountDescendants(ctx context.Context, client *framework.Client, path string) (int, error) {
	return ask(ctx, client, "countDescendants", path, func(real string) engine.Request[int] {
		return engine.AskAbout(proto.OpGetChildrenNumber, real, func(d *proto.Decoder) int { return int(d.Int32()) })
	})
}

// do is an operation on a path: run is called with each connection that it is tried on. What it returns beside an error is dropped.
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

// ask is an operation that is one request on one path.
func ask[T any](ctx context.Context, client *framework.Client, op, path string, q func(real string) engine.Request[T]) (T, error) {
	return do(ctx, client, op, path, func(l *engine.Connection) (T, error) {
		return engine.Call(ctx, l, q(engine.Of(client).Real(path)))
	})
}

func opError(op, path string, err error) error {
	return &framework.OpError{Op: op, Path: path, Err: err}
}
