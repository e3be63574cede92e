package zktest

import (
	"slices"
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// ReapContainers checks containers and TTL nodes now, as the server does periodically (see
// [WithContainerCheckInterval]): it deletes a container that is empty and once had a child or is older than [WithMaxNeverUsed]
// allows, and a TTL node that is empty and was not changed for its TTL. It also deletes nodes that become empty by that, which otherwise
// wait for the next check.
func (s *Server) ReapContainers() {
	if s.member != nil {
		s.member.cluster.ReapContainers()
		return
	}
	s.mu.Lock()
	defer s.unlock()
	for s.reap() > 0 {
	}
}

// reap is one check. Each node that goes is a transaction. It returns how many went. s.mu is
// held.
func (s *Server) reap() int {
	due := s.tree.reapDue(time.Now().Add(s.ahead))
	for _, path := range due {
		s.submit(&entry{edit: func(x *txn) proto.Code { return x.reap(path) }})
	}
	return len(due)
}

// reapDue lists the containers and TTL nodes that are to go, sorted.
func (t *tree) reapDue(now time.Time) []string {
	var due []string
	for path, n := range t.reapable {
		if len(n.children) > 0 {
			continue
		}
		// A container that never had a child is spared, at least for a while: its first one may be about
		// to come.
		used, age := n.container && n.stat.Cversion > 0, now.Sub(time.UnixMilli(n.stat.Mtime))
		unused := n.container && t.cfg.neverUsed > 0 && age > t.cfg.neverUsed
		expired := n.ttl > 0 && age > n.ttl
		if used || unused || expired {
			due = append(due, path)
		}
	}
	slices.Sort(due)
	return due
}

// reap deletes a container or TTL node, unless it has got a child since it was looked at.
func (x *txn) reap(path string) proto.Code {
	n := x.tree.reapable[path]
	switch {
	case n == nil:
		return proto.NoNode
	case len(n.children) > 0:
		return proto.NotEmpty
	}
	x.remove(path)
	return proto.OK
}
