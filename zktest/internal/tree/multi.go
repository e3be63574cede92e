package tree

import "github.com/gocurator/curator/internal/proto"

// multi carries out all operations or none. Its own code is OK, unless it cannot be understood. The
// code of the operation that failed is among the results.
func (x *Txn) multi(ops []proto.MultiOp) (proto.Record, proto.Code) {
	if x.Tree.Rules.Version >= V39 {
		if accepted, _ := AcceptsMulti(ops); !accepted {
			return nil, proto.MarshallingError
		}
	}
	results := make([]proto.MultiResult, 0, len(ops))
	failed, failure := -1, proto.OK
	for i, op := range ops {
		if _, read := op.Body.(*proto.ReadRequest); read {
			return nil, proto.MarshallingError // only a multiRead has those
		}
		result, code := x.multiPart(op)
		switch {
		case failed >= 0 || code == proto.OK:
		case code == proto.MarshallingError:
			return nil, code
		default:
			failed, failure = i, code
		}
		results = append(results, result)
	}
	if failed >= 0 {
		x.rollback()
		for i := range results {
			code := proto.OK
			switch {
			case i == failed:
				code = failure
			case i > failed:
				code = proto.RuntimeInconsistency
			}
			results[i] = proto.MultiResult{Op: proto.OpError, Code: code}
		}
	}
	return &proto.MultiResponse{Results: results}, proto.OK
}

// AcceptsMulti reports whether ZooKeeper 3.9 accepts the operations of a multi, and whether the
// multi consumes a zxid. The server checks that before it applies the first one.
func AcceptsMulti(ops []proto.MultiOp) (accepted, zxid bool) {
	for _, op := range ops {
		m, creates := op.Body.(*proto.CreateRequest)
		if !creates || op.Op == proto.OpCreateTTL {
			continue
		}
		switch mode := Mode(m.Flags); {
		case !mode.valid():
			return false, true
		case m.ACL == nil:
			return false, false
		case mode.ttl():
			return false, true
		}
	}
	return true, true
}

// multiPart carries out one operation of a multi.
func (x *Txn) multiPart(op proto.MultiOp) (proto.MultiResult, proto.Code) {
	kind, called := op.Op, op.Op
	if m, creates := op.Body.(*proto.CreateRequest); creates {
		// Alone, the operation decides the kind of the node. In a multi the mode does.
		mode := Mode(m.Flags)
		switch {
		case mode == modeContainer:
			kind, called = proto.OpCreateContainer, proto.OpCreate2
		case mode.ttl() && kind != proto.OpCreateTTL:
			// Real servers fail at it in its turn, which it does not have after a failure.
			return proto.MultiResult{}, proto.MarshallingError
		case mode.ttl():
			called = proto.OpCreate2
		case x.Tree.Rules.Version < V39, kind == proto.OpCreateTTL:
			kind, called = proto.OpCreate, proto.OpCreate
		case kind != proto.OpCreate:
			called = proto.OpCreate2 // the kind of the request decides
		}
	}
	body, code := x.operation(kind, op.Body)
	return multiResult(called, body), code
}

// multiResult is the result of an operation of a multi or multiRead that alone is answered with
// body.
func multiResult(op proto.Op, body proto.Record) proto.MultiResult {
	r := proto.MultiResult{Op: op}
	switch b := body.(type) {
	case *proto.PathResponse:
		r.Path = b.Path
	case *proto.CreateResponse:
		r.Path, r.Stat = b.Path, b.Stat
	case *proto.StatResponse:
		r.Stat = b.Stat
	case *proto.DataResponse:
		r.Data, r.Stat = b.Data, b.Stat
	case *proto.NamesResponse:
		r.Names = b.Names
	}
	return r
}
