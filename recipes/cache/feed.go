package cache

import (
	"container/list"
	"context"
	"iter"
	"sync"

	"github.com/gocurator/curator/internal/wait"
)

// reader is the queue of one iteration over changes. It has at most two items for each path: a
// deletion and the change after it.
type reader[V any] struct {
	first []item[V] // precedes the queue; for the iterating goroutine
	wake  wait.Signal

	mu    sync.Mutex               // guards the fields below
	queue list.List                // elements are *item[V]
	open  map[string]*list.Element // by path: the item with which a later change is merged
}

// item is a change of path from old to new; nil stands for a missing node. An item without a path
// concerns no node.
type item[V any] struct {
	path     string
	old, new *V
	taken    chan struct{} // nil, or closed by the reader
}

// subscribe returns a reader of the present content and of all later changes.
func (s *store[V]) subscribe() *reader[V] {
	r := &reader[V]{open: make(map[string]*list.Element)}
	s.mu.RLock() // no change is published until the reader is registered
	defer s.mu.RUnlock()
	s.readers.Store(r, nil)
	r.first = s.root.list(s.path, anyLevel, nil)
	if s.loaded {
		r.first = append(r.first, item[V]{})
	}
	return r
}

// publish adds an item to the queues of all readers. s.mu is held.
func (s *store[V]) publish(path string, old, v *V) {
	for r := range s.readers.Range {
		r.(*reader[V]).push(&item[V]{path: path, old: old, new: v})
	}
}

// push adds a change, or merges it with a waiting one. Nothing is merged with a deletion: the
// change after it is a creation.
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
	e := r.queue.PushBack(i) // a deletion follows its children's
	if i.new != nil {
		r.open[i.path] = e
	}
}

// remove removes an item from the queue.
func (r *reader[V]) remove(e *list.Element) *item[V] {
	i := r.queue.Remove(e).(*item[V])
	if r.open[i.path] == e {
		delete(r.open, i.path)
	}
	return i
}

// pop removes and returns the first item, or returns nil.
func (r *reader[V]) pop() *item[V] {
	if len(r.first) > 0 {
		i := &r.first[0]
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

// items iterates over a reader's items until one of the contexts is done. Then it unsubscribes the
// reader.
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
