package zktest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// ErrNodeExists means that there is such a node on the server already.
var ErrNodeExists = errors.New("zktest: node exists")

// ACL is one entry of an access list.
type ACL struct {
	Perms  int32  `json:"perms"` // the sum of read 1, write 2, create 4, delete 8 and admin 16
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
}

// Node is a node as [Server.Dump] shows it. In JSON, data that is UTF-8 is "text", and
// other data is "data" in base64; a session is a string such as "0x1000", and a TTL one such as
// "1h0m0s".
type Node struct {
	Path      string
	Data      []byte // nil if it has none
	ACL       []ACL  // nil: everybody may do everything
	Owner     int64  // the session of an ephemeral node, or 0
	Container bool
	TTL       time.Duration
	Sequence  int32 // the number that its next sequential child gets
}

// Create makes a persistent node to which everybody has access, and its missing parents, in one transaction:
// watches fire. Errors are [ErrNodeExists], and those of paths that are not valid, of parents that are
// ephemeral, and of a quota. On a member of a cluster this and all other changes by the test are transactions
// of the leader. They return when this member has applied them; the error is [ErrNoLeader] if it has no leader,
// or loses it meanwhile.
func (s *Server) Create(path string, data []byte) error {
	data = slices.Clone(data)
	return s.edit("create", path, func(x *txn) proto.Code {
		if x.tree.nodes[path] != nil {
			return proto.NodeExists
		}
		return x.createAll(newNode{path: path, data: data, acl: openACL})
	})
}

// Set changes a node's data in a transaction: watches fire. Errors are [ErrNoNode], and that of a
// quota.
func (s *Server) Set(path string, data []byte) error {
	data = slices.Clone(data)
	return s.edit("set", path, func(x *txn) proto.Code {
		_, code := x.setData(path, data, -1, everyRight)
		return code
	})
}

// Delete deletes a node with everything below it, in one transaction: watches fire. Errors are
// [ErrNoNode], and that of a server's own node, such as /zookeeper.
func (s *Server) Delete(path string) error {
	return s.edit("delete", path, func(x *txn) proto.Code {
		switch {
		case x.tree.nodes[path] == nil:
			return proto.NoNode
		case x.tree.own(path):
			return proto.BadArguments
		}
		x.removeAll(path)
		return proto.OK
	})
}

// Flush deletes all nodes except the server's own, in one transaction: watches fire. The numbers of sequential
// nodes begin at 0 again. Sessions, watches on missing nodes, faults and counts stay, and zxids continue. A
// cluster without a leader keeps its nodes.
func (s *Server) Flush() {
	// The edit always succeeds; in a cluster without a leader there is none.
	_ = s.edit("flush", "/", func(x *txn) proto.Code {
		for _, path := range slices.Backward(slices.Sorted(maps.Keys(x.tree.nodes))) {
			n := x.tree.nodes[path]
			if !x.tree.own(path) {
				x.remove(path)
				continue
			}
			x.save(n)
			n.stat.Cversion = 0
		}
		return proto.OK
	})
}

// Dump lists all nodes except the server's own, parents first, each with all that [Server.Load] needs to create
// it again.
func (s *Server) Dump() []Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Node
	for _, path := range slices.Sorted(maps.Keys(s.tree.nodes)) {
		n := s.tree.nodes[path]
		if s.tree.own(path) {
			continue
		}
		list = append(list, Node{
			Path: path, Data: slices.Clone(n.data), ACL: exportACL(n.acl), Owner: n.stat.EphemeralOwner,
			Container: n.container, TTL: n.ttl, Sequence: n.stat.Cversion,
		})
	}
	return list
}

// Load creates these nodes and their missing parents, or changes nodes that exist, in one transaction: watches
// fire. Versions and times are not those of the dump. Ephemeral nodes are left out, since their sessions do not
// exist. The sequence of a node never falls. The error is that of a path or an access list which is not valid,
// of a parent that is ephemeral, or of a quota, and then nothing has changed.
func (s *Server) Load(nodes []Node) error {
	// Parents first, or they would be made as missing ones.
	ordered := slices.SortedStableFunc(slices.Values(nodes), func(a, b Node) int { return cmp.Compare(a.Path, b.Path) })
	ordered = slices.DeleteFunc(ordered, func(n Node) bool { return n.Owner != 0 })
	for i, n := range ordered {
		ordered[i].Data = slices.Clone(n.Data)
	}
	return s.edit("load", "/", func(x *txn) proto.Code {
		for _, n := range ordered {
			if code := x.load(n); code != proto.OK {
				x.failed = n.Path
				return code
			}
		}
		for _, m := range ordered { // now that their children are counted
			n := x.tree.nodes[m.Path]
			x.save(n)
			n.stat.Cversion = max(n.stat.Cversion, m.Sequence)
		}
		return proto.OK
	})
}

// everyRight is who a test is.
var everyRight = []identity{super}

// own reports whether a node is the server's own.
func (t *tree) own(path string) bool {
	if t.cfg.keeper != 0 {
		_, below := keeperPaths[path]
		return path == "/" || t.cfg.keeper > KeeperOld && (path == "/keeper" || below)
	}
	return special[path]
}

// createAll makes a node, and those above it that are missing.
func (x *txn) createAll(m newNode) proto.Code {
	if !validPath(m.path) {
		return proto.BadArguments
	}
	if dir, _ := split(m.path); x.tree.nodes[dir] == nil {
		if code := x.createAll(newNode{path: dir, data: []byte{}, acl: openACL}); code != proto.OK {
			return code
		}
	}
	_, code := x.create(m, everyRight)
	return code
}

// removeAll deletes a node with everything below it.
func (x *txn) removeAll(path string) {
	for _, name := range slices.Clone(x.tree.nodes[path].list()) {
		x.removeAll(path + "/" + name)
	}
	x.remove(path)
}

// load makes a node of a dump, or changes the one that is there.
func (x *txn) load(m Node) proto.Code {
	list := openACL
	if m.ACL != nil {
		list = importACL(m.ACL)
	}
	code := proto.OK
	if x.tree.nodes[m.Path] == nil {
		code = x.createAll(newNode{path: m.Path, data: m.Data, acl: list, container: m.Container, ttl: m.TTL})
	} else if _, code = x.setData(m.Path, m.Data, -1, everyRight); code == proto.OK {
		_, code = x.setACL(m.Path, list, -1, everyRight)
	}
	return code
}

// edit carries a transaction of the test's own out. In a cluster each member calls change, some later
// than this returns.
func (s *Server) edit(what, path string, change func(*txn) proto.Code) error {
	s.mu.Lock()
	var res result
	q := &call{then: func(_ *call, _ int64, r result) { res = r }}
	e := &entry{edit: change, at: s, origin: q}
	if s.member == nil {
		s.submit(e)
		s.unlock()
	} else if err := s.member.edit(e); err != nil {
		return fmt.Errorf("%w: %s %s", err, what, path)
	}
	if res.failed != "" {
		path = res.failed
	}
	return editError(what, path, res.code)
}

// editError is the error of a code.
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

// exportACL is nil for a list that gives everybody every right.
func exportACL(list []proto.ACL) []ACL {
	if slices.Equal(list, openACL) {
		return nil
	}
	out := []ACL{}
	for _, a := range list {
		out = append(out, ACL(a))
	}
	return out
}

func importACL(list []ACL) (in []proto.ACL) {
	for _, a := range list {
		in = append(in, proto.ACL(a))
	}
	return in
}
