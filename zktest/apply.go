package zktest

import "time"

// entry is a transaction as it stands in the log of a server. To apply it gives the same result
// on every tree to which the entries before it were applied.
type entry struct {
	zxid    int64
	time    time.Time
	session int64 // 0: of the server itself
	who     []identity
	op      Op // OpConnect opens the session, OpCloseSession ends it
	body    []byte
	edit    func(*txn) code // instead of op
	timeout time.Duration   // of a new session
	at      *Server         // where it came from
	origin  *call           // the request behind it, of a client there; nil if nobody waits
}

// result is what came of an entry.
type result struct {
	code   code
	failed string // where an edit did
	body   []byte // of the reply
	events []event
}

// apply carries an entry out. One that fails changes nothing but the zxid.
func (t *tree) apply(e *entry) result {
	x := t.begin(e.zxid, e.time)
	x.session, x.who = e.session, e.who
	r, w := reader{buf: e.body}, writer{}
	code := ok
	switch {
	case e.edit != nil:
		code = e.edit(x)
	case e.op == OpConnect:
	case e.op == OpCloseSession:
		x.removeOwned(e.session)
	case e.op == OpMulti:
		code = x.multi(&r, &w)
	case e.op == OpReconfig:
		code = t.cfg.reconfigCode()
	case e.op == opDeleteContainer:
		code = errBadArguments // only servers send it, and to themselves
	default:
		code = x.operation(e.op, &r, &w)
	}
	if code != ok {
		x.rollback()
	}
	return result{code, x.failed, w.buf, x.events}
}

// operation is one operation of a transaction.
func (x *txn) operation(op Op, r *reader, w *writer) code {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		m := r.creation(op)
		if r.err != nil {
			return errMarshalling
		}
		return x.createKind(op, m, w)
	case OpDelete:
		path, version := r.string(), r.int32()
		if r.err != nil {
			return errMarshalling
		}
		return x.delete(path, version, x.who)
	case OpSetData:
		path, data, version := r.string(), r.bytes(), r.int32()
		if r.err != nil {
			return errMarshalling
		}
		stat, code := x.setData(path, data, version, x.who)
		if code == ok {
			w.stat(stat)
		}
		return code
	case OpSetACL:
		path, list, version := r.string(), r.acls(), r.int32()
		if r.err != nil {
			return errMarshalling
		}
		stat, code := x.setACL(path, list, version, x.who)
		if code == ok {
			w.stat(stat)
		}
		return code
	case OpCheck:
		path, version := r.string(), r.int32()
		if r.err != nil {
			return errMarshalling
		}
		return x.check(path, version, x.who)
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

// createKind makes a node of the kind that op says. That goes before the mode: a plain create with
// the mode of a container makes a persistent node.
func (x *txn) createKind(op Op, m creation, w *writer) code {
	switch {
	case !m.mode.valid():
		return errBadArguments
	case m.mode.ttl() && !x.tree.cfg.ttlNodes:
		return errUnimplemented
	case m.mode.ttl() && (m.ttl <= 0 || m.ttl > maxTTL), !m.mode.ttl() && op == OpCreateTTL:
		return errBadArguments
	}
	if code := x.keeperRefuses(m); code != ok {
		return code
	}
	made := newNode{path: m.path, data: m.data, acl: m.acl, sequential: m.mode.Sequential()}
	switch {
	case op == OpCreateContainer:
		made.container = true
	case op == OpCreateTTL:
		made.ttl = time.Duration(m.ttl) * time.Millisecond
	case m.mode.Ephemeral():
		made.owner = x.session
	}
	path, code := x.create(made, x.who)
	if code == ok {
		w.string(path)
		if op != OpCreate {
			w.stat(x.tree.nodes[path].public())
		}
	}
	return code
}
