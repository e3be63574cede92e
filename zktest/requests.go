package zktest

import (
	"math"
	"slices"
	"strings"
)

const (
	xidEvent = -1

	stateConnected = 3
)

// read1 is a request that is no transaction.
func (c *conn) read1(op Op, r *reader, w *writer) code {
	switch op {
	case OpPing:
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

// multiRead answers each of several reads on its own. It sets no watches, even if asked to.
func (c *conn) multiRead(r *reader, w *writer) code {
	for {
		op, done := Op(r.int32()), r.bool()
		r.int32()
		if r.err != nil {
			return errMarshalling
		}
		if done {
			break
		}
		path := r.string()
		r.bool()
		if r.err != nil || op != OpGetData && op != OpGetChildren {
			return errMarshalling
		}
		var body writer
		if code := c.look(op, path, false, &body); code != ok {
			w.failure(code)
		} else {
			w.result(op, ok, body.buf)
		}
	}
	w.results()
	return ok
}

func (c *conn) look(op Op, path string, sets bool, w *writer) code {
	if op == OpExists && strings.ContainsRune(path, 0) {
		return errBadArguments
	}
	n := c.server.tree.node(path)
	if n == nil {
		if sets && op == OpExists {
			c.watch(path, watchOnce, c.watches.data)
		}
		return errNoNode
	}
	if op != OpExists && !allowed(n.acl, permRead, c.who) {
		return errNoAuth
	}
	if sets && (op == OpGetChildren || op == OpGetChildren2) {
		c.watch(path, watchOnce, c.watches.children)
	} else if sets {
		c.watch(path, watchOnce, c.watches.data)
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
	count := c.server.tree.countBelow(path, n)
	if path == "" {
		count++ // it is below its other name
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
		if who.id == c.server.cfg.superDigest {
			c.who = addNew(c.who, super)
		}
	case "ip":
		who = c.who[0]
	default:
		return errAuthFailed
	}
	c.who = addNew(c.who, who)
	return ok
}
