package tree

import (
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// Request is a transaction. Its result is the same on all trees to which the same transactions were
// applied before.
type Request struct {
	Zxid    int64
	Time    time.Time
	Session int64 // 0 for the server itself
	Who     []Identity
	Op      proto.Op // proto.OpConnect opens the session, proto.OpCloseSession closes it
	Body    proto.Record
	Edit    func(*Txn) proto.Code // replaces Op
}

// Result is the outcome of a transaction.
type Result struct {
	Code   proto.Code
	Failed string       // path at which an edit failed
	Body   proto.Record // body of the reply; may be nil
	Events []Event
}

// Apply applies a transaction. A transaction that fails changes only the zxid.
func (t *Tree) Apply(e *Request) Result {
	x := t.begin(e.Zxid, e.Time)
	x.session, x.who = e.Session, e.Who
	var body proto.Record
	code := proto.OK
	switch {
	case e.Edit != nil:
		code = e.Edit(x)
	case e.Op == proto.OpConnect:
	case e.Op == proto.OpCloseSession:
		x.removeOwned(e.Session)
	case e.Op == proto.OpReconfig:
		code = t.Rules.reconfigCode()
	case e.Op == proto.OpDeleteContainer:
		code = proto.BadArguments // only servers send it, and to themselves
	default:
		body, code = x.operation(e.Op, e.Body)
	}
	if code != proto.OK {
		x.rollback()
	}
	return Result{Code: code, Failed: x.failed, Body: body, Events: x.events}
}

// operation carries out an operation, alone or in a multi.
func (x *Txn) operation(op proto.Op, body proto.Record) (proto.Record, proto.Code) {
	if x.Tree.Rules.keeperForbids(op, body) {
		return nil, proto.BadArguments
	}
	switch r := body.(type) {
	case *proto.CreateRequest:
		return x.createKind(op, r)
	case *proto.VersionRequest:
		if op == proto.OpCheck {
			return nil, x.check(r.Path, r.Version, x.who)
		}
		return nil, x.delete(r.Path, r.Version, x.who)
	case *proto.SetDataRequest:
		return changed(x.SetData(r.Path, r.Data, r.Version, x.who))
	case *proto.SetACLRequest:
		return changed(x.setACL(r.Path, r.ACL, r.Version, x.who))
	case *proto.MultiRequest:
		return x.multi(r.Ops)
	}
	return nil, proto.MarshallingError
}

// changed returns the answer to a request that changes a node.
func changed(stat proto.Stat, code proto.Code) (proto.Record, proto.Code) {
	if code != proto.OK {
		return nil, code
	}
	return &proto.StatResponse{Stat: stat}, code
}

// maxTTL is the longest TTL, in milliseconds: servers store it in 40 bits.
const maxTTL = 1<<40 - 1

// checkKind returns the error for a create whose mode or TTL is not valid.
func (x *Txn) checkKind(op proto.Op, m *proto.CreateRequest) proto.Code {
	mode := Mode(m.Flags)
	switch {
	case !mode.valid():
		return proto.BadArguments
	case mode.ttl() && !x.Tree.Rules.TTLNodes:
		return proto.Unimplemented
	case mode.ttl() && (m.TTL <= 0 || m.TTL > maxTTL), !mode.ttl() && op == proto.OpCreateTTL, x.keeperRefuses(m.Path, mode):
		return proto.BadArguments
	}
	return proto.OK
}

// createKind creates a node of the kind that op says. The operation precedes the mode: a plain
// create with the mode of a container creates a persistent node.
func (x *Txn) createKind(op proto.Op, m *proto.CreateRequest) (proto.Record, proto.Code) {
	if code := x.checkKind(op, m); code != proto.OK {
		return nil, code
	}
	mode := Mode(m.Flags)
	made := NewNode{Path: m.Path, Data: m.Data, ACL: m.ACL, sequential: mode.sequential()}
	switch {
	case op == proto.OpCreateContainer:
		made.Container = true
		if x.Tree.Rules.Keeper == KeeperNewest {
			made.shown = keeperContainer
		}
	case op == proto.OpCreateTTL:
		made.TTL = time.Duration(m.TTL) * time.Millisecond
	case mode.ephemeral():
		made.owner = x.session
	}
	path, code := x.create(made, x.who)
	switch {
	case code != proto.OK:
		return nil, code
	case op == proto.OpCreate:
		return &proto.PathResponse{Path: path}, code
	}
	return &proto.CreateResponse{Path: path, Stat: x.Tree.Nodes[path].Public()}, code
}
