package zktest

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// ErrNoSession means that there is no such session on the server.
var ErrNoSession = errors.New("zktest: no such session")

// Session is what a server knows of a client.
type Session struct {
	ID        int64
	Timeout   time.Duration // as granted
	Connected bool
	Owns      []string // its ephemeral nodes, sorted
}

// session is guarded by Server.mu.
type session struct {
	id      int64
	timeout time.Duration
	expires time.Time
	conn    *conn // nil while disconnected
}

// Sessions lists the sessions that live, in the order in which they began.
func (s *Server) Sessions() []Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Session
	for _, sess := range s.sessions {
		list = append(list, Session{sess.id, sess.timeout, sess.conn != nil, s.tree.owned(sess.id)})
	}
	slices.SortFunc(list, func(a, b Session) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// ExpireSession ends a session at once, as if its time had passed: its ephemeral nodes go, its
// connection is cut, and its client is told when it comes back. The error is
// [ErrNoSession].
func (s *Server) ExpireSession(id int64) error {
	s.mu.Lock()
	defer s.unlock()
	sess := s.sessions[id]
	if sess == nil {
		return ErrNoSession
	}
	s.endSession(sess)
	if sess.conn != nil {
		sess.conn.cut()
	}
	return nil
}

// admit finds the session that a client asks for, or makes one. It returns nil if there is none
// to go on with. s.mu is held.
func (s *Server) admit(h handshake) *session {
	timeout := min(max(h.timeout, s.cfg.minTimeout), s.cfg.maxTimeout)
	sess := s.sessions[h.session]
	if h.session == 0 {
		s.tree.zxid++ // a transaction
		s.lastSession++
		sess = &session{id: s.lastSession}
		s.sessions[sess.id] = sess
	} else if sess == nil || string(h.password) != string(password(sess.id)) {
		return nil
	}
	sess.timeout = timeout
	s.touch(sess)
	return sess
}

// endSession is a transaction. s.mu is held.
func (s *Server) endSession(sess *session) {
	x := s.tree.begin(time.Now())
	x.removeOwned(sess.id)
	delete(s.sessions, sess.id)
	s.commit(x)
}

// touch notes that a session was heard. Like a real server, it rounds the end up to
// the next tick. s.mu is held.
func (s *Server) touch(sess *session) {
	ticks := (time.Since(s.began)+sess.timeout)/s.cfg.tick + 1
	sess.expires = s.began.Add(ticks * s.cfg.tick)
}

// expireDue ends sessions whose time has passed. s.mu is held.
func (s *Server) expireDue() {
	now := time.Now()
	for _, sess := range s.sessions {
		if !now.Before(sess.expires) {
			s.endSession(sess)
			if sess.conn != nil {
				sess.conn.cut()
			}
		}
	}
}

// password is derived from the session's id, as a real server does it: the first 16 bytes of
// java.util.Random with a seed made of the id.
func password(id int64) []byte {
	const mask = 1<<48 - 1
	seed := (uint64(id) ^ 0xB3415C00 ^ 0x5DEECE66D) & mask
	p := make([]byte, 16)
	for i := 0; i < len(p); i += 4 {
		seed = (seed*0x5DEECE66D + 0xB) & mask
		binary.LittleEndian.PutUint32(p[i:], uint32(seed>>16))
	}
	return p
}
