package wire

import (
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/zktest/internal/tree"
)

// readOnly answers a request that is no transaction.
func (c *Conn) readOnly(op proto.Op, body proto.Record) (proto.Record, proto.Code) {
	switch op {
	case proto.OpPing:
		return nil, proto.OK
	case proto.OpWhoAmI:
		return c.whoAmI(), proto.OK
	}
	switch r := body.(type) {
	case *proto.ReadRequest:
		return c.readNode(op, r.Path, r.Watch)
	case *proto.PathRequest:
		return c.readPath(op, r.Path)
	case *proto.MultiRequest:
		return c.server.Tree.MultiRead(r.Ops, c.who)
	case *proto.AuthRequest:
		return nil, c.auth(r)
	case *proto.SASLToken:
		return c.authenticate(r.Token)
	case *proto.SetWatchesRequest:
		return nil, c.setWatches(r)
	case *proto.WatchRequest:
		if op == proto.OpAddWatch {
			return c.add(r)
		}
		return nil, c.drop(op, r)
	}
	return nil, proto.MarshallingError
}

// readNode reads a node, and sets a watch of it if sets says so.
func (c *Conn) readNode(op proto.Op, path string, sets bool) (proto.Record, proto.Code) {
	body, code := c.server.Tree.Read(op, path, c.who)
	switch {
	case !sets || code != proto.OK && (code != proto.NoNode || op != proto.OpExists):
	case op == proto.OpGetChildren || op == proto.OpGetChildren2:
		c.watch(path, watchOnce, c.children)
	default:
		c.watch(path, watchOnce, c.data)
	}
	return body, code
}

// readPath reads what only a path names.
func (c *Conn) readPath(op proto.Op, path string) (proto.Record, proto.Code) {
	t := c.server.Tree
	switch op {
	case proto.OpGetACL:
		return t.AccessList(path, c.who)
	case proto.OpGetEphemerals:
		return t.EphemeralsBelow(c.session.ID, path), proto.OK
	case proto.OpGetChildrenNumber:
		return t.NumberBelow(path, c.who)
	}
	return nil, proto.MarshallingError
}

func (c *Conn) whoAmI() proto.Record {
	r := &proto.WhoAmIResponse{}
	for _, who := range c.who {
		r.Identities = append(r.Identities, proto.Identity{Scheme: who.Scheme, User: who.User()})
	}
	return r
}

// auth adds the identity of credentials.
func (c *Conn) auth(r *proto.AuthRequest) proto.Code {
	var who tree.Identity
	if c.server.refuses&Credentials != 0 {
		return proto.AuthFailed
	}
	switch r.Scheme {
	case "digest":
		who = tree.Credentials(string(r.Cred))
		if who.ID == c.server.cfg.SuperDigest {
			c.who = tree.AddNew(c.who, tree.Super)
		}
	case "ip":
		who = c.who[0]
	default:
		return proto.AuthFailed
	}
	c.who = tree.AddNew(c.who, who)
	return proto.OK
}

// authenticate answers a token of SASL.
func (c *Conn) authenticate(token []byte) (proto.Record, proto.Code) {
	s := c.server
	switch {
	case s.refuses&Credentials != 0:
		return nil, proto.AuthFailed
	case s.cfg.SASLUsers == nil:
		return &proto.SASLToken{}, proto.OK
	case len(token) == 0:
		s.challenges++
		return c.sasl.challenge(c.session.ID, s.challenges), proto.OK
	}
	body, code := c.sasl.check(token, &s.cfg.Security)
	if code == proto.OK {
		c.who = tree.AddNew(c.who, tree.Identity{Scheme: "sasl", ID: c.sasl.user})
	}
	return body, code
}

// setWatches sets watches again after a reconnect, and sends at once the events that the client has
// missed.
func (c *Conn) setWatches(r *proto.SetWatchesRequest) proto.Code {
	if r.Data == nil || r.Exist == nil || r.Child == nil {
		return proto.MarshallingError
	}
	c.setAgain(r.Data, c.data, func(n *tree.Node) tree.EventType {
		return missed(n, n != nil && n.Stat.Mzxid > r.Zxid, tree.EventChanged)
	})
	c.setAgain(r.Exist, c.data, func(n *tree.Node) tree.EventType {
		if n == nil {
			return 0
		}
		return tree.EventCreated
	})
	c.setAgain(r.Child, c.children, func(n *tree.Node) tree.EventType {
		return missed(n, n != nil && n.Stat.Pzxid > r.Zxid, tree.EventChildren)
	})
	for _, path := range r.Persistent {
		c.watchLonger(path, watchPersistent)
	}
	for _, path := range r.Recursive {
		c.watchLonger(path, watchRecursive)
	}
	return proto.OK
}

// setAgain sets a watch on each path, or sends the event that the client has missed, which is 0 if
// it has missed none.
func (c *Conn) setAgain(paths []string, table map[string]watchModes, missed func(*tree.Node) tree.EventType) {
	for _, path := range paths {
		n := c.server.Tree.Node(path)
		kind := missed(n)
		switch {
		case kind == 0:
			c.watch(path, watchOnce, table)
		case n == nil || c.server.cfg.Version < tree.V39 || tree.Allowed(n.ACL, tree.PermRead, c.who):
			c.sendEvent(noZxid, kind, path)
		}
	}
}

// missed is the event of a node that was deleted, or that has changed since the client has seen it.
func missed(n *tree.Node, changed bool, kind tree.EventType) tree.EventType {
	switch {
	case n == nil:
		return tree.EventDeleted
	case changed:
		return kind
	}
	return 0
}
