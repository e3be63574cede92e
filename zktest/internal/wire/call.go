package wire

import (
	"time"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/timeline"
	"github.com/gocurator/curator/zktest/internal/cluster"
	"github.com/gocurator/curator/zktest/internal/tree"
)

// call is a request that is being carried out. A transaction of a cluster waits until this member
// has applied it.
type call struct {
	conn     *Conn
	request  Request
	session  int64 // the session; for a handshake, the session that it receives
	xid      int32
	fate     Fate
	then     func(q *call, zxid int64, res tree.Result)
	began    time.Time // the arrival, for a timeline
	hangUp   bool      // after the answer
	goesOn   bool      // the connection does, after the answer
	answered bool
	done     chan struct{} // closed when answered; nil if that was at once
}

// Op returns the operation.
func (q *call) Op() proto.Op { return q.request.Op }

// Xid returns the number that the client has given the request.
func (q *call) Xid() int32 { return q.xid }

// Hang cuts the client's connection.
func (q *call) Hang() { q.conn.Cut() }

// Answer is called with the result.
func (q *call) Answer(zxid int64, res tree.Result) {
	q.then(q, zxid, res)
	q.answered = true
	if q.done != nil {
		close(q.done)
	}
}

// serve processes requests in order. The lock is not held, as in all functions that report whether
// the connection continues.
func (c *Conn) serve() {
	first, more := c.next()
	if !more {
		return
	}
	if isWord(string(first)) {
		c.out.Push([]byte(c.server.word(string(first))))
		return
	}
	if !c.connect(first) {
		return
	}
	for {
		record, more := c.next()
		if !more || !c.handle(record) {
			return
		}
	}
}

// connect gives the client a session. It reports whether it has one.
func (c *Conn) connect(record []byte) bool {
	s := c.server
	var h proto.ConnectRequest
	d := proto.NewDecoder(record)
	if h.Decode(&d); d.Err() != nil {
		return false
	}
	s.Lock()
	c.peer = h.Session
	c.hold(s.blocked(c))
	s.Unlock()
	if !s.flows(c, c.done) {
		return false
	}
	request := Request{Session: h.Session, Op: proto.OpConnect}
	if !s.hooks.Pass(request) {
		return false
	}
	plan := s.hooks.Plan(request)
	h = s.cfg.asServed(h)

	if !s.lockRunning() {
		return false
	}
	if !s.serves() || c.lost || h.LastZxid > s.Tree.Zxid {
		s.Unlock()
		return false // a client that has seen more than this server has to find another one
	}
	q := &call{conn: c, request: request, then: func(q *call, _ int64, res tree.Result) { c.welcome(q, h, res.Code) }}
	if plan != nil {
		q.fate = plan()
	}
	if q.fate.Skip {
		if q.fate.Expire && s.Sessions[h.Session] != nil {
			s.end(h.Session)
		}
		c.Cut()
		s.Release()
		return false
	}
	s.greet(q, h)
	return c.finish(q)
}

// greet opens or resumes the session that a handshake asks for, or rejects it.
func (s *Server) greet(q *call, h proto.ConnectRequest) {
	switch {
	case s.refuses&Sessions != 0:
		q.send(s.cfg.rejection(h))
		q.answered = true
	case h.Session == 0:
		q.session = s.NewSession()
		open := tree.Request{Op: proto.OpConnect, Session: q.session}
		s.quorum.Submit(&cluster.Entry{Request: open, Timeout: s.cfg.grant(h), Origin: q})
	case string(h.Password) != string(password(h.Session)):
		q.Answer(s.Tree.Zxid, tree.Result{Code: proto.SessionExpired})
	default:
		q.session = h.Session
		s.quorum.Resume(q, h.Session, s.cfg.grant(h))
	}
}

// welcome gives a session to the connection and answers the handshake, or does what its fate wants
// instead.
func (c *Conn) welcome(q *call, h proto.ConnectRequest, code proto.Code) {
	s := c.server
	if c.over || c.lost {
		return // the session exists, and the client may resume it
	}
	var sess *cluster.Session
	if code == proto.OK {
		sess = s.bind(c, q.session, s.cfg.grant(h))
		c.hold(s.blocked(c))
		c.record.last, c.lastZxid = proto.OpConnect, s.Tree.Zxid
	}
	switch {
	case q.fate.Expire && sess != nil:
		s.end(sess.ID)
	case q.fate.Mute:
		c.Cut()
	default:
		q.send(s.cfg.greeting(h, sess))
		q.goesOn = sess != nil
	}
}

// handle processes one request. It reports whether the connection continues.
func (c *Conn) handle(record []byte) bool {
	s := c.server
	var head proto.RequestHeader
	d := proto.NewServerDecoder(record)
	if head.Decode(&d); d.Err() != nil {
		return false
	}
	request := decode(c.session.ID, head.Op, &d)
	began := time.Now()
	if !s.hooks.Pass(request) || !c.awaitTurn(request) {
		return false
	}
	plan := s.hooks.Plan(request)

	if !s.lockRunning() {
		return false
	}
	if !s.serves() || c.session.Conn != c || s.Sessions[c.session.ID] != c.session {
		s.Unlock()
		return false // too late: the session has moved or expired
	}
	q := &call{conn: c, request: request, xid: head.Xid, then: (*call).reply, began: began}
	if plan != nil {
		q.fate = plan()
	}
	if q.fate.Skip || !s.cfg.knows(request) {
		c.refuse(q)
		s.Release()
		return false
	}
	s.count(request.Op)
	c.carryOut(q)
	return c.finish(q)
}

// awaitTurn waits until a request may be carried out: a read follows the writes before it. It
// reports false if the connection ends before.
func (c *Conn) awaitTurn(r Request) bool {
	s := c.server
	return s.cfg.takesZxid(r) || s.cfg.unimplemented(r) || c.await(c.pending)
}

// refuse cuts the connection instead of applying a request.
func (c *Conn) refuse(q *call) {
	s := c.server
	if q.fate.Skip {
		s.hooks.Answered(q.request, q.fate, nil)
		q.record(0, s.hooks.Name(q.fate.Fault), true)
		if q.fate.Expire {
			s.end(c.session.ID)
		}
	} else {
		s.hooks.Answered(q.request, Fate{}, func() string { return "unknown operation" })
		q.record(0, "unknown operation", true)
	}
	c.Cut()
}

// carryOut answers a request, now or when its transaction is applied.
func (c *Conn) carryOut(q *call) {
	s, r := c.server, q.request
	switch {
	case c.sasl.barred(&s.cfg.Security, r.Op):
		q.Answer(0, tree.Result{Code: proto.SessionClosedRequireSASL})
	case s.cfg.unimplemented(r):
		q.hangUp = true
		q.Answer(-1, tree.Result{Code: proto.Unimplemented})
	case tree.Writes(r.Op) && !s.cfg.takesZxid(r):
		q.Answer(s.Tree.Zxid, tree.Result{Code: proto.MarshallingError})
	case tree.Writes(r.Op) || r.Op == proto.OpCloseSession:
		txn := tree.Request{Session: c.session.ID, Who: c.who, Op: r.Op, Body: r.understood()}
		s.quorum.Submit(&cluster.Entry{Request: txn, Origin: q})
	case r.Op == proto.OpSync && !r.Malformed:
		s.quorum.Sync(q, r.Body.(*proto.PathRequest).Path)
	default:
		answer, code := c.readOnly(r.Op, r.understood())
		q.Answer(s.Tree.Zxid, tree.Result{Code: code, Body: answer})
	}
}

// finish waits for the answer, and until it may be sent. It reports whether the connection
// continues. The lock is held, and is released. A write in a cluster is not waited for: the next
// one may follow at once, and each is answered when it is applied.
func (c *Conn) finish(q *call) bool {
	s := c.server
	if !q.answered {
		q.done = make(chan struct{})
	}
	s.Release()
	if q.done != nil && tree.Writes(q.request.Op) && q.fate.free() {
		c.pending = q
		return true
	}
	if !c.await(q) {
		return false
	}
	if q.fate.Hold != nil && !q.fate.Mute {
		if !q.fate.Hold() {
			return false
		}
		s.Lock()
		s.Put(&control{c, letGo})
		s.Release()
	}
	return q.goesOn
}

// await waits until a request is answered. It reports false if the connection ends before.
func (c *Conn) await(q *call) bool {
	if q == nil || q.done == nil {
		return true
	}
	select {
	case <-q.done:
		return true
	case <-c.done:
	case <-c.server.done:
	}
	return false
}

// send puts the answer out, behind a gate if need be. bytes has room for its length. An event of a
// later transaction must not overtake the answer that set its watch, so that the lock is held.
func (q *call) send(bytes []byte) {
	s := q.conn.server
	if q.fate.Hold != nil {
		s.Put(&control{q.conn, holdBack})
	}
	s.Put(&frame{to: q.conn, bytes: proto.Seal(bytes), rewrite: q.fate.Rewrite})
}

// reply answers a request, or does what its fate wants instead.
func (q *call) reply(zxid int64, res tree.Result) {
	c, s, op := q.conn, q.conn.server, q.request.Op
	if op == proto.OpAuth || op == proto.OpSASL {
		zxid = 0 // as in real servers
		if res.Code == proto.MarshallingError {
			// Real servers carry this one out where they read. There a request that cannot be
			// understood ends the connection.
			q.goesOn = false
			return
		}
	}
	c.record.last, c.lastXid, c.lastZxid = op, q.xid, zxid
	s.hooks.Answered(q.request, q.fate, func() string { return outcome(op, res.Code, res.Body) })
	if s.cfg.Timeline != nil {
		result, bad := outcome(op, res.Code, res.Body), res.Code != proto.OK
		if q.fate.Fault != 0 {
			result, bad = result+" ("+s.hooks.Name(q.fate.Fault)+")", true
		}
		q.record(zxid, result, bad)
	}
	switch {
	case q.fate.Expire:
		s.end(c.session.ID)
		return
	case q.fate.Mute:
		c.Cut()
		return
	}
	q.sendReply(zxid, res)
	q.goesOn = op != proto.OpCloseSession && res.Code != proto.AuthFailed && res.Code != proto.SessionClosedRequireSASL && !q.hangUp
}

// record adds the request to the timeline.
func (q *call) record(zxid int64, result string, bad bool) {
	s := q.conn.server
	if s.cfg.Timeline == nil {
		return
	}
	if !tree.Writes(q.request.Op) {
		zxid = 0 // it has changed nothing
	}
	what, path := s.hooks.Describe(q.request)
	s.cfg.Timeline.Add(q.began, timeline.Entry{
		Kind: timeline.Request, Server: s.Name(), Session: timeline.SessionText(q.request.Session),
		What: what, Path: path, Result: result, Bad: bad, Zxid: zxid,
	})
}

// sendReply sends the answer to a request.
func (q *call) sendReply(zxid int64, res tree.Result) {
	header := proto.ReplyHeader{Xid: q.xid, Zxid: zxid, Code: res.Code}
	if q.request.Op == proto.OpPing {
		header.Xid = proto.XidPing // whatever number the client has given it
	}
	if res.Code == proto.OK && res.Body != nil {
		q.send(res.Body.Append(header.Append(proto.Begin(128))))
	} else {
		q.send(header.Append(proto.Begin(16)))
	}
}
