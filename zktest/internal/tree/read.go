package tree

import (
	"math"
	"slices"
	"strings"

	"github.com/gocurator/curator/internal/proto"
)

// Read returns the reply to exists, getData, getChildren or getChildren2.
func (t *Tree) Read(op proto.Op, path string, who []Identity) (proto.Record, proto.Code) {
	if op == proto.OpExists && strings.ContainsRune(path, 0) {
		return nil, proto.BadArguments
	}
	n := t.Node(path)
	if n == nil {
		return nil, proto.NoNode
	}
	if (op != proto.OpExists || t.Rules.Version >= V39) && !Allowed(n.ACL, PermRead, who) {
		return nil, proto.NoAuth
	}
	switch op {
	case proto.OpGetData:
		return &proto.DataResponse{Data: n.Data, Stat: n.Public()}, proto.OK
	case proto.OpGetChildren:
		return &proto.NamesResponse{Names: n.List()}, proto.OK
	case proto.OpGetChildren2:
		return &proto.ChildrenResponse{Names: n.List(), Stat: n.Public()}, proto.OK
	}
	return &proto.StatResponse{Stat: n.Public()}, proto.OK
}

// MultiRead returns the reply to a multiRead. Each read succeeds or fails on its own.
func (t *Tree) MultiRead(ops []proto.MultiOp, who []Identity) (proto.Record, proto.Code) {
	results := make([]proto.MultiResult, 0, len(ops))
	for _, op := range ops {
		r, reads := op.Body.(*proto.ReadRequest)
		if !reads {
			return nil, proto.MarshallingError
		}
		body, code := t.Read(op.Op, r.Path, who)
		if code != proto.OK {
			results = append(results, proto.MultiResult{Op: proto.OpError, Code: code})
		} else {
			results = append(results, multiResult(op.Op, body))
		}
	}
	return &proto.MultiResponse{Results: results}, proto.OK
}

// AccessList returns the reply to getACL. It hides password hashes from clients without admin
// permission.
func (t *Tree) AccessList(path string, who []Identity) (proto.Record, proto.Code) {
	n := t.Node(path)
	if n == nil {
		return nil, proto.NoNode
	}
	admin := Allowed(n.ACL, permAdmin, who)
	if !admin && !Allowed(n.ACL, PermRead, who) {
		return nil, proto.NoAuth
	}
	list := slices.Clone(n.ACL)
	for i, a := range list {
		if user, _, found := strings.Cut(a.ID, ":"); found && a.Scheme == "digest" && !admin {
			list[i].ID = user + ":x" // the hash is for administrators
		}
	}
	return &proto.ACLResponse{ACL: list, Stat: n.Public()}, proto.OK
}

// EphemeralsBelow returns the reply to getEphemerals of a session.
func (t *Tree) EphemeralsBelow(session int64, prefix string) proto.Record {
	if strings.TrimSpace(prefix) == "" {
		prefix = "/"
	}
	return &proto.NamesResponse{Names: slices.DeleteFunc(t.Owned(session), func(path string) bool {
		return !strings.HasPrefix(path, prefix)
	})}
}

// NumberBelow returns the reply to getAllChildrenNumber.
func (t *Tree) NumberBelow(path string, who []Identity) (proto.Record, proto.Code) {
	n := t.Node(path)
	if n == nil {
		return nil, proto.NoNode
	}
	if !Allowed(n.ACL, PermRead, who) {
		return nil, proto.NoAuth
	}
	count := t.countBelow(path, n)
	if path == "" {
		count++ // it is below its other name
	}
	return &proto.NumberResponse{Number: int32(min(count, math.MaxInt32))}, proto.OK
}
