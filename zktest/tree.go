package zktest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Stat is a node's stat, as clients see it. Times are in milliseconds since 1970.
type Stat struct {
	Czxid, Mzxid, Ctime, Mtime  int64
	Version, Cversion, Aversion int32
	EphemeralOwner              int64
	DataLength, NumChildren     int32
	Pzxid                       int64
}

// code is an error code of the protocol.
type code int32

const (
	ok                      code = 0
	errRuntimeInconsistency code = -2
	errMarshalling          code = -5
	errUnimplemented        code = -6
	errBadArguments         code = -8
	errNoNode               code = -101
	errNoAuth               code = -102
	errBadVersion           code = -103
	errEphemeralParent      code = -108
	errNodeExists           code = -110
	errNotEmpty             code = -111
	errSessionExpired       code = -112
	errInvalidACL           code = -114
	errAuthFailed           code = -115
	errNoWatcher            code = -121
	errReconfigDisabled     code = -123

	// errUnknownOp is errUnimplemented, after which the connection is cut.
	errUnknownOp code = -1006
)

// onWire is the code that clients see.
func (c code) onWire() code {
	if c == errUnknownOp {
		return errUnimplemented
	}
	return c
}

var codeNames = map[code]string{
	ok: "ok", errRuntimeInconsistency: "rolled back", errMarshalling: "malformed", errUnimplemented: "unimplemented",
	errBadArguments: "bad arguments", errNoNode: "no node", errNoAuth: "not authorized", errBadVersion: "bad version",
	errEphemeralParent: "parent is ephemeral", errNodeExists: "node exists", errNotEmpty: "not empty",
	errSessionExpired: "session expired", errInvalidACL: "invalid ACL", errAuthFailed: "authentication failed",
	errNoWatcher: "no watcher", errReconfigDisabled: "reconfiguration disabled",
}

func (c code) String() string {
	if name, found := codeNames[c.onWire()]; found {
		return name
	}
	return fmt.Sprintf("error %d", int32(c))
}

// node is a znode. stat.Cversion counts creates of children only; what clients see is
// worked out by public.
type node struct {
	data      []byte
	acl       []acl
	stat      Stat
	children  map[string]bool
	container bool
	ttl       time.Duration
}

// public is the stat that clients see. The server counts creates; clients see creates and
// deletes.
func (n *node) public() Stat {
	s := n.stat
	s.DataLength = int32(len(n.data))
	s.NumChildren = int32(len(n.children))
	s.Cversion = n.stat.Cversion*2 - s.NumChildren
	return s
}

// tree is the data of a server. Changes are made in a transaction, which can be taken
// back. It is guarded by Server.mu.
type tree struct {
	nodes map[string]*node
	zxid  int64 // of the last transaction
}

// node finds a node as a client names it. The root has two names: the parent of "/a" is "".
func (t *tree) node(path string) *node {
	if path == "" {
		path = "/"
	}
	return t.nodes[path]
}

// split takes a path apart into its parent's, which is a key of tree.nodes, and the name.
func split(path string) (dir, name string) {
	slash := strings.LastIndexByte(path, '/')
	return path[:max(slash, 1)], path[slash+1:]
}

// newTree makes a tree with ZooKeeper's own nodes.
func newTree() *tree {
	t := &tree{nodes: make(map[string]*node)}
	for path, children := range map[string][]string{
		"/":                 {"zookeeper"},
		"/zookeeper":        {"config", "quota"},
		"/zookeeper/quota":  nil,
		"/zookeeper/config": nil,
	} {
		n := &node{data: []byte{}, acl: openACL, children: make(map[string]bool)}
		for _, c := range children {
			n.children[c] = true
		}
		t.nodes[path] = n
	}
	config := t.nodes["/zookeeper/config"]
	config.acl = []acl{{permRead, identity{"world", "anyone"}}}
	config.stat.Aversion = -1
	return t
}

// txn is a transaction in the making: what to undo if it fails, and which events it causes
// if it does not.
type txn struct {
	tree     *tree
	zxid     int64
	now      int64 // in milliseconds since 1970
	counters map[*node]int32
	undo     []func()
	events   []event
}

func (t *tree) begin(now time.Time) *txn {
	t.zxid++
	return &txn{tree: t, zxid: t.zxid, now: now.UnixMilli(), counters: make(map[*node]int32)}
}

// rollback takes all changes back. The zxid is used up all the same.
func (x *txn) rollback() {
	for _, undo := range slices.Backward(x.undo) {
		undo()
	}
	x.undo, x.events = nil, nil
}

// save remembers a node's present state. A node's maps and slices are replaced, not changed,
// except for children, which undo their own changes.
func (x *txn) save(n *node) {
	old := *n
	x.undo = append(x.undo, func() { *n = old })
}

// newNode is a node to be made.
type newNode struct {
	path       string
	data       []byte
	acl        []acl
	sequential bool
	owner      int64 // of an ephemeral node
	container  bool
	ttl        time.Duration
}

func (x *txn) create(m newNode, who []identity) (string, code) {
	// The order of the checks is the real server's: clients see which comes first.
	path := m.path
	if !strings.Contains(path, "/") || strings.ContainsRune(path, 0) {
		return "", errBadArguments
	}
	dir, _ := split(path)
	list, valid := fixACL(m.acl, who)
	if !valid {
		return "", errInvalidACL
	}
	parent := x.tree.nodes[dir]
	if parent == nil {
		return "", errNoNode
	}
	if !allowed(parent.acl, permCreate, who) {
		return "", errNoAuth
	}
	count := x.counter(parent)
	if m.sequential {
		path += fmt.Sprintf("%010d", count)
	}
	if !validPath(path) {
		return "", errBadArguments
	}
	if x.tree.nodes[path] != nil {
		return "", errNodeExists
	}
	if parent.stat.EphemeralOwner != 0 {
		return "", errEphemeralParent
	}
	_, name := split(path)
	x.save(parent)
	x.advance(parent, count)
	parent.children[name] = true
	n := &node{data: m.data, acl: list, children: make(map[string]bool), container: m.container, ttl: m.ttl}
	n.stat = Stat{Czxid: x.zxid, Mzxid: x.zxid, Pzxid: x.zxid, Ctime: x.now, Mtime: x.now, EphemeralOwner: m.owner}
	x.tree.nodes[path] = n
	x.undo = append(x.undo, func() {
		delete(parent.children, name)
		delete(x.tree.nodes, path)
	})
	x.events = append(x.events, event{eventCreated, path, n.acl}, event{eventChildren, dir, parent.acl})
	return path, ok
}

// counter is the number that the next sequential child of parent gets.
func (x *txn) counter(parent *node) int32 {
	if count, found := x.counters[parent]; found {
		return count
	}
	return parent.stat.Cversion
}

// advance counts a new child of parent, which was number count.
//
// The number is signed and ends: after 2147483647 comes -2147483648. But the counter that is
// kept only moves up, so it stays at 2147483647, and the next transaction gets that again. Only
// the rest of this one, which does not look at what is kept, goes on from the negative number.
func (x *txn) advance(parent *node, count int32) {
	count++
	x.counters[parent] = count
	if count == -1 {
		count = parent.stat.Cversion + 1 // in the protocol -1 stands for "one more"
	}
	if count > parent.stat.Cversion {
		parent.stat.Cversion = count
		parent.stat.Pzxid = x.zxid
	}
}

func (x *txn) delete(path string, version int32, who []identity) code {
	if !strings.Contains(path, "/") || strings.ContainsRune(path, 0) || special[path] {
		return errBadArguments
	}
	dir, _ := split(path)
	parent := x.tree.nodes[dir]
	if parent == nil {
		return errNoNode
	}
	if !allowed(parent.acl, permDelete, who) {
		return errNoAuth
	}
	n := x.tree.nodes[path]
	if n == nil {
		return errNoNode
	}
	if version != -1 && version != n.stat.Version {
		return errBadVersion
	}
	if len(n.children) > 0 {
		return errNotEmpty
	}
	x.remove(path)
	return ok
}

// special are the nodes that cannot be deleted.
var special = map[string]bool{"/": true, "/zookeeper": true, "/zookeeper/quota": true, "/zookeeper/config": true}

// remove deletes a node that exists and has no children.
func (x *txn) remove(path string) {
	dir, name := split(path)
	n, parent := x.tree.nodes[path], x.tree.nodes[dir]
	x.save(parent)
	parent.stat.Pzxid = x.zxid
	delete(parent.children, name)
	delete(x.tree.nodes, path)
	x.undo = append(x.undo, func() {
		parent.children[name] = true
		x.tree.nodes[path] = n
	})
	x.events = append(x.events, event{eventDeleted, path, n.acl}, event{eventChildren, dir, parent.acl})
}

func (x *txn) setData(path string, data []byte, version int32, who []identity) (Stat, code) {
	if !validPath(path) {
		return Stat{}, errBadArguments
	}
	n := x.tree.nodes[path]
	if n == nil {
		return Stat{}, errNoNode
	}
	if !allowed(n.acl, permWrite, who) {
		return Stat{}, errNoAuth
	}
	if version != -1 && version != n.stat.Version {
		return Stat{}, errBadVersion
	}
	x.save(n)
	n.data = data
	n.stat.Version++
	n.stat.Mzxid, n.stat.Mtime = x.zxid, x.now
	x.events = append(x.events, event{eventChanged, path, n.acl})
	return n.public(), ok
}

func (x *txn) setACL(path string, list []acl, version int32, who []identity) (Stat, code) {
	if !validPath(path) {
		return Stat{}, errBadArguments
	}
	list, valid := fixACL(list, who)
	if !valid {
		return Stat{}, errInvalidACL
	}
	n := x.tree.nodes[path]
	if n == nil {
		return Stat{}, errNoNode
	}
	if !allowed(n.acl, permAdmin, who) {
		return Stat{}, errNoAuth
	}
	if version != -1 && version != n.stat.Aversion {
		return Stat{}, errBadVersion
	}
	x.save(n)
	n.acl = list
	n.stat.Aversion++
	return n.public(), ok
}

func (x *txn) check(path string, version int32, who []identity) code {
	if !validPath(path) {
		return errBadArguments
	}
	n := x.tree.nodes[path]
	if n == nil {
		return errNoNode
	}
	if !allowed(n.acl, permRead, who) {
		return errNoAuth
	}
	if version != -1 && version != n.stat.Version {
		return errBadVersion
	}
	return ok
}

// removeOwned deletes the ephemeral nodes of a session.
func (x *txn) removeOwned(owner int64) {
	for _, path := range x.tree.owned(owner) {
		x.remove(path)
	}
}

// owned lists the ephemeral nodes of a session.
func (t *tree) owned(owner int64) []string {
	var paths []string
	for path, n := range t.nodes {
		if n.stat.EphemeralOwner == owner {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// list is the names of a node's children. The order means nothing.
func (n *node) list() []string { return slices.Sorted(maps.Keys(n.children)) }

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
