package zktest

import (
	"math"
	"slices"
	"strings"
	"time"
)

const (
	xidEvent = -1

	stateConnected = 3
)

// handle carries one request out. It reports whether the connection goes on.
func (c *conn) handle(record []byte) bool {
	s := c.server
	head := reader{buf: record}
	xid, op := head.int32(), Op(head.int32())
	if head.err != nil {
		return false
	}
	request := describe(c.session.id, op, head.buf)
	if !s.pass(request) {
		return false
	}
	hits, gates := s.hits(request), s.replyGates(request)

	if !s.lockRunning() {
		return false
	}
	if s.stopped || c.session.conn != c || s.sessions[c.session.id] != c.session {
		s.mu.Unlock()
		return false // the session has moved, or is over: this was too late
	}
	fault := s.meet(hits, request)
	switch fault {
	case FailBefore, ExpireBefore:
		s.tell(Event{Session: c.session.id, Request: request, Fault: fault})
		if fault == ExpireBefore {
			s.endSession(c.session)
		}
		c.cut()
		s.unlock()
		return false
	}
	s.count(op)
	var body writer
	code := c.apply(op, &reader{buf: head.buf}, &body)
	zxid := s.tree.zxid
	switch {
	case op == OpCloseSession:
		s.endSession(c.session)
		zxid = s.tree.zxid
	case op == OpAuth:
		zxid = 0 // as real servers have it
	case code == errUnknownOp:
		zxid = -1
	}
	if op == OpAuth && code == errMarshalling {
		// Real servers carry this one out where they read, and there what
		// cannot be understood ends the connection.
		s.unlock()
		return false
	}
	c.last, c.lastXid, c.lastZxid = op, xid, zxid
	s.tell(Event{Session: c.session.id, Request: request, Result: result(op, code, body.buf), Fault: fault})
	switch fault {
	case LoseReply:
		c.cut()
	case ExpireAfter:
		s.endSession(c.session)
	default:
		var reply writer
		reply.int32(xid)
		reply.int64(zxid)
		reply.int32(int32(code.onWire()))
		if code == ok {
			reply.buf = append(reply.buf, body.buf...)
		}
		if len(gates) > 0 {
			s.put(output{to: c, kind: outputHold})
		}
		// Put out with the lock held: an event of a later transaction must not
		// overtake the answer that set its watch.
		s.put(output{to: c, frame: frame(reply.buf)})
	}
	s.unlock()
	if fault != 0 {
		return false
	}
	if len(gates) > 0 {
		if !s.wait(gates) {
			return false
		}
		s.mu.Lock()
		s.put(output{to: c, kind: outputRelease})
		s.unlock()
	}
	return op != OpCloseSession && code != errAuthFailed && code != errUnknownOp
}

// apply carries a request out and writes its result. Server.mu is held.
func (c *conn) apply(op Op, r *reader, w *writer) code {
	s := c.server
	if !op.writes() {
		return c.read1(op, r, w)
	}
	if op == OpCreateContainer && !s.cfg.containers {
		return errUnknownOp
	}
	if op == OpReconfig {
		// The only one that is read before a zxid is taken for it.
		for range 3 {
			r.bytes() // who joins, who leaves, who stays
		}
		if r.int64(); r.err != nil {
			return errMarshalling
		}
	}
	x := s.tree.begin(time.Now())
	var code code
	switch op {
	case OpMulti:
		code = c.multi(x, r, w)
	case OpReconfig:
		code = errReconfigDisabled
	case opDeleteContainer:
		code = errBadArguments
	default:
		code = c.write1(x, op, r, w)
	}
	if code != ok {
		x.rollback()
	}
	s.commit(x)
	return code
}

// write1 is one operation of a transaction.
func (c *conn) write1(x *txn, op Op, r *reader, w *writer) code {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		m := r.creation(op)
		if r.err != nil {
			return errMarshalling
		}
		return c.create(x, op, m, w)
	case OpDelete:
		path, version := r.string(), r.int32()
		if r.err != nil {
			return errMarshalling
		}
		return x.delete(path, version, c.who)
	case OpSetData:
		path, data, version := r.string(), r.bytes(), r.int32()
		if r.err != nil {
			return errMarshalling
		}
		stat, code := x.setData(path, data, version, c.who)
		if code == ok {
			w.stat(stat)
		}
		return code
	case OpSetACL:
		path, list, version := r.string(), r.acls(), r.int32()
		if r.err != nil {
			return errMarshalling
		}
		stat, code := x.setACL(path, list, version, c.who)
		if code == ok {
			w.stat(stat)
		}
		return code
	case OpCheck:
		path, version := r.string(), r.int32()
		if r.err != nil {
			return errMarshalling
		}
		return x.check(path, version, c.who)
	}
	return errMarshalling
}

// maxTTL is the longest TTL there is, in milliseconds: servers keep it in 40 bits.
const maxTTL = 1<<40 - 1

// creation is the body of a create, of any kind.
type creation struct {
	path string
	data []byte
	acl  []acl
	mode Mode
	ttl  int64 // in milliseconds; -1: none
}

func (r *reader) creation(op Op) creation {
	m := creation{r.string(), r.bytes(), r.acls(), Mode(r.int32()), -1}
	if op == OpCreateTTL {
		m.ttl = r.int64()
	}
	return m
}

// create makes a node of the kind that op says. That goes before the mode: a plain create with
// the mode of a container makes a persistent node.
func (c *conn) create(x *txn, op Op, m creation, w *writer) code {
	switch {
	case !m.mode.valid():
		return errBadArguments
	case m.mode.ttl() && !c.server.cfg.ttlNodes:
		return errUnimplemented
	case m.mode.ttl() && (m.ttl <= 0 || m.ttl > maxTTL), !m.mode.ttl() && op == OpCreateTTL:
		return errBadArguments
	}
	made := newNode{path: m.path, data: m.data, acl: m.acl, sequential: m.mode.Sequential()}
	switch {
	case op == OpCreateContainer:
		made.container = true
	case op == OpCreateTTL:
		made.ttl = time.Duration(m.ttl) * time.Millisecond
	case m.mode.Ephemeral():
		made.owner = c.session.id
	}
	path, code := x.create(made, c.who)
	if code == ok {
		w.string(path)
		if op != OpCreate {
			w.stat(x.tree.nodes[path].public())
		}
	}
	return code
}

// read1 is a request that is no transaction.
func (c *conn) read1(op Op, r *reader, w *writer) code {
	switch op {
	case OpPing, OpCloseSession:
		return ok
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		path, sets := r.string(), r.bool()
		if r.err != nil {
			return errMarshalling
		}
		return c.look(op, path, sets, w)
	case OpGetACL:
		path := r.string()
		if r.err != nil {
			return errMarshalling
		}
		return c.getACL(path, w)
	case OpSync:
		path := r.string()
		if r.err != nil {
			return errMarshalling
		}
		w.string(path)
		return ok
	case OpMultiRead:
		return c.multiRead(r, w)
	case OpAuth:
		return c.auth(r)
	case OpSetWatches, OpSetWatches2:
		return c.setWatches(op, r)
	case OpAddWatch:
		return c.addWatch(r, w)
	case OpCheckWatches, OpRemoveWatches:
		return c.dropWatches(op, r)
	case OpGetEphemerals:
		return c.getEphemerals(r, w)
	case OpGetChildrenNumber:
		return c.countBelow(r, w)
	case OpWhoAmI:
		w.int32(int32(len(c.who)))
		for _, who := range c.who {
			w.string(who.scheme)
			w.string(who.user())
		}
		return ok
	}
	return errUnknownOp
}

func (c *conn) look(op Op, path string, sets bool, w *writer) code {
	if op == OpExists && strings.ContainsRune(path, 0) {
		return errBadArguments
	}
	n := c.server.tree.node(path)
	if n == nil {
		if sets && op == OpExists {
			c.watches.data[path] = watchOnce
		}
		return errNoNode
	}
	if op != OpExists && !allowed(n.acl, permRead, c.who) {
		return errNoAuth
	}
	if sets && (op == OpGetChildren || op == OpGetChildren2) {
		c.watches.children[path] = watchOnce
	} else if sets {
		c.watches.data[path] = watchOnce
	}
	switch op {
	case OpGetData:
		w.bytes(n.data)
	case OpGetChildren, OpGetChildren2:
		w.strings(n.list())
	}
	if op != OpGetChildren {
		w.stat(n.public())
	}
	return ok
}

func (c *conn) getACL(path string, w *writer) code {
	n := c.server.tree.node(path)
	if n == nil {
		return errNoNode
	}
	admin := allowed(n.acl, permAdmin, c.who)
	if !admin && !allowed(n.acl, permRead, c.who) {
		return errNoAuth
	}
	list := slices.Clone(n.acl)
	for i, a := range list {
		if user, _, found := strings.Cut(a.id.id, ":"); found && a.id.scheme == "digest" && !admin {
			list[i].id.id = user + ":x" // the hash is for administrators
		}
	}
	w.acls(list)
	w.stat(n.public())
	return ok
}

func (c *conn) getEphemerals(r *reader, w *writer) code {
	prefix := r.string()
	if r.err != nil {
		return errMarshalling
	}
	if strings.TrimSpace(prefix) == "" {
		prefix = "/"
	}
	w.strings(slices.DeleteFunc(c.server.tree.owned(c.session.id), func(path string) bool {
		return !strings.HasPrefix(path, prefix)
	}))
	return ok
}

func (c *conn) countBelow(r *reader, w *writer) code {
	path := r.string()
	if r.err != nil {
		return errMarshalling
	}
	n := c.server.tree.node(path)
	if n == nil {
		return errNoNode
	}
	if !allowed(n.acl, permRead, c.who) {
		return errNoAuth
	}
	count := 0
	for other := range c.server.tree.nodes {
		if other != path && below(other, path) {
			count++
		}
	}
	w.int32(int32(min(count, math.MaxInt32)))
	return ok
}

func (c *conn) auth(r *reader) code {
	r.int32() // always 0
	scheme, cred := r.string(), r.bytes()
	if r.err != nil {
		return errMarshalling
	}
	var who identity
	switch scheme {
	case "digest":
		who = digest(string(cred))
	case "ip":
		who = c.who[0]
	default:
		return errAuthFailed
	}
	if !slices.Contains(c.who, who) {
		c.who = append(c.who, who)
	}
	return ok
}
