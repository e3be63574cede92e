package zktest

import (
	"math"
	"slices"
	"strings"

	"github.com/gocurator/curator/internal/proto"
)

// read1 is a request that is no transaction.
func (c *conn) read1(op Op, body proto.Record) (proto.Record, proto.Code) {
	switch op {
	case OpPing:
		return nil, proto.OK
	case OpWhoAmI:
		return c.whoAmI(), proto.OK
	}
	switch r := body.(type) {
	case *proto.ReadRequest:
		return c.look(op, r.Path, r.Watch)
	case *proto.PathRequest:
		switch op {
		case OpGetACL:
			return c.getACL(r.Path)
		case OpGetEphemerals:
			return c.getEphemerals(r.Path), proto.OK
		case OpGetChildrenNumber:
			return c.countBelow(r.Path)
		}
		return &proto.PathResponse{Path: r.Path}, proto.OK // a sync: there is nothing to wait for
	case *proto.MultiRequest:
		return c.multiRead(r.Ops)
	case *proto.AuthRequest:
		return nil, c.auth(r)
	case *proto.SASLToken:
		return c.authenticate(r.Token)
	case *proto.SetWatchesRequest:
		return nil, c.setWatches(r)
	case *proto.WatchRequest:
		if op == OpAddWatch {
			return c.addWatch(r)
		}
		return nil, c.dropWatches(op, r)
	}
	return nil, proto.MarshallingError
}

// multiRead answers each of several reads on its own. It sets no watches, even if asked to.
func (c *conn) multiRead(ops []proto.MultiOp) (proto.Record, proto.Code) {
	results := make([]proto.MultiResult, 0, len(ops))
	for _, op := range ops {
		r, reads := op.Body.(*proto.ReadRequest)
		if !reads {
			return nil, proto.MarshallingError
		}
		body, code := c.look(Op(op.Op), r.Path, false)
		if code != proto.OK {
			results = append(results, proto.MultiResult{Op: proto.OpError, Code: code})
		} else {
			results = append(results, multiResult(op.Op, body))
		}
	}
	return &proto.MultiResponse{Results: results}, proto.OK
}

func (c *conn) look(op Op, path string, sets bool) (proto.Record, proto.Code) {
	if op == OpExists && strings.ContainsRune(path, 0) {
		return nil, proto.BadArguments
	}
	n := c.server.tree.node(path)
	if n == nil {
		if sets && op == OpExists {
			c.watch(path, watchOnce, c.watches.data)
		}
		return nil, proto.NoNode
	}
	if (op != OpExists || c.server.cfg.version >= V3_9) && !allowed(n.acl, permRead, c.who) {
		return nil, proto.NoAuth
	}
	if sets && (op == OpGetChildren || op == OpGetChildren2) {
		c.watch(path, watchOnce, c.watches.children)
	} else if sets {
		c.watch(path, watchOnce, c.watches.data)
	}
	switch op {
	case OpGetData:
		return &proto.DataResponse{Data: n.data, Stat: proto.Stat(n.public())}, proto.OK
	case OpGetChildren:
		return &proto.NamesResponse{Names: n.list()}, proto.OK
	case OpGetChildren2:
		return &proto.ChildrenResponse{Names: n.list(), Stat: proto.Stat(n.public())}, proto.OK
	}
	return &proto.StatResponse{Stat: proto.Stat(n.public())}, proto.OK
}

func (c *conn) getACL(path string) (proto.Record, proto.Code) {
	n := c.server.tree.node(path)
	if n == nil {
		return nil, proto.NoNode
	}
	admin := allowed(n.acl, permAdmin, c.who)
	if !admin && !allowed(n.acl, permRead, c.who) {
		return nil, proto.NoAuth
	}
	list := slices.Clone(n.acl)
	for i, a := range list {
		if user, _, found := strings.Cut(a.ID, ":"); found && a.Scheme == "digest" && !admin {
			list[i].ID = user + ":x" // the hash is for administrators
		}
	}
	return &proto.ACLResponse{ACL: list, Stat: proto.Stat(n.public())}, proto.OK
}

func (c *conn) getEphemerals(prefix string) proto.Record {
	if strings.TrimSpace(prefix) == "" {
		prefix = "/"
	}
	return &proto.NamesResponse{Names: slices.DeleteFunc(c.server.tree.owned(c.session.id), func(path string) bool {
		return !strings.HasPrefix(path, prefix)
	})}
}

func (c *conn) countBelow(path string) (proto.Record, proto.Code) {
	n := c.server.tree.node(path)
	if n == nil {
		return nil, proto.NoNode
	}
	if !allowed(n.acl, permRead, c.who) {
		return nil, proto.NoAuth
	}
	count := c.server.tree.countBelow(path, n)
	if path == "" {
		count++ // it is below its other name
	}
	return &proto.NumberResponse{Number: int32(min(count, math.MaxInt32))}, proto.OK
}

func (c *conn) whoAmI() proto.Record {
	r := &proto.WhoAmIResponse{}
	for _, who := range c.who {
		r.Identities = append(r.Identities, proto.Identity{Scheme: who.scheme, User: who.user()})
	}
	return r
}

func (c *conn) auth(r *proto.AuthRequest) proto.Code {
	var who identity
	if c.server.refuses&credentials != 0 {
		return proto.AuthFailed
	}
	switch r.Scheme {
	case "digest":
		who = digest(string(r.Cred))
		if who.id == c.server.cfg.superDigest {
			c.who = addNew(c.who, super)
		}
	case "ip":
		who = c.who[0]
	default:
		return proto.AuthFailed
	}
	c.who = addNew(c.who, who)
	return proto.OK
}
