package zktest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/zktest/internal/tree"
)

// ErrNoNode is returned if the node does not exist.
var ErrNoNode = errors.New("zktest: no such node")

// find returns the node at path, or an error that is [ErrNoNode]. The lock is held.
func (s *Server) find(path string) (*tree.Node, error) {
	if n := s.core.Tree.Nodes[path]; n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("%w: %s", ErrNoNode, path)
}

// Children returns the sorted names of a node's children. It returns [ErrNoNode] if the node does
// not exist.
func (s *Server) Children(path string) ([]string, error) {
	s.core.Lock()
	defer s.core.Unlock()
	n, err := s.find(path)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(slices.Values(n.List())), nil
}

// Exists reports whether a node exists.
func (s *Server) Exists(path string) bool {
	s.core.Lock()
	defer s.core.Unlock()
	return s.core.Tree.Nodes[path] != nil
}

// Get returns a node's data, or nil if the node has none. The only error is [ErrNoNode], if the
// node does not exist.
func (s *Server) Get(path string) ([]byte, error) {
	s.core.Lock()
	defer s.core.Unlock()
	n, err := s.find(path)
	if err != nil {
		return nil, err
	}
	return slices.Clone(n.Data), nil
}

// Stat returns a node's stat as a client sees it. It returns [ErrNoNode] if the node does not
// exist.
func (s *Server) Stat(path string) (zk.Stat, error) {
	s.core.Lock()
	defer s.core.Unlock()
	n, err := s.find(path)
	if err != nil {
		return zk.Stat{}, err
	}
	return zk.Stat(n.Public()), nil
}

// Tree describes all nodes with their data, one per line and sorted by path, without the server's
// own nodes.
func (s *Server) Tree() string {
	s.core.Lock()
	defer s.core.Unlock()
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(s.core.Tree.Nodes)) {
		if s.core.Tree.Own(path) || tree.Below(path, "/zookeeper") {
			continue
		}
		n := s.core.Tree.Nodes[path]
		fmt.Fprintf(&b, "%s %q", path, n.Data)
		switch {
		case n.Stat.EphemeralOwner != 0:
			fmt.Fprintf(&b, " ephemeral %#x", n.Stat.EphemeralOwner)
		case n.Container:
			b.WriteString(" container")
		case n.TTL > 0:
			fmt.Fprintf(&b, " ttl %v", n.TTL)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// WatchCount returns the number of watches on all connections. As on a real server, a watch set by
// addWatch counts twice: for data and for children.
func (s *Server) WatchCount() int {
	s.core.Lock()
	defer s.core.Unlock()
	return s.core.WatchCount()
}

// SetSequence sets the number of the next sequential node below parent, in a transaction. A real
// server's numbers are signed, begin at 0 and only increase; next may be any number.
//
// Errors are
//   - [ErrNoNode] if parent does not exist;
//   - [ErrNoLeader] if a member has no leader, or loses it;
//   - [ErrClosed] if a member is closed.
func (s *Server) SetSequence(parent string, next int32) error {
	return s.edit("set the sequence of", parent, func(x *tree.Txn) proto.Code {
		if x.Tree.Nodes[parent] == nil {
			return proto.NoNode
		}
		x.SetSequence(parent, next)
		return proto.OK
	})
}
