package zktest

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// Stat is a node's stat, as clients see it. Times are in milliseconds since 1970.
type Stat struct {
	Czxid, Mzxid, Ctime, Mtime  int64
	Version, Cversion, Aversion int32
	EphemeralOwner              int64
	DataLength, NumChildren     int32
	Pzxid                       int64
}

// node is a znode. stat.Cversion counts creates of children only; what clients see is
// worked out by public.
type node struct {
	data      []byte
	acl       []proto.ACL
	stat      Stat
	children  []string // names, by inNoOrder
	container bool
	ttl       time.Duration
	childSets int32 // writes of children's data, on a Keeper
	shown     int64 // ephemeralOwner of a container, as clients see it
}

// public is the stat that clients see. The server counts creates; clients see creates and
// deletes, and on a Keeper also writes.
func (n *node) public() Stat {
	s := n.stat
	s.DataLength = int32(len(n.data))
	s.NumChildren = int32(len(n.children))
	s.Cversion = n.stat.Cversion*2 - s.NumChildren + n.childSets
	s.EphemeralOwner |= n.shown // one of the two is 0
	return s
}

// list returns the names of a node's children, in the order in which clients see them. The list is the node's own.
func (n *node) list() []string { return n.children }

// tree is the data of a server. It changes by transactions only, see entry. It is guarded by Server.mu.
type tree struct {
	nodes      map[string]*node
	ephemerals map[int64]map[string]struct{} // paths, by the session that owns them
	reapable   map[string]*node              // containers and TTL nodes, by path
	cfg        config                        // the same on every member of a cluster
	zxid       int64                         // of the last transaction
}

// node finds a node as a client names it. The root has two names: the parent of "/a" is "".
func (t *tree) node(path string) *node {
	if path == "" {
		path = "/"
	}
	return t.nodes[path]
}

// attach adds a node to the tree and its indexes. Its parent exists.
func (t *tree) attach(path string, n *node) {
	dir, name := split(path)
	parent := t.nodes[dir]
	i, _ := slices.BinarySearchFunc(parent.children, name, inNoOrder)
	parent.children = slices.Insert(parent.children, i, name)
	t.nodes[path] = n
	if owner := n.stat.EphemeralOwner; owner != 0 {
		if t.ephemerals[owner] == nil {
			t.ephemerals[owner] = make(map[string]struct{})
		}
		t.ephemerals[owner][path] = struct{}{}
	}
	if n.container || n.ttl > 0 {
		t.reapable[path] = n
	}
}

// detach takes a node out of the tree and its indexes.
func (t *tree) detach(path string, n *node) {
	dir, name := split(path)
	parent := t.nodes[dir]
	if i, found := slices.BinarySearchFunc(parent.children, name, inNoOrder); found {
		parent.children = slices.Delete(parent.children, i, i+1)
	}
	delete(t.nodes, path)
	if owner := n.stat.EphemeralOwner; owner != 0 {
		delete(t.ephemerals[owner], path)
		if len(t.ephemerals[owner]) == 0 {
			delete(t.ephemerals, owner)
		}
	}
	delete(t.reapable, path)
}

// inNoOrder compares names for an order that is always the same and has nothing to do with them, as that of a real server, which lists what
// is in a hash table.
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

// owned lists the ephemeral nodes of a session, sorted.
func (t *tree) owned(owner int64) []string {
	return slices.Sorted(maps.Keys(t.ephemerals[owner]))
}

// countBelow is the number of nodes below a node.
func (t *tree) countBelow(path string, n *node) int {
	count := len(n.children)
	for _, name := range n.children {
		child := strings.TrimSuffix(path, "/") + "/" + name
		count += t.countBelow(child, t.nodes[child])
	}
	return count
}

// split takes a path apart into its parent's, which is a key of tree.nodes, and the name.
func split(path string) (dir, name string) {
	slash := strings.LastIndexByte(path, '/')
	return path[:max(slash, 1)], path[slash+1:]
}

// newTree makes a tree with ZooKeeper's own nodes.
func newTree(cfg config) *tree {
	t := &tree{
		nodes:      map[string]*node{"/": {data: []byte{}, acl: openACL}},
		ephemerals: make(map[int64]map[string]struct{}),
		reapable:   make(map[string]*node),
		cfg:        cfg,
	}
	if cfg.keeper == KeeperOld {
		return t
	}
	if cfg.keeper != 0 {
		t.attach("/keeper", &node{data: []byte{}, acl: openACL})
		for path, data := range keeperPaths {
			t.attach(path, &node{data: []byte(data), acl: openACL})
		}
		return t
	}
	for _, path := range []string{"/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		t.attach(path, &node{data: []byte{}, acl: openACL})
	}
	config := t.nodes["/zookeeper/config"]
	config.acl = []proto.ACL{{Perms: permRead, Scheme: "world", ID: "anyone"}}
	config.stat.Aversion = -1
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
