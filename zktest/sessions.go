package zktest

import (
	"cmp"
	"slices"
	"time"

	"github.com/gocurator/curator/zktest/internal/cluster"
	"github.com/gocurator/curator/zktest/internal/wire"
)

// ErrNoSession is returned if the server does not know the session.
var ErrNoSession = cluster.ErrNoSession

// Session is a live session of a server.
type Session struct {
	ID        int64
	Timeout   time.Duration // timeout, as granted by the server
	Connected bool
	Owns      []string // sorted paths of its ephemeral nodes
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
// deleted and its connection is cut. The client notices the expiry when it reconnects.
//
// Errors are
//   - [ErrNoSession] if the session does not exist;
//   - [ErrNoLeader] on a member of a cluster without a leader.
func (s *Server) ExpireSession(id int64) error {
	s.act("expire session "+wire.SessionText(id), "")
	return s.quorum.Expire(id)
}

// ReapContainers checks containers and TTL nodes now, as the server does periodically (see
// [WithProperties]). It deletes empty containers that once had a child or have reached
// maxNeverUsedIntervalMs, and empty TTL nodes that were not written for their TTL.
//
// It repeats the check for nodes that became empty, unlike a periodic check. In a cluster the
// leader checks once, and without a leader nothing is deleted.
func (s *Server) ReapContainers() { s.quorum.Reap() }

// Advance advances the server's clock by d, as if all clients were silent for that time. Sessions
// and TTL nodes expire, even of connected clients, and containers are checked. The times of later
// stats include d.
//
// A negative d counts as 0. The members of a cluster share one clock. A testing/synctest bubble
// does not need Advance.
func (s *Server) Advance(d time.Duration) {
	s.act("advance the clock by "+d.String(), "")
	s.quorum.Advance(max(d, 0))
}
