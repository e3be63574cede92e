package zktest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/zktest/internal/tree"
)

// ErrNodeExists is returned if the node already exists.
var ErrNodeExists = errors.New("zktest: node exists")

// Node is a node as returned by [Server.Dump]. In JSON, the field "text" contains UTF-8 data, and
// the field "data" other data in base64. A session is a string such as "0x1000", and a TTL a string
// such as "1h0m0s".
type Node struct {
	Path      string
	Data      []byte   // nil without data
	ACL       []zk.ACL // nil if every client has all permissions
	Owner     int64    // session id of an ephemeral node, otherwise 0
	Container bool
	TTL       time.Duration
	Sequence  int32 // number of its next sequential child
}

// Create creates a persistent node that every client may access, and its missing parents. It is one
// transaction and fires watches. On a member of a cluster, Create and all other changes by the test
// are transactions of the leader, and return when this member has applied them.
//
// Errors are
//   - [ErrNodeExists] if the node exists;
//   - [ErrNoLeader] if a member has no leader, or loses it;
//   - [ErrClosed] if a member is closed;
//   - another error if the path is invalid, a parent is ephemeral or a quota is exceeded.
func (s *Server) Create(path string, data []byte) error {
	data = slices.Clone(data)
	return s.edit("create", path, func(x *tree.Txn) proto.Code {
		if x.Tree.Nodes[path] != nil {
			return proto.NodeExists
		}
		return x.CreateAll(tree.NewNode{Path: path, Data: data, ACL: tree.OpenACL})
	})
}

// Set writes a node's data in a transaction, which fires watches.
//
// Errors are
//   - [ErrNoNode] if the node does not exist;
//   - [ErrNoLeader] if a member has no leader, or loses it;
//   - [ErrClosed] if a member is closed;
//   - another error if a quota is exceeded.
func (s *Server) Set(path string, data []byte) error {
	data = slices.Clone(data)
	return s.edit("set", path, func(x *tree.Txn) proto.Code {
		_, code := x.SetData(path, data, -1, tree.EveryRight)
		return code
	})
}

// Delete deletes a node and all its descendants in one transaction, which fires watches.
//
// Errors are
//   - [ErrNoNode] if the node does not exist;
//   - [ErrNoLeader] if a member has no leader, or loses it;
//   - [ErrClosed] if a member is closed;
//   - another error for one of the server's own nodes, such as /zookeeper.
func (s *Server) Delete(path string) error {
	return s.edit("delete", path, func(x *tree.Txn) proto.Code {
		switch {
		case x.Tree.Nodes[path] == nil:
			return proto.NoNode
		case x.Tree.Own(path):
			return proto.BadArguments
		}
		x.RemoveAll(path)
		return proto.OK
	})
}

// Flush deletes all nodes except the server's own in one transaction, which fires watches. It
// resets the numbers of sequential nodes to 0.
//
// Sessions, watches on missing nodes, faults and counts remain, and zxids continue. In a cluster
// without a leader Flush does nothing.
func (s *Server) Flush() {
	// The edit always succeeds; in a cluster without a leader there is none.
	_ = s.edit("flush", "/", func(x *tree.Txn) proto.Code {
		for _, path := range slices.Backward(slices.Sorted(maps.Keys(x.Tree.Nodes))) {
			if x.Tree.Own(path) {
				x.SetSequence(path, 0)
			} else {
				x.Remove(path)
			}
		}
		return proto.OK
	})
}

// Dump returns all nodes except the server's own, sorted by path. [Server.Load] accepts the result.
func (s *Server) Dump() []Node {
	s.core.Lock()
	defer s.core.Unlock()
	var list []Node
	for _, path := range slices.Sorted(maps.Keys(s.core.Tree.Nodes)) {
		n := s.core.Tree.Nodes[path]
		if s.core.Tree.Own(path) {
			continue
		}
		list = append(list, Node{
			Path: path, Data: slices.Clone(n.Data), ACL: exportACL(n.ACL), Owner: n.Stat.EphemeralOwner,
			Container: n.Container, TTL: n.TTL, Sequence: n.Stat.Cversion,
		})
	}
	return list
}

// Load creates these nodes and their missing parents, or overwrites existing ones, in one
// transaction, which fires watches. It skips ephemeral nodes, and does not restore versions and
// times. A node's sequence number never decreases.
//
// Errors are
//   - [ErrNoLeader] if a member has no leader, or loses it. In the second case the nodes may still
//     be loaded;
//   - [ErrClosed] if a member is closed;
//   - another error if a path or an access list is invalid, a parent is ephemeral or a quota is
//     exceeded: nothing has changed.
func (s *Server) Load(nodes []Node) error {
	// Parents first, or they would be created as missing ones.
	ordered := slices.SortedStableFunc(slices.Values(nodes), func(a, b Node) int { return cmp.Compare(a.Path, b.Path) })
	ordered = slices.DeleteFunc(ordered, func(n Node) bool { return n.Owner != 0 })
	for i, n := range ordered {
		ordered[i].Data = slices.Clone(n.Data)
	}
	return s.edit("load", "/", func(x *tree.Txn) proto.Code {
		for _, n := range ordered {
			list := tree.OpenACL
			if n.ACL != nil {
				list = importACL(n.ACL)
			}
			if code := x.Put(tree.NewNode{Path: n.Path, Data: n.Data, ACL: list, Container: n.Container, TTL: n.TTL}); code != proto.OK {
				return x.Fail(n.Path, code)
			}
		}
		for _, m := range ordered { // now that their children are counted
			x.SetSequence(m.Path, max(x.Tree.Nodes[m.Path].Stat.Cversion, m.Sequence))
		}
		return proto.OK
	})
}

// edit applies a transaction of the test. In a cluster each member calls change, some later than
// edit returns.
func (s *Server) edit(what, path string, change func(*tree.Txn) proto.Code) error {
	res, err := s.quorum.Edit(change)
	if err != nil {
		return fmt.Errorf("%w: %s %s", err, what, path)
	}
	if res.Failed != "" {
		path = res.Failed
	}
	return editError(what, path, res.Code)
}

// editError returns the error of a code.
func editError(what, path string, code proto.Code) error {
	switch code {
	case proto.OK:
		return nil
	case proto.NoNode:
		return fmt.Errorf("%w: %s %s", ErrNoNode, what, path)
	case proto.NodeExists:
		return fmt.Errorf("%w: %s %s", ErrNodeExists, what, path)
	}
	return fmt.Errorf("zktest: %s %s: %s", what, path, code)
}

// exportACL returns nil for a list that grants every right to every client.
func exportACL(list []proto.ACL) []zk.ACL {
	if slices.Equal(list, tree.OpenACL) {
		return nil
	}
	out := []zk.ACL{}
	for _, a := range list {
		out = append(out, zk.ACL(a))
	}
	return out
}

func importACL(list []zk.ACL) (in []proto.ACL) {
	for _, a := range list {
		in = append(in, proto.ACL(a))
	}
	return in
}
