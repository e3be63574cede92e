package zktest

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// ErrNoSession means that there is no such session on the server.
var ErrNoSession = errors.New("zktest: no such session")

// Session is a session as the server sees it.
type Session struct {
	ID        int64
	Timeout   time.Duration // as granted
	Connected bool
	Owns      []string // its ephemeral nodes, sorted
}

// session is what a server knows of a session whose opening it has applied. Guarded by Server.mu.
type session struct {
	id      int64
	timeout time.Duration
	conn    *conn // nil while the client is not connected to this server
}

// Sessions lists the sessions that live, in the order of their ids.
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

// ExpireSession ends a session at once, as if its time had passed: its ephemeral nodes are deleted, its
// connection is cut, and its client learns of it when it connects again. The error is [ErrNoSession].
func (s *Server) ExpireSession(id int64) error {
	if s.member != nil {
		return s.member.cluster.ExpireSession(id)
	}
	s.mu.Lock()
	defer s.unlock()
	if s.sessions[id] == nil {
		return ErrNoSession
	}
	s.endSession(id)
	return nil
}

// openSession makes a session: a transaction. q gets the result. s.mu is held.
func (s *Server) openSession(h proto.ConnectRequest, q *call) {
	s.lastSession++
	q.session = s.lastSession
	s.submit(&entry{op: OpConnect, session: q.session, timeout: s.cfg.grant(h), origin: q, at: s})
}

// resumeSession goes on with a session over another connection, if there is such a session. s.mu is held.
func (s *Server) resumeSession(h proto.ConnectRequest, q *call) {
	q.session = h.Session
	valid := string(h.Password) == string(password(h.Session))
	if valid && s.member != nil {
		s.member.resumeSession(q, h.Session, s.cfg.grant(h))
		return
	}
	code := proto.OK
	if !valid || !s.tracker.touch(h.Session, s.cfg.grant(h), time.Now()) {
		code = proto.SessionExpired
	}
	q.answer(s.tree.zxid, result{code: code})
}

// grant is the timeout that a client gets.
func (c *config) grant(h proto.ConnectRequest) time.Duration {
	return min(max(time.Duration(h.Timeout)*time.Millisecond, c.minTimeout), c.maxTimeout)
}

// bind gives a session to a connection, and cuts its earlier one. s.mu is held.
func (s *Server) bind(c *conn, id int64, timeout time.Duration) *session {
	sess := s.addSession(id)
	if sess.conn != nil {
		sess.conn.cut() // what it sent and was not carried out yet never will be
	}
	sess.timeout, sess.conn = timeout, c
	c.session, c.peer = sess, id
	return sess
}

// addSession returns the session with this id, which it makes if need be.
func (s *Server) addSession(id int64) *session {
	if s.sessions[id] == nil {
		s.sessions[id] = &session{id: id}
	}
	return s.sessions[id]
}

// endSession ends a session in a transaction. s.mu is held.
func (s *Server) endSession(id int64) { s.submit(&entry{op: OpCloseSession, session: id}) }

// submit carries a transaction out. A member of a cluster leaves that to the leader. s.mu is held.
func (s *Server) submit(e *entry) {
	if s.member != nil {
		s.member.submit(e)
		return
	}
	now := time.Now()
	e.zxid, e.time = s.tree.zxid+1, now.Add(s.ahead)
	switch e.op {
	case OpConnect:
		s.tracker.open(e.session, e.timeout, now)
	case OpCloseSession:
		s.tracker.close(e.session)
	}
	s.apply(e)
}

// apply applies the next entry of the log, fires the watches and answers the client that waits for the result.
// s.mu is held.
func (s *Server) apply(e *entry) {
	res := s.tree.apply(e)
	ended := (*session)(nil)
	switch {
	case e.edit != nil:
	case e.op == OpConnect:
		s.addSession(e.session).timeout = e.timeout
	case e.op == OpCloseSession:
		ended = s.sessions[e.session]
		delete(s.sessions, e.session)
	}
	s.notify(e.zxid, res.events)
	if q := s.answers(e); q != nil {
		if e.op != q.request.Op { // of another request with the same number
			res = result{code: proto.MarshallingError}
		}
		q.answer(e.zxid, res)
	} else if ended != nil && ended.conn != nil {
		ended.conn.cut()
	}
}

// answers is the call that is answered when a transaction is applied, or nil. s.mu is held.
func (s *Server) answers(e *entry) *call {
	switch {
	case s.member != nil && !s.member.leads() && e.edit == nil:
		return s.member.answers(e)
	case e.at == s:
		return e.origin
	}
	return nil
}

// expireDue ends sessions whose time has passed. s.mu is held.
func (s *Server) expireDue() {
	s.hearAll()
	for _, id := range s.tracker.due(time.Now()) {
		s.endSession(id)
	}
}

// hearAll counts what was heard from connections for their sessions. s.mu is held.
func (s *Server) hearAll() {
	for c := range s.conns {
		c.hear()
	}
}

// hear counts what was heard from a connection for its session. Server.mu is held.
func (c *conn) hear() {
	at := c.heardAt.Load()
	if at == 0 || c.session == nil || c.session.conn != c {
		return
	}
	c.heardAt.CompareAndSwap(at, 0)
	s, when := c.server, c.server.made.Add(time.Duration(at))
	if s.member != nil {
		s.member.hear(c.session.id, c.session.timeout, when)
	} else {
		s.tracker.touch(c.session.id, c.session.timeout, when)
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
