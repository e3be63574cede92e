package framework

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/engine"
)

// Walk yields the paths of a node and all its descendants: parents before children, siblings in the
// order of their names. If it fails, the last pair contains the error.
//
// Walk lists the tree before the first pair, with many requests in flight. It is no snapshot: nodes
// that other clients create or delete during the call may be missing.
//
// Errors are
//   - zk.ErrNoNode if the node does not exist;
//   - zk.ErrNoAuth if the client is not permitted to list one of the nodes;
//   - [ErrBadPath] if path is invalid;
//   - [ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [ErrSessionLost] if c is a view of a lost session: see [Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [ErrAuthRequired].
func Walk(ctx context.Context, c *Client, path string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		nodes, err := c.sorted(ctx, path)
		if err != nil {
			yield("", err)
			return
		}
		for _, node := range nodes {
			if !yield(node, nil) {
				return
			}
		}
	}
}

// sorted returns the tree at path in the order of Walk.
func (c *Client) sorted(ctx context.Context, path string) (nodes []string, err error) {
	const op = "walk"
	if err := ValidatePath(path); err != nil {
		return nil, opError(op, path, err)
	}
	failed := path
	err = c.engine.Repeat(ctx, func(l *engine.Connection) (err error) {
		if nodes, err = c.tree(ctx, c.engine.On(l), path, &failed); err == nil && len(nodes) == 0 {
			err = zk.ErrNoNode
		}
		return err
	})
	slices.SortFunc(nodes, func(a, b string) int {
		return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
	})
	return nodes, opError(op, failed, err)
}
