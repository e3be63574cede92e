package cache

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// tree is the nodes of a cache. It is guarded by Cache.mu.
type tree struct {
	path  string // of the root
	root  *node  // nil if it does not exist
	nodes int
	bytes int64
}

// node is a node of the tree. parent and name never change.
type node struct {
	parent   *node
	name     string // of the root: its path
	value    *value
	children map[string]*node // nil if there are none
	read     uint32           // the number of the loop in which the node was last found; for the cache's goroutine only
}

// value is what is known of a node. It is never changed.
type value struct {
	data []byte
	stat zk.Stat
}

func (v *value) node(path string) Node { return Node{Path: path, Data: v.data, Stat: v.stat} }

// compare orders two states of one path by age.
func (v *value) compare(s *zk.Stat) int {
	return cmp.Or(cmp.Compare(v.stat.Czxid, s.Czxid), cmp.Compare(v.stat.Mzxid, s.Mzxid))
}

// relative returns path without root, "" for root itself, and whether it is root or below.
func relative(root, path string) (string, bool) {
	if path == root {
		return "", true
	}
	if root == "/" {
		return strings.CutPrefix(path, "/")
	}
	rel, found := strings.CutPrefix(path, root)
	if !found || rel[0] != '/' {
		return "", false
	}
	return rel[1:], true
}

// depth is the level of a path below the root, as [relative] returns it.
func depth(rel string) int {
	if rel == "" {
		return 0
	}
	return strings.Count(rel, "/") + 1
}

// find returns the node at path, or nil.
func (t *tree) find(path string) *node {
	rel, ok := relative(t.path, path)
	if !ok || path != "/" && strings.HasSuffix(path, "/") {
		return nil
	}
	n := t.root
	for rel != "" && n != nil {
		var name string
		name, rel, _ = strings.Cut(rel, "/")
		n = n.children[name]
	}
	return n
}

// parent returns the parent of the node at path, which need not exist, or nil.
func (t *tree) parent(path string) *node {
	dir, _ := framework.Split(path)
	return t.find(dir)
}

// add puts a node into the tree. Its parent must be there.
func (t *tree) add(path string, v *value) *node {
	t.nodes++
	t.bytes += int64(len(v.data))
	if path == t.path {
		t.root = &node{name: path, value: v}
		return t.root
	}
	_, name := framework.Split(path)
	parent := t.parent(path)
	n := &node{parent: parent, name: strings.Clone(name), value: v}
	if parent.children == nil {
		parent.children = make(map[string]*node)
	}
	parent.children[n.name] = n
	return n
}

// set replaces the value of a node.
func (t *tree) set(n *node, v *value) {
	t.bytes += int64(len(v.data)) - int64(len(n.value.data))
	n.value = v
}

// remove takes out a node without children.
func (t *tree) remove(n *node) {
	t.nodes--
	t.bytes -= int64(len(n.value.data))
	if n.parent == nil {
		t.root = nil
		return
	}
	delete(n.parent.children, n.name)
	if len(n.parent.children) == 0 { // a map does not shrink
		n.parent.children = nil
	}
}

// path returns the path of a node. It needs no lock.
func (n *node) path() string {
	if n.parent == nil {
		return n.name
	}
	return framework.Join(n.parent.path(), n.name)
}

// placed is a value with its path.
type placed struct {
	path  string
	value *value
}

// all lists the tree in no order.
func (t *tree) all() []placed {
	if t.root == nil {
		return nil
	}
	return t.root.collect(t.path, make([]placed, 0, t.nodes))
}

func (n *node) collect(path string, list []placed) []placed {
	list = append(list, placed{path, n.value})
	for name, child := range n.children {
		list = child.collect(framework.Join(path, name), list)
	}
	return list
}

// sorted puts each node before its children, siblings by name.
func sorted(list []placed) []placed {
	slices.SortFunc(list, func(a, b placed) int { return comparePaths(a.path, b.path) })
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

// put gives the node at path, which is n unless that is nil, a value that is not older than its present one.
func (c *Cache) put(path string, n *node, v *value) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n == nil {
		n = c.tree.add(path, v)
		c.feed.publish(path, nil, v)
		return n
	}
	old := n.value
	switch {
	case old.stat.Czxid != v.stat.Czxid:
		c.feed.publish(path, old, nil)
		c.feed.publish(path, nil, v)
	case old.stat.Mzxid != v.stat.Mzxid:
		c.feed.publish(path, old, v)
	default:
		v = &value{old.data, v.stat} // only what is said of children and ACL is new
	}
	c.tree.set(n, v)
	return n
}

// remove takes out a node without children.
func (c *Cache) remove(n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.feed.publish(n.path(), n.value, nil)
	c.tree.remove(n)
}
