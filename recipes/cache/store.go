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

// store is a tree of values that publishes its changes to readers. One goroutine changes it, and
// may use find without the lock; others may read it.
type store[V any] struct {
	path    string   // the path of the root
	readers sync.Map // *reader[V] to nil
	size    atomic.Int64

	mu     sync.RWMutex // guards the fields below, and is held while readers receive a change
	root   *node[V]     // nil if it does not exist
	loaded bool         // the first load is complete
}

// anyLevel is a number of levels without a limit.
const anyLevel = math.MaxInt

type node[V any] struct {
	value    *V                  // never nil; the value itself never changes
	children map[string]*node[V] // nil if there are none
	// reached is the number of the last follower that has reached the node. Only the goroutine that
	// changes the store uses it.
	reached uint32
}

// orZero returns *v, or the zero value for nil.
func orZero[V any](v *V) (none V) {
	if v != nil {
		return *v
	}
	return none
}

// find returns the node at path, or nil.
func (s *store[V]) find(path string) *node[V] {
	if n, known := s.nearest(path); known == path {
		return n
	}
	return nil
}

// holds reports whether path is the root or below it.
func (s *store[V]) holds(path string) bool {
	rest, below := strings.CutPrefix(path, s.path)
	return below && (rest == "" || s.path == "/" || rest[0] == '/')
}

// nearest returns the node at path, or else its nearest ancestor in the store, and the path of that
// node. Without one it returns nil.
func (s *store[V]) nearest(path string) (n *node[V], known string) {
	if s.root == nil || !s.holds(path) {
		return nil, ""
	}
	n, known = s.root, s.path
	for known != path {
		next := step(known, path)
		child := n.children[next[strings.LastIndexByte(next, '/')+1:]]
		if child == nil {
			break
		}
		n, known = child, next
	}
	return n, known
}

// step returns the path one level below known on the way to path, which is below known.
func step(known, path string) string {
	start := len(known)
	if path[start] == '/' { // it is not behind the root "/"
		start++
	}
	if i := strings.IndexByte(path[start:], '/'); i >= 0 {
		return path[:start+i]
	}
	return path
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

// list returns the node at path and the nodes at most levels below it, in the order of [Cache.All].
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

// put sets the value at path, below an existing parent, and returns its node. A nil v removes the
// node, which must have no children. Readers get the item if it is a change.
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

// place puts n at path; nil removes the present node.
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
		// A substring would keep the path in memory.
		parent.children[strings.Clone(name)] = n
	}
}

// endLoad records that the first load is complete. Readers are notified once.
func (s *store[V]) endLoad() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.loaded {
		s.loaded = true
		s.publish("", nil, nil)
	}
}
