package tree

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// Node is a znode. Its Stat.Cversion counts only creates of children; Public returns the clients'
// view.
type Node struct {
	Data      []byte
	ACL       []proto.ACL
	Stat      proto.Stat
	children  []string // names, by inNoOrder
	Container bool
	TTL       time.Duration
	childSets int32 // writes of children's data, on a Keeper
	shown     int64 // ephemeralOwner of a container, as clients see it
}

// Public returns the stat as clients see it. Its cversion counts creates and deletes of children,
// and on a Keeper also their writes.
func (n *Node) Public() proto.Stat {
	s := n.Stat
	s.DataLength = int32(len(n.Data))
	s.NumChildren = int32(len(n.children))
	s.Cversion = n.Stat.Cversion*2 - s.NumChildren + n.childSets
	s.EphemeralOwner |= n.shown // one of the two is 0
	return s
}

// List returns the names of a node's children in the order in which clients see them. The caller
// must not modify the list.
func (n *Node) List() []string { return n.children }

// Tree is a server's data. Only transactions change it.
type Tree struct {
	Nodes      map[string]*Node
	ephemerals map[int64]map[string]struct{} // paths, by the session that owns them
	reapable   map[string]*Node              // containers and TTL nodes, by path
	Rules      Rules
	Zxid       int64 // zxid of the last transaction
}

// Node returns the node at a client's path, or nil. The root has two names: "/" and "", the parent
// of "/a".
func (t *Tree) Node(path string) *Node {
	if path == "" {
		path = "/"
	}
	return t.Nodes[path]
}

// attach adds a node to the tree and its indexes. Its parent exists.
func (t *Tree) attach(path string, n *Node) {
	dir, name := Split(path)
	parent := t.Nodes[dir]
	i, _ := slices.BinarySearchFunc(parent.children, name, inNoOrder)
	parent.children = slices.Insert(parent.children, i, name)
	t.Nodes[path] = n
	if owner := n.Stat.EphemeralOwner; owner != 0 {
		if t.ephemerals[owner] == nil {
			t.ephemerals[owner] = make(map[string]struct{})
		}
		t.ephemerals[owner][path] = struct{}{}
	}
	if n.Container || n.TTL > 0 {
		t.reapable[path] = n
	}
}

// detach takes a node out of the tree and its indexes.
func (t *Tree) detach(path string, n *Node) {
	dir, name := Split(path)
	parent := t.Nodes[dir]
	if i, found := slices.BinarySearchFunc(parent.children, name, inNoOrder); found {
		parent.children = slices.Delete(parent.children, i, i+1)
	}
	delete(t.Nodes, path)
	if owner := n.Stat.EphemeralOwner; owner != 0 {
		delete(t.ephemerals[owner], path)
		if len(t.ephemerals[owner]) == 0 {
			delete(t.ephemerals, owner)
		}
	}
	delete(t.reapable, path)
}

// inNoOrder compares names for an order that never changes and is unrelated to the names. A real
// server lists the contents of a hash table.
func inNoOrder(a, b string) int {
	return cmp.Or(cmp.Compare(scatter(a), scatter(b)), strings.Compare(a, b))
}

// scatter is the FNV-1a hash of a name.
func scatter(name string) uint32 {
	h := uint32(2166136261)
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return h
}

// Owned returns the sorted paths of a session's ephemeral nodes.
func (t *Tree) Owned(owner int64) []string {
	return slices.Sorted(maps.Keys(t.ephemerals[owner]))
}

// countBelow returns the number of nodes below a node.
func (t *Tree) countBelow(path string, n *Node) int {
	count := len(n.children)
	for _, name := range n.children {
		child := strings.TrimSuffix(path, "/") + "/" + name
		count += t.countBelow(child, t.Nodes[child])
	}
	return count
}

// Split splits a path into its parent's path, which is a key of Tree.Nodes, and the node's name.
func Split(path string) (dir, name string) {
	slash := strings.LastIndexByte(path, '/')
	return path[:max(slash, 1)], path[slash+1:]
}

// NewTree returns a tree that contains only the server's own nodes.
func NewTree(rules Rules) *Tree {
	t := &Tree{
		Nodes:      map[string]*Node{"/": {Data: []byte{}, ACL: OpenACL}},
		ephemerals: make(map[int64]map[string]struct{}),
		reapable:   make(map[string]*Node),
		Rules:      rules,
	}
	if rules.Keeper == KeeperOld {
		return t
	}
	if rules.Keeper != 0 {
		t.attach("/keeper", &Node{Data: []byte{}, ACL: OpenACL})
		for path, data := range keeperPaths {
			t.attach(path, &Node{Data: []byte(data), ACL: OpenACL})
		}
		return t
	}
	for _, path := range []string{"/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		t.attach(path, &Node{Data: []byte{}, ACL: OpenACL})
	}
	config := t.Nodes["/zookeeper/config"]
	config.ACL = []proto.ACL{{Perms: PermRead, Scheme: "world", ID: "anyone"}}
	config.Stat.Aversion = -1
	return t
}

// validPath applies the rules of the ZooKeeper data model.
func validPath(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	if path == "/" {
		return true
	}
	for element := range strings.SplitSeq(path[1:], "/") {
		if element == "" || element == "." || element == ".." {
			return false
		}
	}
	return !strings.ContainsFunc(path, func(r rune) bool {
		// Java sees characters beyond 16 bits as two surrogates, and those are forbidden.
		return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
	})
}

// Clone returns a copy. Both trees share data and access lists, which are replaced and never
// modified.
func (t *Tree) Clone() *Tree {
	copied := &Tree{
		Nodes: make(map[string]*Node), ephemerals: make(map[int64]map[string]struct{}), reapable: make(map[string]*Node), Rules: t.Rules, Zxid: t.Zxid,
	}
	for path, n := range t.Nodes {
		other := *n
		other.children = slices.Clone(n.children)
		copied.Nodes[path] = &other
	}
	for owner, paths := range t.ephemerals {
		copied.ephemerals[owner] = maps.Clone(paths)
	}
	for path := range t.reapable {
		copied.reapable[path] = copied.Nodes[path]
	}
	return copied
}
