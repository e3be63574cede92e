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
// has ended ([Cache.Err] says why). Any number of goroutines may have an iteration of their own.
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
func (c *Cache) Changes(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		r := c.subscribe()
		defer c.feed.unsubscribe(r)
		for i := range r.items(ctx, c.ctx) {
			if !yield(change(i)) {
				return
			}
		}
	}
}

// subscribe makes a reader of what there is and of all changes from now on.
func (c *Cache) subscribe() *reader[value] {
	r := newReader[value]()
	c.mu.RLock() // nothing is published meanwhile
	c.feed.subscribe(r)
	nodes, loaded := c.tree.all(), c.resyncs > 0
	c.mu.RUnlock()
	for _, n := range sorted(nodes) {
		r.first = append(r.first, &item[value]{path: n.path, new: n.value})
	}
	if loaded {
		r.first = append(r.first, &item[value]{})
	}
	return r
}

func change(i *item[value]) Change {
	ch := Change{Path: i.path, Kind: i.kind()}
	if i.old != nil {
		ch.Old = i.old.node(i.path)
	}
	if i.new != nil {
		ch.New = i.new.node(i.path)
	}
	return ch
}

// feed has readers of changes. V is what there is at a path. It is safe for concurrent use.
type feed[V any] struct {
	mu      sync.Mutex // guards readers
	readers map[*reader[V]]struct{}
}

func (f *feed[V]) subscribe(r *reader[V]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers == nil {
		f.readers = make(map[*reader[V]]struct{})
	}
	f.readers[r] = struct{}{}
}

func (f *feed[V]) unsubscribe(r *reader[V]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, r)
}

// publish adds to what all readers get that there is now v at path instead of old; nil stands for nothing. Without a path,
// all that was there has been published.
func (f *feed[V]) publish(path string, old, v *V) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range f.readers {
		r.push(&item[V]{path: path, old: old, new: v})
	}
}

// reader is what waits for one iteration over changes: a queue with at most two items for each path, a deletion
// and what came after it.
type reader[V any] struct {
	first []*item[V] // what comes before the queue; for the goroutine that iterates
	wake  wait.Signal

	mu    sync.Mutex // guards what follows
	queue list.List  // of *item[V]
	last  map[string]*list.Element
}

func newReader[V any]() *reader[V] { return &reader[V]{last: make(map[string]*list.Element)} }

// item is a change. One without a path is about no node.
type item[V any] struct {
	path     string
	old, new *V
	before   *list.Element // the deletion of the same path that waits, too
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

// push adds a change, or merges it with what waits.
func (r *reader[V]) push(i *item[V]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.wake.Raise()
	last := r.last[i.path]
	if last == nil || i.old == nil { // the first one, or one after a deletion
		i.before = last
		r.append(i)
		return
	}
	merged := last.Value.(*item[V])
	if i.new != nil {
		merged.new = i.new
		return
	}
	r.unlink(last)
	if merged.old != nil { // otherwise it was created and deleted before the reader saw it
		r.append(i) // to the end, behind the deletions of its children
	}
}

func (r *reader[V]) append(i *item[V]) {
	e := r.queue.PushBack(i)
	if i.path != "" {
		r.last[i.path] = e
	}
}

// unlink takes an item out of the queue.
func (r *reader[V]) unlink(e *list.Element) {
	i := r.queue.Remove(e).(*item[V])
	switch {
	case r.last[i.path] != e: // not the last one: the later one was told of it
	case i.before != nil:
		r.last[i.path] = i.before
	default:
		delete(r.last, i.path)
	}
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
	e := r.queue.Front()
	if e == nil {
		return nil
	}
	i := e.Value.(*item[V])
	if later := r.last[i.path]; later != nil && later != e {
		later.Value.(*item[V]).before = nil
	}
	r.unlink(e)
	return i
}

// items iterates over what waits and what comes, until one of the contexts is done.
func (r *reader[V]) items(ctx, ended context.Context) iter.Seq[*item[V]] {
	return func(yield func(*item[V]) bool) {
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
