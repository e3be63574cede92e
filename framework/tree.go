package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// DeleteTree deletes a node and everything below it, children before parents. A missing node is no error, also
// if somebody else deletes it meanwhile. If a node gets new children while it runs it looks again, ten times at
// most; then the error is zk.ErrNotEmpty. It is Curator's delete().deletingChildrenIfNeeded().
//
// The root of a client without namespace is refused with [ErrBadPath].
func (c *Client) DeleteTree(ctx context.Context, path string) error {
	if err := ValidatePath(path); err != nil {
		return opError("delete", path, err)
	}
	if c.engine.Real(path) == "/" {
		return opError("delete", path, fmt.Errorf("%w: the root cannot be deleted", ErrBadPath))
	}
	return c.deleteTree(ctx, path)
}

// treeTries bounds how often a node may get new children while it is being deleted.
const treeTries = 10

func (c *Client) deleteTree(ctx context.Context, path string) error {
	for try := 1; ; try++ {
		_, err := c.DeleteIfExists(ctx, path, -1)
		if !errors.Is(err, zk.ErrNotEmpty) || try == treeTries {
			return err
		}
		names, _, err := c.Children(ctx, path)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		for _, name := range names {
			if err := c.deleteTree(ctx, Join(path, name)); err != nil {
				return err
			}
		}
	}
}

// CreateOrSet makes a node, or sets the data of the node that exists, whatever its version is. created is true if it is certain
// that this call has made the node: not if a reply was lost, and the node exists when the create is repeated.
//
// Options are those of [Client.Create], except for [Protected] and sequential modes, with which there is nothing
// to set: they are [ErrBadArgument]. nil data mean the client's default data in both cases. A node that exists
// keeps its mode and its ACL. Only an ephemeral node that this call has made in a session that is over by now is deleted and
// made again. If CreateOrSet fails, and may have made the node or set its data, [retry.Unknown] is true. It is Curator's
// create().orSetData().
func (c *Client) CreateOrSet(ctx context.Context, path string, data []byte, opts ...CreateOption) (created bool, err error) {
	const op = "createOrSet"
	o, err := newCreation(path, opts)
	if err == nil && (o.Protected || isSequential(o.Mode)) {
		err = fmt.Errorf("%w: nothing can be set with a protected or sequential name", ErrBadArgument)
	}
	if err != nil {
		return false, opError(op, path, err)
	}
	created, err = c.engine.CreateOrSet(ctx, path, c.orDefault(data), o)
	return created, opError(op, path, err)
}
