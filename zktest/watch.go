package zktest

import "strings"

type eventType int32

const (
	eventCreated  eventType = 1
	eventDeleted  eventType = 2
	eventChanged  eventType = 3
	eventChildren eventType = 4
)

var eventNames = map[eventType]string{
	eventCreated: "created", eventDeleted: "deleted", eventChanged: "changed", eventChildren: "children changed",
}

func (e eventType) String() string { return eventNames[e] }

// event is something that happened to a node.
type event struct {
	kind eventType
	path string
	acl  []acl // of the node: who may not read it is not told
}

// watchMode says how long a watch lasts and how far it reaches.
type watchMode int

const (
	watchOnce watchMode = iota
	watchPersistent
	watchRecursive
)

// watches are one connection's, of one kind. They end with the connection; clients set
// them again. Guarded by Server.mu.
type watches struct {
	data     map[string]watchMode // also exists
	children map[string]watchMode
}

func newWatches() watches {
	return watches{data: make(map[string]watchMode), children: make(map[string]watchMode)}
}

// hit reports whether a connection with these watches is to be told of e, once, and drops
// the watches that are used up.
func (w *watches) hit(e event) bool {
	told := false
	fire := func(m map[string]watchMode) {
		mode, found := m[e.path]
		if !found {
			return
		}
		if e.kind == eventChildren && mode == watchRecursive {
			return // it is told of the child itself
		}
		told = true
		if mode == watchOnce {
			delete(m, e.path)
		}
	}
	if e.kind != eventChildren {
		fire(w.data)
	}
	if e.kind == eventChildren || e.kind == eventDeleted {
		fire(w.children)
	}
	if told || e.kind == eventChildren {
		return told
	}
	for path, mode := range w.data {
		// The root's other name, "", is nobody's parent.
		if mode == watchRecursive && path != "" && below(e.path, path) {
			return true
		}
	}
	return false
}

// below reports whether path is under root.
func below(path, root string) bool {
	return root == "/" || strings.HasPrefix(path, root+"/")
}

// commit tells all watches of a transaction's events. s.mu is held.
func (s *Server) commit(x *txn) {
	for _, e := range x.events {
		for c := range s.conns {
			// A watch is used up even if its owner may not be told.
			if c.watches.hit(e) && allowed(e.acl, permRead, c.who) {
				c.sendEvent(e.kind, e.path)
			}
		}
	}
}

// sendEvent tells the client of an event. Server.mu is held.
func (c *conn) sendEvent(kind eventType, path string) {
	var w writer
	w.int32(xidEvent)
	w.int64(-1)
	w.int32(int32(ok))
	w.int32(int32(kind))
	w.int32(stateConnected)
	w.string(path)
	s := c.server
	s.counts.WatchEventsSent++
	s.tell(Event{Session: c.session.id, Watch: kind.String(), Path: path})
	s.put(output{to: c, frame: frame(w.buf)})
}

// Modes of addWatch.
const (
	addPersistent = 0
	addRecursive  = 1
)

// addWatch sets a watch that lasts.
func (c *conn) addWatch(r *reader, w *writer) code {
	path, how := r.string(), r.int32()
	mode := watchPersistent
	switch {
	case r.err != nil || how != addPersistent && how != addRecursive:
		return errMarshalling
	case how == addRecursive:
		mode = watchRecursive
	}
	c.watches.data[path] = mode
	c.watches.children[path] = mode
	w.int32(0) // an error code of its own, always OK
	return ok
}

// setWatches sets watches again after a reconnect, and tells at once of what was missed.
func (c *conn) setWatches(op Op, r *reader) code {
	nodes := c.server.tree
	seen := r.int64()
	data, exist, child := r.strings(), r.strings(), r.strings()
	var persistent, recursive []string
	if op == OpSetWatches2 {
		persistent, recursive = r.strings(), r.strings()
	}
	if r.err != nil {
		return errMarshalling
	}
	for _, path := range data {
		switch n := nodes.node(path); {
		case n == nil:
			c.sendEvent(eventDeleted, path)
		case n.stat.Mzxid > seen:
			c.sendEvent(eventChanged, path)
		default:
			c.watches.data[path] = watchOnce
		}
	}
	for _, path := range exist {
		if nodes.node(path) != nil {
			c.sendEvent(eventCreated, path)
		} else {
			c.watches.data[path] = watchOnce
		}
	}
	for _, path := range child {
		switch n := nodes.node(path); {
		case n == nil:
			c.sendEvent(eventDeleted, path)
		case n.stat.Pzxid > seen:
			c.sendEvent(eventChildren, path)
		default:
			c.watches.children[path] = watchOnce
		}
	}
	for _, path := range persistent {
		c.watches.data[path] = watchPersistent
		c.watches.children[path] = watchPersistent
	}
	for _, path := range recursive {
		c.watches.data[path] = watchRecursive
		c.watches.children[path] = watchRecursive
	}
	return ok
}

// Kinds of watches in removeWatches and checkWatches.
const (
	watcherChildren = 1
	watcherData     = 2
	watcherAny      = 3
)

// dropWatches removes watches, or only says whether there are any to remove.
func (c *conn) dropWatches(op Op, r *reader) code {
	path, kind := r.string(), r.int32()
	if r.err != nil || kind < watcherChildren || kind > watcherAny {
		return errMarshalling
	}
	_, data := c.watches.data[path]
	_, children := c.watches.children[path]
	data = data && kind != watcherChildren
	children = children && kind != watcherData
	if !data && !children {
		return errNoWatcher
	}
	if op == OpRemoveWatches {
		if data {
			delete(c.watches.data, path)
		}
		if children {
			delete(c.watches.children, path)
		}
	}
	return ok
}
