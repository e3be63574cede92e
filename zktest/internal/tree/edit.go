package tree

import (
	"slices"

	"github.com/gocurator/curator/internal/proto"
)

// EveryRight is the identity of a test, which has all permissions.
var EveryRight = []Identity{Super}

// Own reports whether a node belongs to the server, such as /zookeeper.
func (t *Tree) Own(path string) bool {
	if t.Rules.Keeper != 0 {
		_, below := keeperPaths[path]
		return path == "/" || t.Rules.Keeper > KeeperOld && (path == "/keeper" || below)
	}
	return special[path]
}

// CreateAll creates a node and its missing parents.
func (x *Txn) CreateAll(m NewNode) proto.Code {
	if !validPath(m.Path) {
		return proto.BadArguments
	}
	if dir, _ := Split(m.Path); x.Tree.Nodes[dir] == nil {
		if code := x.CreateAll(NewNode{Path: dir, Data: []byte{}, ACL: OpenACL}); code != proto.OK {
			return code
		}
	}
	_, code := x.create(m, EveryRight)
	return code
}

// RemoveAll deletes a node and all its descendants.
func (x *Txn) RemoveAll(path string) {
	for _, name := range slices.Clone(x.Tree.Nodes[path].List()) {
		x.RemoveAll(path + "/" + name)
	}
	x.Remove(path)
}

// Put creates a node and its missing parents, or replaces the data and access list of an existing
// node.
func (x *Txn) Put(m NewNode) proto.Code {
	if x.Tree.Nodes[m.Path] == nil {
		return x.CreateAll(m)
	}
	_, code := x.SetData(m.Path, m.Data, -1, EveryRight)
	if code == proto.OK {
		_, code = x.setACL(m.Path, m.ACL, -1, EveryRight)
	}
	return code
}

// Fail records the path at which the edit fails, and returns code.
func (x *Txn) Fail(path string, code proto.Code) proto.Code {
	x.failed = path
	return code
}

// SetSequence sets the number of the next sequential child of an existing node.
func (x *Txn) SetSequence(path string, next int32) {
	n := x.Tree.Nodes[path]
	x.save(n)
	n.Stat.Cversion = next
}

// SetConfig writes the configuration of a cluster to the node where clients read it.
func (x *Txn) SetConfig(path, text string) proto.Code {
	_, code := x.SetData(path, []byte(text), -1, EveryRight)
	if code == proto.OK && x.Tree.Rules.Keeper == 0 {
		x.Tree.Nodes[path].Stat.Version = configVersion
	}
	return code
}

// InitConfig sets the configuration's text before the first transaction.
func (t *Tree) InitConfig(path, text string) {
	n := t.Nodes[path]
	n.Data = []byte(text)
	if t.Rules.Keeper == 0 {
		n.Stat.Version = configVersion
	}
}

// configVersion is the version in the stat of every ZooKeeper configuration. The real version is in
// its text.
const configVersion = -1
