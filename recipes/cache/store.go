package cache

import (
	"slices"
	"strings"
	"sync"

	"github.com/gocurator/curator/framework"
)

// store is a tree of values, whose changes readers get. One goroutine changes it, and may use find without the lock. Otherwise
// it is safe for concurrent use.
type store[V any] struct {
	path    string   // of the root
	readers sync.Map // *reader[V] to nil

	mu     sync.RWMutex // guards what follows, and is held while readers get a change
	root   *node[V]     // nil if it does not exist
	size   int
	loaded bool // all that was there has been put
}

type node[V any] struct {
	value    *V                  // never nil; what it refers to is never changed
	children map[string]*node[V] // nil if there are none
}

// find returns the node at path, or nil.
func (s *store[V]) find(path string) *node[V] {
	rel, ok := s.below(path)
	if !ok || path != "/" && strings.HasSuffix(path, "/") {
		return nil
	}
	n := s.root
	for rel != "" && n != nil {
		var name string
		name, rel, _ = strings.Cut(rel, "/")
		n = n.children[name]
	}
	return n
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

func (s *store[V]) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.size
}

// put sets the value at path, below a parent that must be there. Readers get it if it is a change.
func (s *store[V]) put(path string, v *V, change bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var old *V
	if n := s.find(path); n != nil {
		old, n.value = n.value, v
	} else {
		s.add(path, &node[V]{value: v})
	}
	if change {
		s.publish(path, old, v)
	}
}

func (s *store[V]) add(path string, n *node[V]) {
	s.size++
	if path == s.path {
		s.root = n
		return
	}
	dir, name := framework.Split(path)
	parent := s.find(dir)
	if parent.children == nil {
		parent.children = make(map[string]*node[V])
	}
	parent.children[strings.Clone(name)] = n // not a part of the path, which would stay as well
}

// remove takes out a node without children.
func (s *store[V]) remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish(path, s.find(path).value, nil)
	s.size--
	if path == s.path {
		s.root = nil
		return
	}
	dir, name := framework.Split(path)
	parent := s.find(dir)
	delete(parent.children, name)
	if len(parent.children) == 0 { // a map does not shrink
		parent.children = nil
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

// publish adds to what all readers get that there is now v at path instead of old; nil stands for nothing.
func (s *store[V]) publish(path string, old, v *V) {
	for r := range s.readers.Range {
		r.(*reader[V]).push(&item[V]{path: path, old: old, new: v})
	}
}

// subscribe makes a reader of what there is and of all changes from now on.
func (s *store[V]) subscribe() *reader[V] {
	r := newReader[V]()
	s.mu.RLock() // nothing is published meanwhile
	s.readers.Store(r, nil)
	list, loaded := s.collect(), s.loaded
	s.mu.RUnlock()
	for _, p := range sorted(list) {
		r.first = append(r.first, &item[V]{path: p.path, new: p.value})
	}
	if loaded {
		r.first = append(r.first, &item[V]{})
	}
	return r
}

// placed is a value with its path.
type placed[V any] struct {
	path  string
	value *V
}

// all returns the tree: each node before its children, siblings in order of their names.
func (s *store[V]) all() []placed[V] {
	s.mu.RLock()
	list := s.collect()
	s.mu.RUnlock()
	return sorted(list)
}

// children returns the children of path in order of their names.
func (s *store[V]) children(path string) []placed[V] {
	var list []placed[V]
	s.mu.RLock()
	if n := s.find(path); n != nil {
		for name, child := range n.children {
			list = append(list, placed[V]{framework.Join(path, name), child.value})
		}
	}
	s.mu.RUnlock()
	return sorted(list)
}

// collect lists the tree in no order. s.mu is held.
func (s *store[V]) collect() []placed[V] {
	if s.root == nil {
		return nil
	}
	return s.root.collect(s.path, make([]placed[V], 0, s.size))
}

func (n *node[V]) collect(path string, list []placed[V]) []placed[V] {
	list = append(list, placed[V]{path, n.value})
	for name, child := range n.children {
		list = child.collect(framework.Join(path, name), list)
	}
	return list
}

func sorted[V any](list []placed[V]) []placed[V] {
	slices.SortFunc(list, func(a, b placed[V]) int { return comparePaths(a.path, b.path) })
	return list
}

// comparePaths orders paths by their elements, so that a node comes directly before what is below it.
func comparePaths(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == b[i]:
		case a[i] == '/' || b[i] != '/' && a[i] < b[i]:
			return -1
		default:
			return 1
		}
	}
	return len(a) - len(b)
}

// below returns path without that of the root, "" for the root itself, and whether it is the root or below.
func (s *store[V]) below(path string) (rel string, ok bool) {
	if path == s.path {
		return "", true
	}
	if s.path != "/" {
		if path, ok = strings.CutPrefix(path, s.path); !ok {
			return "", false
		}
	}
	return strings.CutPrefix(path, "/")
}
