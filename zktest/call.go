package zktest

import "github.com/gocurator/curator/internal/proto"

// call is a request that is being carried out. One that is a transaction of a cluster waits until this
// member has applied it. Guarded by Server.mu.
type call struct {
	conn     *conn
	request  Request
	session  int64 // of a handshake: what it gets
	xid      int32
	fault    Fault
	gates    []*Gate
	rewrites []*rewrite
	then     func(q *call, zxid int64, res result)
	goesOn   bool // the connection does, after the answer
	answered bool
	done     chan struct{} // closed when answered; nil if that was at once
}

// answer is called when the result is there, with Server.mu held.
func (q *call) answer(zxid int64, res result) {
	q.then(q, zxid, res)
	q.answered = true
	if q.done != nil {
		close(q.done)
	}
}

// finish waits for the answer, and until the gates let it pass. It reports whether the connection goes
// on. Server.mu is held, and is unlocked. The answer to a write in a cluster is not waited for: the next
// write may follow at once, and gets its answer later.
func (c *conn) finish(q *call) bool {
	s := c.server
	if !q.answered {
		q.done = make(chan struct{})
	}
	s.unlock()
	if q.done != nil && q.request.Op.writes() && len(q.gates) == 0 && q.fault == 0 {
		c.pending = q
		return true
	}
	if !c.await(q) {
		return false
	}
	if len(q.gates) > 0 && q.fault.answers() {
		if !s.wait(q.gates) {
			return false
		}
		s.mu.Lock()
		s.put(output{to: c, kind: outputRelease})
		s.unlock()
	}
	return q.goesOn
}

// await waits until a request is answered. It reports false if the connection ends before.
func (c *conn) await(q *call) bool {
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

// send puts the answer out, behind a gate if need be. frame has room for its length. Server.mu is held.
func (q *call) send(frame []byte) {
	s := q.conn.server
	if len(q.gates) > 0 {
		s.put(output{to: q.conn, kind: outputHold})
	}
	// Put out with the lock held: an event of a later transaction must not
	// overtake the answer that set its watch.
	s.put(output{to: q.conn, frame: proto.Seal(frame), from: s, rewrites: q.rewrites, request: q.request})
}

// handle carries one request out. It reports whether the connection goes on.
func (c *conn) handle(record []byte) bool {
	s := c.server
	var head proto.RequestHeader
	d := proto.NewDecoder(record)
	if head.Decode(&d); d.Err() != nil {
		return false
	}
	op := Op(head.Op)
	request, body := decode(c.session.id, op, &d)
	if !s.pass(request) || !s.takesZxid(op, body) && !s.cfg.unimplemented(op, body) && !c.await(c.pending) {
		return false
	}
	hits, gates, rewrites := s.hits(request), s.replyGates(request), s.rewritesOf(request)

	if !s.lockRunning() {
		return false
	}
	if !s.serves() || c.session.conn != c || s.sessions[c.session.id] != c.session {
		s.mu.Unlock()
		return false // the session has moved, or is over: this was too late
	}
	fault := s.meet(hits, request)
	switch fault {
	case FailBefore, ExpireBefore:
		s.traceEvent(Event{Session: c.session.id, Request: request, Fault: fault})
		if fault == ExpireBefore {
			s.endSession(c.session.id)
		}
		c.cut()
		s.unlock()
		return false
	}
	if !s.cfg.knows(request) {
		s.traceEvent(Event{Session: c.session.id, Request: request, Result: "unknown operation"})
		c.cut()
		s.unlock()
		return false
	}
	s.count(op)
	gates = s.asleep.holdUp(fault, gates)
	q := &call{conn: c, request: request, xid: head.Xid, fault: fault, gates: gates, rewrites: rewrites, then: (*call).reply}
	c.carryOut(q, body)
	return c.finish(q)
}

// carryOut has a request answered, now or when its transaction is applied. Server.mu is held.
func (c *conn) carryOut(q *call, body proto.Record) {
	s, op := c.server, q.request.Op
	_, bad := body.(malformed)
	switch {
	case c.barred(op):
		q.answer(0, result{code: proto.SessionClosedRequireSASL, hangUp: true})
	case s.cfg.unimplemented(op, body):
		q.answer(-1, result{code: proto.Unimplemented, hangUp: true})
	case op.writes() && !s.takesZxid(op, body):
		q.answer(s.tree.zxid, result{code: proto.MarshallingError})
	case op.writes() || op == OpCloseSession:
		s.submit(&entry{session: c.session.id, who: c.who, op: op, body: body, origin: q, at: s})
	case op == OpSync && s.member != nil && !bad:
		s.member.sync(q, q.request.Path)
	default:
		answer, code := c.read1(op, body)
		q.answer(s.tree.zxid, result{code: code, body: answer})
	}
}

// takesZxid reports whether a request is a transaction. What cannot be understood is none, if the server reads it first.
func (s *Server) takesZxid(op Op, body proto.Record) bool {
	bad, isBad := body.(malformed)
	switch {
	case op == OpMulti && s.cfg.version >= V3_9:
		ops := []proto.MultiOp(nil)
		if isBad {
			body = bad.Record
		}
		if m, ok := body.(*proto.MultiRequest); ok {
			ops = m.Ops
		}
		if isBad && len(ops) > 0 {
			ops = ops[:len(ops)-1] // that is where it cannot be understood
		}
		_, zxid := acceptsMulti(ops)
		return zxid
	case isBad && op != OpMulti && (op == OpReconfig || s.cfg.version >= V3_9):
		return false
	}
	return op.writes()
}

// unimplemented reports whether an operation is one that the server does not know. It answers at once, before it has answered what
// came earlier, and cuts the connection.
func (c *config) unimplemented(op Op, body proto.Record) bool {
	switch op {
	case OpCreateContainer:
		return !c.containers
	case OpCheck: // it is for a multi
		return true
	case OpPing, OpWhoAmI, OpCloseSession:
		return false
	}
	return body == nil && !op.writes()
}

// reply answers a request, or does what a fault wants instead. Server.mu is held.
func (q *call) reply(zxid int64, res result) {
	c, s, op := q.conn, q.conn.server, q.request.Op
	if op == OpAuth || op == OpSASL {
		zxid = 0 // as real servers have it
		if res.code == proto.MarshallingError {
			// Real servers carry this one out where they read, and there what
			// cannot be understood ends the connection.
			q.goesOn = false
			return
		}
	}
	c.last, c.lastXid, c.lastZxid = op, q.xid, zxid
	if len(s.traces) > 0 { // or all would pay for the words
		s.traceEvent(Event{Session: c.session.id, Request: q.request, Result: describeResult(op, res.code, res.body), Fault: q.fault})
	}
	switch q.fault {
	case LoseReply:
		c.cut()
		return
	case ExpireAfter:
		s.endSession(c.session.id)
		return
	}
	header := proto.ReplyHeader{Xid: q.xid, Zxid: zxid, Code: res.code}
	if res.code == proto.OK && res.body != nil {
		q.send(res.body.Append(header.Append(proto.Begin(128))))
	} else {
		q.send(header.Append(proto.Begin(16)))
	}
	q.goesOn = op != OpCloseSession && res.code != proto.AuthFailed && res.code != proto.SessionClosedRequireSASL && !res.hangUp
}
