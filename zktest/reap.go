package zktest

import "time"

// ReapContainers checks containers and TTL nodes now, as the server does by itself from time to
// time (see [WithContainerCheckInterval]): a container goes if it is empty and once had a
// child, a TTL node if it is empty and was not changed for its time. What becomes empty by that,
// which otherwise waits for the next check, goes too.
func (s *Server) ReapContainers() {
	s.mu.Lock()
	defer s.unlock()
	for s.reap() > 0 {
	}
}

// reap is one check. Each node that goes is a transaction. It returns how many went. s.mu is
// held.
func (s *Server) reap() int {
	now := time.Now()
	var due []string
	for path, n := range s.tree.nodes {
		if len(n.children) > 0 {
			continue
		}
		// A container that never had a child is spared: its first one may be about
		// to come.
		used := n.container && n.stat.Cversion > 0
		expired := n.ttl > 0 && now.Sub(time.UnixMilli(n.stat.Mtime)) > n.ttl
		if used || expired {
			due = append(due, path)
		}
	}
	for _, path := range due {
		x := s.tree.begin(now)
		x.remove(path)
		s.commit(x)
	}
	return len(due)
}
