package zktest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocurator/curator/internal/proto"
)

// ErrNoNode means that there is no such node on the server.
var ErrNoNode = errors.New("zktest: no such node")

// find returns the node at path, or an error that is [ErrNoNode]. s.mu is held.
func (s *Server) find(path string) (*node, error) {
	if n := s.tree.nodes[path]; n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("%w: %s", ErrNoNode, path)
}

// Children lists the names of a node's children, sorted. The error is [ErrNoNode].
func (s *Server) Children(path string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.find(path)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(slices.Values(n.list())), nil
}

// Exists reports whether there is a node at path.
func (s *Server) Exists(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tree.nodes[path] != nil
}

// Get returns a node's data, nil if it has none. The error is [ErrNoNode].
func (s *Server) Get(path string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.find(path)
	if err != nil {
		return nil, err
	}
	return slices.Clone(n.data), nil
}

// Stat returns a node's stat, as a client would see it. The error is [ErrNoNode].
func (s *Server) Stat(path string) (Stat, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.find(path)
	if err != nil {
		return Stat{}, err
	}
	return n.public(), nil
}

// Tree returns all nodes with their data, one line each, in order, without the server's own.
func (s *Server) Tree() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(s.tree.nodes)) {
		if s.tree.own(path) || below(path, "/zookeeper") {
			continue
		}
		n := s.tree.nodes[path]
		fmt.Fprintf(&b, "%s %q", path, n.data)
		switch {
		case n.stat.EphemeralOwner != 0:
			fmt.Fprintf(&b, " ephemeral %#x", n.stat.EphemeralOwner)
		case n.container:
			b.WriteString(" container")
		case n.ttl > 0:
			fmt.Fprintf(&b, " ttl %v", n.ttl)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// WatchCount is the number of watches on all connections, as a real server counts them: one that is set with
// addWatch counts as two, of the data and of the children.
func (s *Server) WatchCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watchCount()
}

// watchCount is WatchCount with s.mu held.
func (s *Server) watchCount() int {
	count := 0
	for c := range s.conns {
		count += len(c.watches.data) + len(c.watches.children)
	}
	return count
}

// SetSequence sets the number of the next sequential node below parent. Real counters are signed, begin at 0
// and only rise; this one may be set to any number. It is a transaction. Errors are [ErrNoNode] and
// [ErrNoLeader].
func (s *Server) SetSequence(parent string, next int32) error {
	return s.edit("set the sequence of", parent, func(x *txn) proto.Code {
		n := x.tree.nodes[parent]
		if n == nil {
			return proto.NoNode
		}
		x.save(n)
		n.stat.Cversion = next
		return proto.OK
	})
}
