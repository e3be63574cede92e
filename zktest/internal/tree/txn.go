package tree

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// Txn is a transaction that is being applied, with its undo log and its events.
type Txn struct {
	Tree     *Tree
	Zxid     int64
	now      int64 // in milliseconds since 1970
	session  int64
	failed   string // the path at which an edit failed
	who      []Identity
	counters map[*Node]int32

	statsBefore map[*Node]string // the data of quotas' stats nodes, of the nodes that it changed
	undo        []func()
	events      []Event
}

// begin starts the transaction with this number.
func (t *Tree) begin(zxid int64, now time.Time) *Txn {
	t.Zxid = zxid
	return &Txn{Tree: t, Zxid: zxid, now: now.UnixMilli()}
}

// rollback undoes all changes. The zxid is used up all the same.
func (x *Txn) rollback() {
	for _, undo := range slices.Backward(x.undo) {
		undo()
	}
	x.undo, x.events = nil, nil
}

// save remembers a node's present state. Its data and ACL are replaced, not changed, and its
// children are restored by attach and detach.
func (x *Txn) save(n *Node) {
	old := *n
	x.undo = append(x.undo, func() {
		old.children = n.children
		*n = old
	})
}

// NewNode describes a node to be created.
type NewNode struct {
	Path       string
	Data       []byte
	ACL        []proto.ACL
	sequential bool
	owner      int64 // the owner of an ephemeral node
	Container  bool
	TTL        time.Duration
	shown      int64
}

func (x *Txn) create(m NewNode, who []Identity) (string, proto.Code) {
	// The order of the checks is the real server's: clients see which is the first.
	path := m.Path
	if !strings.Contains(path, "/") || strings.ContainsRune(path, 0) {
		return "", proto.BadArguments
	}
	dir, _ := Split(path)
	list, valid := x.Tree.Rules.fixACL(m.ACL, who)
	if !valid {
		return "", proto.InvalidACL
	}
	parent := x.Tree.Nodes[dir]
	if parent == nil {
		return "", proto.NoNode
	}
	if !Allowed(parent.ACL, permCreate, who) {
		return "", proto.NoAuth
	}
	count := x.counter(parent)
	if m.sequential {
		path += fmt.Sprintf("%010d", x.Tree.Rules.shownNumber(count))
	}
	if !validPath(path) {
		return "", proto.BadArguments
	}
	if x.Tree.Nodes[path] != nil {
		return "", proto.NodeExists
	}
	if parent.Stat.EphemeralOwner != 0 {
		return "", proto.NoChildrenForEphemerals
	}
	if code := x.checkQuota(path, 1, int64(len(m.Data))); code != proto.OK {
		return "", code
	}
	x.save(parent)
	x.advance(parent, count)
	n := &Node{Data: m.Data, ACL: list, Container: m.Container, TTL: m.TTL, shown: m.shown}
	n.Stat = proto.Stat{Czxid: x.Zxid, Mzxid: x.Zxid, Pzxid: x.Zxid, Ctime: x.now, Mtime: x.now, EphemeralOwner: m.owner}
	x.Tree.attach(path, n)
	x.undo = append(x.undo, func() { x.Tree.detach(path, n) })
	x.countAnew(path, n)
	x.count(path, 1, int64(len(m.Data)))
	x.events = append(x.events, Event{EventCreated, path, n.ACL}, Event{EventChildren, dir, parent.ACL})
	return path, proto.OK
}

// counter returns the number of the next sequential child of parent.
func (x *Txn) counter(parent *Node) int32 {
	if count, found := x.counters[parent]; found {
		return count
	}
	return parent.Stat.Cversion
}

// advance counts a new child of parent, which was number count.
//
// The number is signed and overflows from 2147483647 to -2147483648. But the stored counter only
// rises, so that it remains at 2147483647, and the next transaction gets that again. Only the rest
// of this transaction, which does not read the stored counter, continues from the negative number.
func (x *Txn) advance(parent *Node, count int32) {
	count++
	if x.counters == nil {
		x.counters = make(map[*Node]int32)
	}
	x.counters[parent] = count
	if count == -1 {
		count = parent.Stat.Cversion + 1 // in the protocol -1 stands for "one more"
	}
	if x.Tree.Rules.shownNumber(count) > x.Tree.Rules.shownNumber(parent.Stat.Cversion) {
		parent.Stat.Cversion = count
		parent.Stat.Pzxid = x.Zxid
	}
}

func (x *Txn) delete(path string, version int32, who []Identity) proto.Code {
	if !strings.Contains(path, "/") || strings.ContainsRune(path, 0) || special[path] {
		return proto.BadArguments
	}
	dir, _ := Split(path)
	parent := x.Tree.Nodes[dir]
	if parent == nil {
		return proto.NoNode
	}
	if !Allowed(parent.ACL, permDelete, who) {
		return proto.NoAuth
	}
	n := x.Tree.Nodes[path]
	if n == nil {
		return proto.NoNode
	}
	if version != -1 && version != n.Stat.Version {
		return proto.BadVersion
	}
	if len(n.children) > 0 {
		return proto.NotEmpty
	}
	x.Remove(path)
	return proto.OK
}

// special are the nodes that cannot be deleted.
var special = map[string]bool{"/": true, "/zookeeper": true, "/zookeeper/quota": true, "/zookeeper/config": true}

// Remove deletes an existing node without children.
func (x *Txn) Remove(path string) {
	dir, _ := Split(path)
	n, parent := x.Tree.Nodes[path], x.Tree.Nodes[dir]
	x.save(parent)
	if x.Tree.Rules.Keeper == 0 {
		parent.Stat.Pzxid = x.Zxid
	}
	x.Tree.detach(path, n)
	x.undo = append(x.undo, func() { x.Tree.attach(path, n) })
	x.count(path, -1, -int64(len(n.Data)))
	x.events = append(x.events, Event{EventDeleted, path, n.ACL}, Event{EventChildren, dir, parent.ACL})
}

// SetData replaces a node's data if the version matches and who may write it.
func (x *Txn) SetData(path string, data []byte, version int32, who []Identity) (proto.Stat, proto.Code) {
	if !validPath(path) {
		return proto.Stat{}, proto.BadArguments
	}
	n := x.Tree.Nodes[path]
	if n == nil {
		return proto.Stat{}, proto.NoNode
	}
	if !Allowed(n.ACL, permWrite, who) {
		return proto.Stat{}, proto.NoAuth
	}
	grows := int64(len(data)) - int64(len(n.Data))
	if code := x.checkQuota(path, 0, grows); code != proto.OK {
		return proto.Stat{}, code
	}
	if version != -1 && version != n.Stat.Version {
		return proto.Stat{}, proto.BadVersion
	}
	x.save(n)
	n.Data = data
	n.Stat.Version++
	n.Stat.Mzxid, n.Stat.Mtime = x.Zxid, x.now
	if x.Tree.Rules.Keeper != 0 && path != "/" {
		dir, _ := Split(path)
		parent := x.Tree.Nodes[dir]
		x.save(parent)
		parent.childSets++
	}
	x.count(path, 0, grows)
	x.events = append(x.events, Event{EventChanged, path, n.ACL})
	return n.Public(), proto.OK
}

func (x *Txn) setACL(path string, list []proto.ACL, version int32, who []Identity) (proto.Stat, proto.Code) {
	if !validPath(path) {
		return proto.Stat{}, proto.BadArguments
	}
	list, valid := x.Tree.Rules.fixACL(list, who)
	if !valid {
		return proto.Stat{}, proto.InvalidACL
	}
	n := x.Tree.Nodes[path]
	if n == nil {
		return proto.Stat{}, proto.NoNode
	}
	if !Allowed(n.ACL, permAdmin, who) {
		return proto.Stat{}, proto.NoAuth
	}
	if version != -1 && version != n.Stat.Aversion {
		return proto.Stat{}, proto.BadVersion
	}
	x.save(n)
	n.ACL = list
	n.Stat.Aversion++
	return n.Public(), proto.OK
}

func (x *Txn) check(path string, version int32, who []Identity) proto.Code {
	if !validPath(path) {
		return proto.BadArguments
	}
	n := x.Tree.Nodes[path]
	if n == nil {
		return proto.NoNode
	}
	if !Allowed(n.ACL, PermRead, who) {
		return proto.NoAuth
	}
	if version != -1 && version != n.Stat.Version {
		return proto.BadVersion
	}
	return proto.OK
}

// removeOwned deletes the ephemeral nodes of a session, in no order that a client could rely on.
func (x *Txn) removeOwned(owner int64) {
	for _, path := range slices.SortedFunc(maps.Keys(x.Tree.ephemerals[owner]), inNoOrder) {
		x.Remove(path)
	}
}
