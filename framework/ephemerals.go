package framework

import (
	"context"
	"slices"
	"strings"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/proto"
)

// Ephemerals returns the paths of the ephemeral nodes of the client's session at path and below it, sorted. There need not be a
// node at path. With a context from [InSession] it is that session. It is ZooKeeper's getEphemerals.
//
// The error is [ErrUnimplemented] if the server cannot: ZooKeeper before 3.6, and a ClickHouse Keeper, which is not asked.
func (c *Client) Ephemerals(ctx context.Context, path string) ([]string, error) {
	paths, err := asked(ctx, c, "ephemerals", path, func(real string) engine.Request[[]string] {
		r := proto.PathRequest{Path: real}
		return engine.Request[[]string]{Op: proto.OpGetEphemerals, Frame: r.Append(conn.Begin(4 + len(real))), Parse: (*proto.Decoder).Strings}
	})
	if err != nil {
		return nil, err
	}
	// The server compares characters: for /a it also sends /ab.
	root := c.engine.Real(path)
	paths = slices.DeleteFunc(paths, func(p string) bool { return p != root && !strings.HasPrefix(p, Join(root, "")) })
	for i, p := range paths {
		paths[i] = c.engine.Unreal(p)
	}
	slices.Sort(paths)
	return paths, nil
}

// CountDescendants returns how many nodes there are below a node: children, their children, and so on. It is ZooKeeper's
// getAllChildrenNumber. The number of children alone is NumChildren of a stat.
//
// The error is zk.ErrNoNode if there is no such node, and [ErrUnimplemented] if the server cannot count: ZooKeeper before
// 3.6, and a ClickHouse Keeper, which is not asked.
func (c *Client) CountDescendants(ctx context.Context, path string) (int, error) {
	return asked(ctx, c, "countDescendants", path, func(real string) engine.Request[int] {
		r := proto.PathRequest{Path: real}
		return engine.Request[int]{Op: proto.OpGetChildrenNumber, Frame: r.Append(conn.Begin(4 + len(real))), Parse: func(d *proto.Decoder) int {
			return int(d.Int32())
		}}
	})
}
