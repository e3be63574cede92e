package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/engine/wire"
)

// DeleteOption is an option of [Client.Delete]: [IfVersion], [IfExists], [Guaranteed],
// [WithChildren] or [Idempotent].
type DeleteOption interface{ delete(*deletion) error }

// deletion contains the options of one Delete.
type deletion struct {
	version                      int32
	ifExists, guaranteed, nested bool
}

type deleteOption func(*deletion)

func (o deleteOption) delete(d *deletion) error {
	o(d)
	return nil
}

// IfExists lets [Client.Delete] succeed if the node is missing.
func IfExists() DeleteOption { return deleteOption(func(d *deletion) { d.ifExists = true }) }

// Guaranteed makes [Client.Delete] retry, whatever the policy, until the node is deleted, the
// server refuses the deletion, or the client is closed. If ctx is done first, the client continues
// in the background. It is Curator's guaranteed().
//
// It cannot be combined with [IfVersion]. In a view of [Client.In], retries stop when the session
// has expired.
func Guaranteed() DeleteOption { return deleteOption(func(d *deletion) { d.guaranteed = true }) }

// WithChildren makes [Client.Delete] delete all descendants first, children before parents, with
// many requests in flight. [IfVersion] applies to the node itself. It is Curator's
// deletingChildrenIfNeeded().
//
// If other clients keep creating children, Delete gives up after ten rounds and returns
// zk.ErrNotEmpty.
func WithChildren() DeleteOption { return deleteOption(func(d *deletion) { d.nested = true }) }

// Delete deletes a node, whatever its version. The node must not have children.
//
// Errors are
//   - zk.ErrNoNode if the node does not exist;
//   - zk.ErrNotEmpty if it has children;
//   - zk.ErrBadVersion if the node's data do not have the version of [IfVersion];
//   - zk.ErrNoAuth if the client is not permitted to delete children of the parent;
//   - [ErrBadArgument] if an option is invalid, or options cannot be combined;
//   - [ErrBadPath] if path is invalid, or if it is the root and [WithChildren] is given;
//   - [ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [ErrSessionLost] if the client is a view of a lost session: see [Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [ErrAuthRequired].
//
// If a reply was lost and the retry finds no node, another client may have deleted it. The error
// then wraps zk.ErrNoNode, and [retry.Unknown] reports true for it. With [IfExists], [Idempotent]
// or [Guaranteed], Delete succeeds instead. A retry also deletes a node that another client has
// created since, if the version matches. New nodes have version 0.
func (c *Client) Delete(ctx context.Context, path string, opts ...DeleteOption) error {
	const op = "delete"
	d := deletion{version: anyVersion}
	if len(opts) > 0 {
		var err error
		if d, err = newDeletion(opts); err != nil {
			return opError(op, path, err)
		}
	}
	if err := ValidatePath(path); err != nil {
		return opError(op, path, err)
	}
	if d.nested && c.engine.Real(path) == "/" {
		return opError(op, path, fmt.Errorf("%w: the root cannot be deleted", ErrBadPath))
	}
	err := c.deleteNode(ctx, path, d)
	for try := 1; d.nested && errors.Is(err, zk.ErrNotEmpty) && try < treeTries; try++ {
		if err = c.deleteBelow(ctx, path); err == nil {
			err = c.deleteNode(ctx, path, d)
		}
	}
	if d.ifExists && errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

func newDeletion(opts []DeleteOption) (deletion, error) {
	d := deletion{version: anyVersion}
	for _, o := range opts {
		if o == nil {
			return d, fmt.Errorf("%w: nil option", ErrBadArgument)
		}
		if err := o.delete(&d); err != nil {
			return d, err
		}
	}
	if d.guaranteed && d.version != anyVersion {
		return d, fmt.Errorf("%w: Guaranteed and IfVersion cannot be combined", ErrBadArgument)
	}
	return d, nil
}

// deleteNode deletes the node itself. The path is valid.
func (c *Client) deleteNode(ctx context.Context, path string, d deletion) error {
	if !d.guaranteed {
		_, err := asked(ctx, c, "delete", path, func(real string) wire.Request[wire.None] { return wire.AskDelete(real, d.version) })
		return err
	}
	found, err := c.engine.DeleteGuaranteed(ctx, path, false)
	if err == nil && !found {
		err = zk.ErrNoNode
	}
	return opError("delete", path, err)
}

const (
	// treeTries bounds how often a node may get new children while it is being deleted.
	treeTries = 10

	// treeWindow is how many requests for the nodes of a tree are in flight.
	treeWindow = 100
)

// deleteBelow deletes all descendants of a node. All requests are sent on one connection, whose
// server processes them in order: the deletion of a parent is sent after its children's, without
// waiting for their replies. Missing nodes and nodes with new children are not errors.
func (c *Client) deleteBelow(ctx context.Context, top string) error {
	failed := top
	err := c.engine.Repeat(ctx, func(l *engine.Connection) error {
		link := c.engine.On(l)
		nodes, err := c.tree(ctx, link, top, &failed)
		if err != nil {
			return err
		}
		return inFlight(ctx, c.engine, func(i int, done func(func() error)) bool {
			if i >= len(nodes)-1 { // the caller deletes the top
				return false
			}
			path := nodes[len(nodes)-1-i]
			link.Delete(path, anyVersion, func(err error) {
				done(func() error {
					if errors.Is(err, zk.ErrNotEmpty) {
						return nil
					}
					return because(&failed, path, err)
				})
			})
			return true
		})
	})
	return opError("delete", failed, err)
}

// tree returns the paths of a node and its descendants, parents before children, without nodes that
// do not exist. The lists are sent on one connection. It stores the path of an error in failed.
func (c *Client) tree(ctx context.Context, link engine.Link, top string, failed *string) (nodes []string, err error) {
	nodes = []string{top}
	missing := make(map[string]bool)
	err = inFlight(ctx, c.engine, func(i int, done func(func() error)) bool {
		if i == len(nodes) {
			return false
		}
		path := nodes[i]
		link.Children(path, func(names []string, _ *zk.Stat, err error) {
			done(func() error {
				missing[path] = errors.Is(err, zk.ErrNoNode)
				for _, name := range names {
					nodes = append(nodes, child(path, name))
				}
				return because(failed, path, err)
			})
		})
		return true
	})
	return slices.DeleteFunc(nodes, func(path string) bool { return missing[path] }), err
}

// child returns the path of a child. It does not clean the name: other clients may create names
// that are not valid here.
func child(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}

// because stores the path of an error in failed. zk.ErrNoNode is not an error.
func because(failed *string, path string, err error) error {
	if err == nil || errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	*failed = path
	return err
}

// inFlight calls send with 0, 1 and so on, until it returns false and all replies have arrived. At
// most treeWindow requests are in flight. done may be called on any goroutine. Its argument is
// called on the caller's goroutine. After an error no more requests are sent.
func inFlight(ctx context.Context, c engine.Client, send func(i int, done func(func() error)) bool) error {
	answers := make(chan func() error, treeWindow)
	for next, flying := 0, 0; ; {
		for flying < treeWindow && send(next, func(f func() error) { answers <- f }) {
			next, flying = next+1, flying+1
		}
		if flying == 0 {
			return nil
		}
		select {
		case f := <-answers:
			flying--
			if err := f(); err != nil {
				return err
			}
		case <-ctx.Done():
			return wire.GivenUp(ctx)
		case <-c.Done():
			return ErrClosed
		}
	}
}
