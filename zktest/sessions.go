package zktest

import (
	"cmp"
	"slices"
	"time"

	"github.com/gocurator/curator/zktest/internal/cluster"
)

// ErrNoSession means that the server has no such session.
var ErrNoSession = cluster.ErrNoSession

// Session is a session as the server sees it.
type Session struct {
	ID        int64
	Timeout   time.Duration // as granted
	Connected bool
	Owns      []string // its ephemeral nodes, sorted
}

// Sessions returns the live sessions, sorted by id.
func (s *Server) Sessions() []Session {
	s.core.Lock()
	defer s.core.Unlock()
	var list []Session
	for _, sess := range s.core.Sessions {
		list = append(list, Session{sess.ID, sess.Timeout, sess.Conn != nil, s.core.Tree.Owned(sess.ID)})
	}
	slices.SortFunc(list, func(a, b Session) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// ExpireSession expires a session now, as if its client were silent. Its ephemeral nodes are
// deleted and its connection is cut; its client notices when it reconnects. The error is
// [ErrNoSession].
func (s *Server) ExpireSession(id int64) error { return s.quorum.Expire(id) }

// ReapContainers checks containers and TTL nodes now, as the server does periodically (see
// [WithProperties]). It deletes empty containers that once had a child or have reached
// maxNeverUsedIntervalMs, and empty TTL nodes that were not written for their TTL.
//
// It repeats the check for nodes that it has emptied. A periodic check does not, nor does a
// cluster, where the leader checks; without a leader nothing is deleted.
func (s *Server) ReapContainers() { s.quorum.Reap() }

// Advance advances the server's clock by d, as if no client had sent anything. Sessions and TTL
// nodes expire, connected or not, and containers are checked. Later stats are ahead by d.
//
// A negative d counts as 0. The members of a cluster share one clock. A testing/synctest bubble
// does not need Advance.
func (s *Server) Advance(d time.Duration) { s.quorum.Advance(max(d, 0)) }
