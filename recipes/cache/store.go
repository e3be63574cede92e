package cache

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gocurator/curator/framework"
)

// store is a tree of values, whose changes readers get. One goroutine changes it, and may use find without the lock; others may read it.
type store[V any] struct {
	path    string   // of the root
	readers sync.Map // *reader[V] to nil
	size    atomic.Int64

	mu     sync.RWMutex // guards what follows, and is held while readers get a change
	root   *node[V]     // nil if it does not exist
	loaded bool         // all that was there has been put
}

// anyLevel is a number of levels without a limit.
const anyLevel = math.MaxInt

type node[V any] struct {
	value    *V                  // never nil; what it refers to is never changed
	children map[string]*node[V] // nil if there are none
	loop     uint32              // for the goroutine that changes the store: the last loop that has reached the node
}

// orZero is what v refers to, if there is something.
func orZero[V any](v *V) (none V) {
	if v != nil {
		return *v
	}
	return none
}

// find returns the node at path, or nil.
func (s *store[V]) find(path string) *node[V] {
	if path == s.path {
		return s.root
	}
	if dir, name := framework.Split(path); strings.HasPrefix(path, s.path) {
		if parent := s.find(dir); parent != nil {
			return parent.children[name]
		}
	}
	return nil
}

// get returns the value at path, or nil.
func (s *store[V]) get(path string) *V {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if n := s.find(path); n != nil {
		return n.value
	}
	return nil
}

// list returns the node at path and those that are at most so many levels below it, in the order of [Cache.All].
func (s *store[V]) list(path string, levels int) []item[V] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.find(path).list(path, levels, nil)
}

func (n *node[V]) list(path string, levels int, list []item[V]) []item[V] {
	if n == nil {
		return list
	}
	list = append(list, item[V]{path: path, new: n.value})
	if levels > 0 {
		for _, name := range slices.Sorted(maps.Keys(n.children)) {
			list = n.children[name].list(framework.Join(path, name), levels-1, list)
		}
	}
	return list
}

// put has v be what is at path, below a parent that must be there, and returns its node. A nil v takes out what is there, which must have
// no children. Readers get it if it is a change.
func (s *store[V]) put(path string, v *V, change bool) *node[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, old := s.find(path), (*V)(nil)
	switch {
	case n == nil:
		n = &node[V]{value: v}
		s.place(path, n)
		s.size.Add(1)
	case v == nil:
		old = n.value
		s.place(path, nil)
		s.size.Add(-1)
	default:
		old, n.value = n.value, v
	}
	if change {
		s.publish(path, old, v)
	}
	return n
}

// place has n be the node at path; nil takes out the one that is there.
func (s *store[V]) place(path string, n *node[V]) {
	dir, name := framework.Split(path)
	parent := s.find(dir)
	switch {
	case path == s.path:
		s.root = n
	case n == nil:
		if delete(parent.children, name); len(parent.children) == 0 { // a map does not shrink
			parent.children = nil
		}
	default:
		if parent.children == nil {
			parent.children = make(map[string]*node[V])
		}
		parent.children[strings.Clone(name)] = n // not a part of the path, which would stay as well
	}
}

// endLoad says that all that was there has been put. Readers get that once.
func (s *store[V]) endLoad() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.loaded {
		s.loaded = true
		s.publish("", nil, nil)
	}
}
