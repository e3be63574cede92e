package cache

import (
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
	children *children // nil if there are none

	// The rest is for the cache's goroutine only. read is the number of the loop in which the node was last found. gone
	// is set when the server had no such node while it has children in the tree: those are checked first.
	read uint32
	gone bool
}

// value is what is known of a node. It is never changed.
type value struct {
	data []byte
	stat zk.Stat
}

func (v *value) node(path string) Node { return Node{Path: path, Data: v.data, Stat: v.stat} }

// compare orders two states of one path by age.
func (v *value) compare(s *zk.Stat) int {
	switch {
	case v.stat.Czxid < s.Czxid, v.stat.Czxid == s.Czxid && v.stat.Mzxid < s.Mzxid:
		return -1
	case v.stat.Czxid == s.Czxid && v.stat.Mzxid == s.Mzxid:
		return 0
	}
	return 1
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
		n = n.children.get(name)
	}
	return n
}

// add puts a node into the tree. Its parent must be there, unless it is the root.
func (t *tree) add(path string, v *value) *node {
	t.nodes++
	t.bytes += int64(len(v.data))
	if path == t.path {
		t.root = &node{name: path, value: v}
		return t.root
	}
	dir, name := framework.Split(path)
	parent := t.find(dir)
	n := &node{parent: parent, name: strings.Clone(name), value: v}
	if parent.children == nil {
		parent.children = &children{}
	}
	parent.children.add(n)
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
	n.parent.children.remove(n.name)
	if n.parent.children.len() == 0 {
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

// held is a node with its value at one moment.
type held struct {
	node  *node
	value *value
}

// all lists the tree, each node before its children.
func (t *tree) all() []held {
	if t.root == nil {
		return nil
	}
	list := make([]held, 1, t.nodes)
	list[0] = held{t.root, t.root.value}
	for i := 0; i < len(list); i++ {
		for child := range list[i].node.children.all() {
			list = append(list, held{child, child.value})
		}
	}
	return list
}

// placed is a value with its path.
type placed struct {
	path  string
	value *value
}

// inOrder sorts what all returned: each node before its children, siblings by name. It needs no lock.
func inOrder(list []held, root string) []placed {
	sorted := make([]placed, len(list))
	for i, h := range list {
		sorted[i] = placed{h.node.path(), h.value}
	}
	slices.SortFunc(sorted, func(a, b placed) int { return comparePaths(a.path, b.path) })
	return sorted
}

// comparePaths orders paths by their elements, so that a node comes directly before what is below it.
func comparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] == b[i] {
			continue
		}
		switch {
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		case a[i] < b[i]:
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}
