package zktest

import (
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// entry is a transaction as it stands in the log of a server. To apply it gives the same result
// on every tree to which the entries before it were applied.
type entry struct {
	zxid    int64
	time    time.Time
	session int64 // 0: of the server itself
	who     []identity
	op      Op // OpConnect opens the session, OpCloseSession ends it
	body    proto.Record
	edit    func(*txn) proto.Code // instead of op
	voters  voters                // who decides once this is committed; nil: as before
	timeout time.Duration         // of a new session
	at      *Server               // where it came from
	origin  *call                 // the request behind it, of a client there; nil if nobody waits
}

// sameNumber reports whether two entries have the same session and number.
func (e *entry) sameNumber(other *entry) bool {
	return e.session == other.session && e.xid() == other.xid()
}

// xid is the number that the client has given the request; 0 if it has given none.
func (e *entry) xid() int32 {
	if e.origin == nil {
		return 0
	}
	return e.origin.xid
}

// result is what came of an entry.
type result struct {
	code   proto.Code
	failed string       // where an edit did
	body   proto.Record // of the reply; nil: none
	events []event
	hangUp bool // after the answer
}

// apply carries an entry out. One that fails changes nothing but the zxid.
func (t *tree) apply(e *entry) result {
	x := t.begin(e.zxid, e.time)
	x.session, x.who = e.session, e.who
	var body proto.Record
	code := proto.OK
	switch {
	case e.edit != nil:
		code = e.edit(x)
	case e.op == OpConnect:
	case e.op == OpCloseSession:
		x.removeOwned(e.session)
	case e.op == OpReconfig:
		code = t.cfg.reconfigCode()
	case e.op == Op(proto.OpDeleteContainer):
		code = proto.BadArguments // only servers send it, and to themselves
	default:
		body, code = x.operation(e.op, e.body)
	}
	if code != proto.OK {
		x.rollback()
	}
	return result{code: code, failed: x.failed, body: body, events: x.events}
}

// operation is what a transaction consists of, alone or in a multi.
func (x *txn) operation(op Op, body proto.Record) (proto.Record, proto.Code) {
	if x.tree.cfg.keeperForbids(op, body) {
		return nil, proto.BadArguments
	}
	switch r := body.(type) {
	case *proto.CreateRequest:
		return x.createKind(op, r)
	case *proto.VersionRequest:
		if op == OpCheck {
			return nil, x.check(r.Path, r.Version, x.who)
		}
		return nil, x.delete(r.Path, r.Version, x.who)
	case *proto.SetDataRequest:
		return changed(x.setData(r.Path, r.Data, r.Version, x.who))
	case *proto.SetACLRequest:
		return changed(x.setACL(r.Path, r.ACL, r.Version, x.who))
	case *proto.MultiRequest:
		return x.multi(r.Ops)
	}
	return nil, proto.MarshallingError
}

// changed is the answer to a request that changes a node.
func changed(stat Stat, code proto.Code) (proto.Record, proto.Code) {
	if code != proto.OK {
		return nil, code
	}
	return &proto.StatResponse{Stat: proto.Stat(stat)}, code
}

// maxTTL is the longest TTL there is, in milliseconds: servers keep it in 40 bits.
const maxTTL = 1<<40 - 1

// createKind makes a node of the kind that op says. That goes before the mode: a plain create with
// the mode of a container makes a persistent node.
func (x *txn) createKind(op Op, m *proto.CreateRequest) (proto.Record, proto.Code) {
	mode := Mode(m.Flags)
	switch {
	case !mode.valid():
		return nil, proto.BadArguments
	case mode.ttl() && !x.tree.cfg.ttlNodes:
		return nil, proto.Unimplemented
	case mode.ttl() && (m.TTL <= 0 || m.TTL > maxTTL), !mode.ttl() && op == OpCreateTTL:
		return nil, proto.BadArguments
	}
	if x.keeperRefuses(m.Path, mode) {
		return nil, proto.BadArguments
	}
	made := newNode{path: m.Path, data: m.Data, acl: m.ACL, sequential: mode.Sequential()}
	switch {
	case op == OpCreateContainer:
		made.container = true
		if x.tree.cfg.keeper == KeeperNewest {
			made.shown = keeperContainer
		}
	case op == OpCreateTTL:
		made.ttl = time.Duration(m.TTL) * time.Millisecond
	case mode.Ephemeral():
		made.owner = x.session
	}
	path, code := x.create(made, x.who)
	switch {
	case code != proto.OK:
		return nil, code
	case op == OpCreate:
		return &proto.PathResponse{Path: path}, code
	}
	return &proto.CreateResponse{Path: path, Stat: proto.Stat(x.tree.nodes[path].public())}, code
}
