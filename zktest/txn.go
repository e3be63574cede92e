package zktest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// txn is a transaction in the making: what to undo if it fails, and which events it causes
// if it does not.
type txn struct {
	tree     *tree
	zxid     int64
	now      int64 // in milliseconds since 1970
	session  int64
	failed   string // the path at which an edit failed
	who      []identity
	counters map[*node]int32

	statsBefore map[*node]string // what quotas' stats nodes had, for those that it changed
	undo        []func()
	events      []event
}

// begin starts the transaction with this number.
func (t *tree) begin(zxid int64, now time.Time) *txn {
	t.zxid = zxid
	return &txn{tree: t, zxid: zxid, now: now.UnixMilli()}
}

// rollback takes all changes back. The zxid is used up all the same.
func (x *txn) rollback() {
	for _, undo := range slices.Backward(x.undo) {
		undo()
	}
	x.undo, x.events = nil, nil
}

// save remembers a node's present state. Its data and ACL are replaced, not changed, and its
// children are restored by attach and detach.
func (x *txn) save(n *node) {
	old := *n
	x.undo = append(x.undo, func() {
		old.children = n.children
		*n = old
	})
}

// newNode is a node to be made.
type newNode struct {
	path       string
	data       []byte
	acl        []proto.ACL
	sequential bool
	owner      int64 // of an ephemeral node
	container  bool
	ttl        time.Duration
	shown      int64
}

func (x *txn) create(m newNode, who []identity) (string, proto.Code) {
	// The order of the checks is the real server's: clients see which comes first.
	path := m.path
	if !strings.Contains(path, "/") || strings.ContainsRune(path, 0) {
		return "", proto.BadArguments
	}
	dir, _ := split(path)
	list, valid := x.tree.cfg.fixACL(m.acl, who)
	if !valid {
		return "", proto.InvalidACL
	}
	parent := x.tree.nodes[dir]
	if parent == nil {
		return "", proto.NoNode
	}
	if !allowed(parent.acl, permCreate, who) {
		return "", proto.NoAuth
	}
	count := x.counter(parent)
	if m.sequential {
		path += fmt.Sprintf("%010d", x.tree.cfg.shownNumber(count))
	}
	if !validPath(path) {
		return "", proto.BadArguments
	}
	if x.tree.nodes[path] != nil {
		return "", proto.NodeExists
	}
	if parent.stat.EphemeralOwner != 0 {
		return "", proto.NoChildrenForEphemerals
	}
	if code := x.checkQuota(path, 1, int64(len(m.data))); code != proto.OK {
		return "", code
	}
	x.save(parent)
	x.advance(parent, count)
	n := &node{data: m.data, acl: list, container: m.container, ttl: m.ttl, shown: m.shown}
	n.stat = Stat{Czxid: x.zxid, Mzxid: x.zxid, Pzxid: x.zxid, Ctime: x.now, Mtime: x.now, EphemeralOwner: m.owner}
	x.tree.attach(path, n)
	x.undo = append(x.undo, func() { x.tree.detach(path, n) })
	x.countAnew(path, n)
	x.count(path, 1, int64(len(m.data)))
	x.events = append(x.events, event{eventCreated, path, n.acl}, event{eventChildren, dir, parent.acl})
	return path, proto.OK
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
	if x.counters == nil {
		x.counters = make(map[*node]int32)
	}
	x.counters[parent] = count
	if count == -1 {
		count = parent.stat.Cversion + 1 // in the protocol -1 stands for "one more"
	}
	if x.tree.cfg.shownNumber(count) > x.tree.cfg.shownNumber(parent.stat.Cversion) {
		parent.stat.Cversion = count
		parent.stat.Pzxid = x.zxid
	}
}

func (x *txn) delete(path string, version int32, who []identity) proto.Code {
	if !strings.Contains(path, "/") || strings.ContainsRune(path, 0) || special[path] {
		return proto.BadArguments
	}
	dir, _ := split(path)
	parent := x.tree.nodes[dir]
	if parent == nil {
		return proto.NoNode
	}
	if !allowed(parent.acl, permDelete, who) {
		return proto.NoAuth
	}
	n := x.tree.nodes[path]
	if n == nil {
		return proto.NoNode
	}
	if version != -1 && version != n.stat.Version {
		return proto.BadVersion
	}
	if len(n.children) > 0 {
		return proto.NotEmpty
	}
	x.remove(path)
	return proto.OK
}

// special are the nodes that cannot be deleted.
var special = map[string]bool{"/": true, "/zookeeper": true, "/zookeeper/quota": true, "/zookeeper/config": true}

// remove deletes a node that exists and has no children.
func (x *txn) remove(path string) {
	dir, _ := split(path)
	n, parent := x.tree.nodes[path], x.tree.nodes[dir]
	x.save(parent)
	if x.tree.cfg.keeper == 0 {
		parent.stat.Pzxid = x.zxid
	}
	x.tree.detach(path, n)
	x.undo = append(x.undo, func() { x.tree.attach(path, n) })
	x.count(path, -1, -int64(len(n.data)))
	x.events = append(x.events, event{eventDeleted, path, n.acl}, event{eventChildren, dir, parent.acl})
}

func (x *txn) setData(path string, data []byte, version int32, who []identity) (Stat, proto.Code) {
	if !validPath(path) {
		return Stat{}, proto.BadArguments
	}
	n := x.tree.nodes[path]
	if n == nil {
		return Stat{}, proto.NoNode
	}
	if !allowed(n.acl, permWrite, who) {
		return Stat{}, proto.NoAuth
	}
	grows := int64(len(data)) - int64(len(n.data))
	if code := x.checkQuota(path, 0, grows); code != proto.OK {
		return Stat{}, code
	}
	if version != -1 && version != n.stat.Version {
		return Stat{}, proto.BadVersion
	}
	x.save(n)
	n.data = data
	n.stat.Version++
	n.stat.Mzxid, n.stat.Mtime = x.zxid, x.now
	if x.tree.cfg.keeper != 0 && path != "/" {
		dir, _ := split(path)
		parent := x.tree.nodes[dir]
		x.save(parent)
		parent.childSets++
	}
	x.count(path, 0, grows)
	x.events = append(x.events, event{eventChanged, path, n.acl})
	return n.public(), proto.OK
}

func (x *txn) setACL(path string, list []proto.ACL, version int32, who []identity) (Stat, proto.Code) {
	if !validPath(path) {
		return Stat{}, proto.BadArguments
	}
	list, valid := x.tree.cfg.fixACL(list, who)
	if !valid {
		return Stat{}, proto.InvalidACL
	}
	n := x.tree.nodes[path]
	if n == nil {
		return Stat{}, proto.NoNode
	}
	if !allowed(n.acl, permAdmin, who) {
		return Stat{}, proto.NoAuth
	}
	if version != -1 && version != n.stat.Aversion {
		return Stat{}, proto.BadVersion
	}
	x.save(n)
	n.acl = list
	n.stat.Aversion++
	return n.public(), proto.OK
}

func (x *txn) check(path string, version int32, who []identity) proto.Code {
	if !validPath(path) {
		return proto.BadArguments
	}
	n := x.tree.nodes[path]
	if n == nil {
		return proto.NoNode
	}
	if !allowed(n.acl, permRead, who) {
		return proto.NoAuth
	}
	if version != -1 && version != n.stat.Version {
		return proto.BadVersion
	}
	return proto.OK
}

// removeOwned deletes the ephemeral nodes of a session, in no order that a client could rely on.
func (x *txn) removeOwned(owner int64) {
	for _, path := range slices.SortedFunc(maps.Keys(x.tree.ephemerals[owner]), inNoOrder) {
		x.remove(path)
	}
}
