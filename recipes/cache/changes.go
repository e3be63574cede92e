package cache

import (
	"context"
	"fmt"
	"iter"
	"sync"
)

// Kind says what happened to a node.
type Kind int

// The kinds of changes.
const (
	Created Kind = iota + 1
	Changed
	Deleted
)

// String is the kind in words, such as "created".
func (k Kind) String() string {
	switch k {
	case Created:
		return "created"
	case Changed:
		return "changed"
	case Deleted:
		return "deleted"
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// Change is a change of the copy.
type Change struct {
	Kind Kind
	Path string
	Old  Node // what was there; zero if Kind is Created
	New  Node // what is there now; zero if Kind is Deleted
}

// Changes iterates over what the copy holds, as Created, and then over its changes, until ctx is done or the cache
// has ended ([Cache.Err] says why). Any number of goroutines may have an iteration of their own.
//
// Changes of one path come in order: Created, then Changed, then Deleted, then Created again. A node that was deleted
// and created again comes as both, so Old and New of a Changed have the same Czxid. Parents are created before
// and deleted after their children. Whoever applies all changes one after the other has the copy.
//
// A reader that is slower than the changes gets the newest state of each path instead of every one; a node that was
// created and deleted meanwhile is left out. So at most two changes of each path wait for a reader.
func (c *Cache) Changes(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		r, there := c.subscribe()
		defer c.unsubscribe(r)
		for _, n := range inOrder(there, c.path) {
			if c.over(ctx) || !yield((&item{path: n.path, value: n.value}).change()) {
				return
			}
		}
		for !c.over(ctx) {
			if i := r.pop(); i != nil {
				if !yield(i.change()) {
					return
				}
				continue
			}
			select {
			case <-r.wake:
			case <-ctx.Done():
			case <-c.ctx.Done():
			}
		}
	}
}

// over reports whether an iteration has to end.
func (c *Cache) over(ctx context.Context) bool { return ctx.Err() != nil || c.ctx.Err() != nil }

// subscribe makes a reader of all changes from now on, and returns it with what is there now.
func (c *Cache) subscribe() (*reader, []held) {
	r := &reader{last: make(map[string]*item), wake: make(chan struct{}, 1)}
	c.mu.RLock() // nothing is published meanwhile
	defer c.mu.RUnlock()
	c.readersMu.Lock()
	defer c.readersMu.Unlock()
	c.readers[r] = struct{}{}
	return r, c.tree.all()
}

func (c *Cache) unsubscribe(r *reader) {
	c.readersMu.Lock()
	defer c.readersMu.Unlock()
	delete(c.readers, r)
}

// publish tells all readers that the value of path is now v instead of old. c.mu is held for writing.
func (c *Cache) publish(path string, old, v *value) {
	c.readersMu.Lock()
	defer c.readersMu.Unlock()
	for r := range c.readers {
		if old != nil && v != nil && old.stat.Czxid != v.stat.Czxid {
			r.push(path, old, nil)
			r.push(path, nil, v)
			continue
		}
		r.push(path, old, v)
	}
}

// reader is what waits for one iteration over changes: a queue with at most two items for each path, a deletion
// and what came after it.
type reader struct {
	wake chan struct{} // capacity 1

	mu          sync.Mutex // guards what follows
	front, back *item
	last        map[string]*item // the last item of each path
}

type item struct {
	path       string
	old, value *value
	before     *item // the deletion of the same path that waits, too
	prev, next *item
}

func (i *item) change() Change {
	ch := Change{Path: i.path, Kind: Changed}
	if i.old == nil {
		ch.Kind = Created
	} else {
		ch.Old = i.old.node(i.path)
	}
	if i.value == nil {
		ch.Kind = Deleted
	} else {
		ch.New = i.value.node(i.path)
	}
	return ch
}

// push adds a change, or merges it with what waits.
func (r *reader) push(path string, old, v *value) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last[path]
	switch {
	case last == nil, old == nil: // the first one, or one after a deletion
		r.append(&item{path: path, old: old, value: v, before: last})
	case v != nil:
		last.value = v
	case last.old == nil: // it was created and deleted before the reader saw it
		r.unlink(last)
	default: // to the end, behind the deletions of its children
		r.unlink(last)
		r.append(&item{path: path, old: old})
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// pop takes the first item, or returns nil.
func (r *reader) pop() *item {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.front
	if i == nil {
		return nil
	}
	if later := r.last[i.path]; later != i {
		later.before = nil
	}
	r.unlink(i)
	return i
}

func (r *reader) append(i *item) {
	r.last[i.path] = i
	i.prev = r.back
	if r.back == nil {
		r.front = i
	} else {
		r.back.next = i
	}
	r.back = i
}

// unlink takes i out of the queue.
func (r *reader) unlink(i *item) {
	if i.prev == nil {
		r.front = i.next
	} else {
		i.prev.next = i.next
	}
	if i.next == nil {
		r.back = i.prev
	} else {
		i.next.prev = i.prev
	}
	i.prev, i.next = nil, nil
	if r.last[i.path] != i {
		return
	}
	if i.before != nil {
		r.last[i.path] = i.before
	} else {
		delete(r.last, i.path)
	}
}
