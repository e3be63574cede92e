package cache

import (
	"container/list"
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/gocurator/curator/internal/wait"
)

// Kind says what a [Change] reports.
type Kind int

// The kinds of changes.
const (
	Created Kind = iota + 1
	Changed
	Deleted
	Loaded // all that was there has been reported; about no node
)

// String is the kind in words, such as "created".
func (k Kind) String() string {
	if k >= Created && k <= Loaded {
		return [...]string{"created", "changed", "deleted", "loaded"}[k-1]
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// Change is a change of the copy, or of Kind Loaded. Then Path is empty, and Old and New are zero.
type Change struct {
	Kind Kind
	Path string
	Old  Node // what was there; zero if Kind is Created
	New  Node // what is there now; zero if Kind is Deleted
}

// Changes iterates over what the copy holds, as Created, and then over its changes, until ctx is done or the cache
// has ended. The last pair has no change, and says why it ended: the error is that of ctx, or that of [Cache.Err]. Any number of
// goroutines may have an iteration of their own.
//
//	for ch, err := range c.Changes(ctx) {
//		if err != nil { return err }
//		...
//	}
//
// One Change of Kind Loaded comes in each iteration, when all that was there has been reported: after what the copy
// holds, or, if the tree is being loaded for the first time, after what that finds. It also comes if there is no node.
//
// Changes of one path come in order: Created, then Changed, then Deleted, then Created again. A node that was deleted
// and created again comes as both, so Old and New of a Changed have the same Czxid. Parents are created before
// and deleted after their children. Whoever applies all changes one after the other has the copy.
//
// A reader that is slower than the changes gets the newest state of each path instead of every one; a node that was
// created and deleted meanwhile is left out. So at most two changes of each path wait for a reader.
func (c *Cache) Changes(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		for i := range c.nodes.items(c.nodes.subscribe(), ctx, c.ctx) {
			if !yield(change(i, (*value).node), nil) {
				return
			}
		}
		yield(Change{}, opError("changes", c.Path(), c.ended(ctx)))
	}
}

// ended is why a wait for the cache has ended.
func (c *Cache) ended(ctx context.Context) error {
	if err := c.Err(); err != nil {
		return err
	}
	return wait.Err(ctx)
}

// change is what an item says to users.
func change[V any](i *item[V], node func(v *V, path string) Node) Change {
	ch := Change{Path: i.path, Kind: i.kind()}
	if i.old != nil {
		ch.Old = node(i.old, i.path)
	}
	if i.new != nil {
		ch.New = node(i.new, i.path)
	}
	return ch
}

// reader is what waits for one iteration over changes: a queue with at most two items for each path, a deletion
// and what came after it.
type reader[V any] struct {
	first []*item[V] // what comes before the queue; for the goroutine that iterates
	wake  wait.Signal

	mu    sync.Mutex               // guards what follows
	queue list.List                // of *item[V]
	open  map[string]*list.Element // by path, what a later change is merged with
}

func newReader[V any]() *reader[V] { return &reader[V]{open: make(map[string]*list.Element)} }

// item is a change. One without a path is about no node.
type item[V any] struct {
	path     string
	old, new *V
	taken    chan struct{} // nil, or closed by the reader
}

func (i *item[V]) kind() Kind {
	switch {
	case i.path == "":
		return Loaded
	case i.old == nil:
		return Created
	case i.new == nil:
		return Deleted
	}
	return Changed
}

// push adds a change, or merges it with what waits. Nothing is merged with a deletion: what follows it is a creation.
func (r *reader[V]) push(i *item[V]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.wake.Raise()
	if e := r.open[i.path]; e != nil {
		waits := e.Value.(*item[V])
		if i.new != nil {
			waits.new = i.new
			return
		}
		r.remove(e)
		if waits.old == nil {
			return // it was created and deleted before the reader saw it
		}
	}
	e := r.queue.PushBack(i) // a deletion comes behind those of its children
	if i.new != nil {
		r.open[i.path] = e
	}
}

// remove takes an item out of the queue.
func (r *reader[V]) remove(e *list.Element) *item[V] {
	i := r.queue.Remove(e).(*item[V])
	if r.open[i.path] == e {
		delete(r.open, i.path)
	}
	return i
}

// pop takes the first item, or returns nil.
func (r *reader[V]) pop() *item[V] {
	if len(r.first) > 0 {
		i := r.first[0]
		r.first = r.first[1:]
		return i
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.queue.Front(); e != nil {
		return r.remove(e)
	}
	return nil
}

// items iterates over what waits for a reader and what comes, until one of the contexts is done. After that nothing comes any more.
func (s *store[V]) items(r *reader[V], ctx, ended context.Context) iter.Seq[*item[V]] {
	return func(yield func(*item[V]) bool) {
		defer s.readers.Delete(r)
		for ctx.Err() == nil && ended.Err() == nil {
			if i := r.pop(); i == nil {
				select {
				case <-r.wake.C():
				case <-ctx.Done():
				case <-ended.Done():
				}
			} else if !yield(i) {
				return
			}
		}
	}
}
