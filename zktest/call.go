package zktest

// call is a request that is being carried out. One that is a transaction of a cluster waits until this
// member has applied it. Guarded by Server.mu.
type call struct {
	conn     *conn
	request  Request
	session  int64 // of a handshake: what it gets
	xid      int32
	fault    Fault
	gates    []*Gate
	tampers  []*tamper
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
// on. Server.mu is held, and is let go. The answer to a write in a cluster is not waited for: the next
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
	if len(q.gates) > 0 && q.fault == 0 {
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

// send puts the answer out, behind a gate if need be. Server.mu is held.
func (q *call) send(record []byte) {
	s := q.conn.server
	if len(q.gates) > 0 {
		s.put(output{to: q.conn, kind: outputHold})
	}
	// Put out with the lock held: an event of a later transaction must not
	// overtake the answer that set its watch.
	s.put(output{to: q.conn, frame: frame(record), from: s, tampers: q.tampers, request: q.request})
}

// handle carries one request out. It reports whether the connection goes on.
func (c *conn) handle(record []byte) bool {
	s := c.server
	head := reader{buf: record}
	xid, op := head.int32(), Op(head.int32())
	if head.err != nil {
		return false
	}
	request := describe(c.session.id, op, head.buf)
	if !s.pass(request) || !op.writes() && !c.await(c.pending) {
		return false
	}
	hits, gates, tampers := s.hits(request), s.replyGates(request), s.tampering(request)

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
		s.tell(Event{Session: c.session.id, Request: request, Fault: fault})
		if fault == ExpireBefore {
			s.endSession(c.session.id)
		}
		c.cut()
		s.unlock()
		return false
	}
	if !s.cfg.knows(request) {
		s.tell(Event{Session: c.session.id, Request: request, Result: "unknown operation"})
		c.cut()
		s.unlock()
		return false
	}
	s.count(op)
	q := &call{conn: c, request: request, xid: xid, fault: fault, gates: gates, tampers: tampers, then: (*call).reply}
	c.carryOut(q, head.buf)
	return c.finish(q)
}

// carryOut has a request answered, now or when its transaction is applied. Server.mu is held.
func (c *conn) carryOut(q *call, body []byte) {
	s, op := c.server, q.request.Op
	switch {
	case op == OpCreateContainer && !s.cfg.containers:
		q.answer(-1, result{code: errUnknownOp})
	case op == OpReconfig && !validReconfig(body): // the only one that is read before a zxid is taken for it
		q.answer(s.tree.zxid, result{code: errMarshalling})
	case op.writes() || op == OpCloseSession:
		s.submit(&entry{session: c.session.id, who: c.who, op: op, body: body, origin: q, at: s})
	case op == OpSync && s.member != nil && validSync(body):
		s.member.sync(q, body)
	default:
		var w writer
		code := c.read1(op, &reader{buf: body}, &w)
		if code == errUnknownOp {
			q.answer(-1, result{code: code})
		} else {
			q.answer(s.tree.zxid, result{code: code, body: w.buf})
		}
	}
}

// reply answers a request, or does what a fault wants instead. Server.mu is held.
func (q *call) reply(zxid int64, res result) {
	c, s, op := q.conn, q.conn.server, q.request.Op
	if op == OpAuth {
		zxid = 0 // as real servers have it
		if res.code == errMarshalling {
			// Real servers carry this one out where they read, and there what
			// cannot be understood ends the connection.
			q.goesOn = false
			return
		}
	}
	c.last, c.lastXid, c.lastZxid = op, q.xid, zxid
	if len(s.traces) > 0 { // or all would pay for the words
		s.tell(Event{Session: c.session.id, Request: q.request, Result: describeResult(op, res.code, res.body), Fault: q.fault})
	}
	switch q.fault {
	case LoseReply:
		c.cut()
		return
	case ExpireAfter:
		s.endSession(c.session.id)
		return
	}
	var w writer
	w.int32(q.xid)
	w.int64(zxid)
	w.int32(int32(res.code.onWire()))
	if res.code == ok {
		w.buf = append(w.buf, res.body...)
	}
	q.send(w.buf)
	q.goesOn = op != OpCloseSession && res.code != errAuthFailed && res.code != errUnknownOp
}

// validSync reports whether the body of a sync can be read. It is also that of the reply.
func validSync(body []byte) bool {
	r := reader{buf: body}
	r.string()
	return r.err == nil && len(r.buf) == 0
}

// validReconfig reports whether the body of a reconfiguration can be read.
func validReconfig(body []byte) bool {
	r := reader{buf: body}
	for range 3 {
		r.bytes() // who joins, who leaves, who stays
	}
	r.int64()
	return r.err == nil
}
