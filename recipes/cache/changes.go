package cache

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/wait"
)

// Kind is the kind of a [Change].
type Kind int

// The kinds of changes.
const (
	Created Kind = iota + 1
	Changed
	Deleted
	Loaded // the content of the copy has been reported; Path is empty
)

// String returns the kind in words, such as "created".
func (k Kind) String() string {
	words := map[Kind]string{Created: "created", Changed: "changed", Deleted: "deleted", Loaded: "loaded"}
	return cmp.Or(words[k], fmt.Sprintf("Kind(%d)", int(k)))
}

// Change is a change of the copy. With Kind Loaded the other fields are zero.
type Change struct {
	Kind Kind
	Path string
	Old  Node // zero if Kind is Created
	New  Node // zero if Kind is Deleted
}

// Changes yields the content of the copy as Created, then [Loaded], and then its changes. The last
// pair is a zero Change with an error.
//
// A slow reader receives the newest state of each path instead of every state. The package comment
// describes the order.
//
// Errors are
//   - the error of ctx if ctx is done;
//   - [framework.ErrEnded] if the cache was closed;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In].
func (c *Cache) Changes(ctx context.Context) iter.Seq2[Change, error] {
	return changes(ctx, c, &c.nodes, func(i *item[value]) Change { return change(i, (*value).node) })
}

// changes iterates over the content of a store and over its changes, and then yields why it has
// ended.
func changes[V, C any](ctx context.Context, c *Cache, s *store[V], change func(*item[V]) C) iter.Seq2[C, error] {
	return func(yield func(C, error) bool) {
		for i := range s.items(s.subscribe(), ctx, c.ctx) {
			if !yield(change(i), nil) {
				return
			}
		}
		yield(*new(C), operr.New("changes", c.Path(), c.ended(ctx)))
	}
}

// ended returns why a wait for the cache has ended.
func (c *Cache) ended(ctx context.Context) error { return cmp.Or(c.Err(), wait.Err(ctx)) }

// change converts an item for users.
func change[V any](i *item[V], node func(v *V, path string) Node) Change {
	switch {
	case i.path == "":
		return Change{Kind: Loaded}
	case i.old == nil:
		return Change{Kind: Created, Path: i.path, New: node(i.new, i.path)}
	case i.new == nil:
		return Change{Kind: Deleted, Path: i.path, Old: node(i.old, i.path)}
	default:
		return Change{Kind: Changed, Path: i.path, Old: node(i.old, i.path), New: node(i.new, i.path)}
	}
}
