package zktest

import (
	"strings"

	"github.com/gocurator/curator/internal/proto"
)

type eventType int32

const (
	eventCreated  = eventType(proto.EventCreated)
	eventDeleted  = eventType(proto.EventDeleted)
	eventChanged  = eventType(proto.EventDataChanged)
	eventChildren = eventType(proto.EventChildrenChanged)
)

var eventNames = map[eventType]string{
	eventCreated: "created", eventDeleted: "deleted", eventChanged: "changed", eventChildren: "children changed",
}

func (e eventType) String() string { return eventNames[e] }

// event is something that happened to a node.
type event struct {
	kind eventType
	path string
	acl  []proto.ACL // of the node: who may not read it gets no event
}

// watchModes say how long the watches of a path last and how far they reach. There is at least one.
type watchModes int

const (
	watchOnce watchModes = 1 << iota
	watchPersistent
	watchRecursive
	watchAny watchModes = 1<<iota - 1
)

// watches are one connection's, of one kind. They end with the connection; clients set
// them again. Guarded by Server.mu.
type watches struct {
	data     map[string]watchModes // also exists
	children map[string]watchModes
}

func newWatches() watches {
	return watches{data: make(map[string]watchModes), children: make(map[string]watchModes)}
}

// watchIndex finds the connections that watch a path, so that an event costs nothing for all
// others. Guarded by Server.mu.
type watchIndex struct {
	direct    map[string]map[*conn]struct{} // that watch the path itself, in whatever way
	recursive map[string]map[*conn]struct{} // that watch all that is below the path, too
	current   uint64                        // number of the event that is being sent
}

func newWatchIndex() watchIndex {
	return watchIndex{direct: make(map[string]map[*conn]struct{}), recursive: make(map[string]map[*conn]struct{})}
}

// put notes whether a connection belongs to a path.
func put(index map[string]map[*conn]struct{}, path string, c *conn, belongs bool) {
	conns := index[path]
	switch {
	case belongs && conns == nil:
		index[path] = map[*conn]struct{}{c: {}}
	case belongs:
		conns[c] = struct{}{}
	case conns != nil:
		delete(conns, c)
		if len(conns) == 0 {
			delete(index, path)
		}
	}
}

// watch sets a watch: in c.watches.data, c.watches.children, or both. In 3.8 the later watch of a path replaces the earlier one.
func (c *conn) watch(path string, mode watchModes, tables ...map[string]watchModes) {
	for _, table := range tables {
		if c.server.cfg.version >= V3_9 {
			table[path] |= mode
		} else {
			table[path] = mode
		}
	}
	c.index(path)
}

// watchLonger sets a watch that lasts. What happens to children is known to a recursive watch anyway.
func (c *conn) watchLonger(path string, mode watchModes) {
	if mode == watchRecursive && c.server.cfg.version >= V3_9 {
		c.watch(path, mode, c.watches.data)
	} else {
		c.watch(path, mode, c.watches.data, c.watches.children)
	}
}

// unwatch removes watches of a path that have one of these modes. It reports whether there were any.
func (c *conn) unwatch(path string, table map[string]watchModes, modes watchModes) bool {
	removed := table[path] & modes
	if left := table[path] &^ modes; left != 0 {
		table[path] = left
	} else {
		delete(table, path)
	}
	c.index(path)
	return removed != 0
}

// unwatchAll removes all watches of a connection that has ended.
func (c *conn) unwatchAll() {
	w := c.watches
	c.watches = newWatches()
	for _, table := range []map[string]watchModes{w.data, w.children} {
		for path := range table {
			c.index(path)
		}
	}
}

// index brings the server's index up to date with c's watches of a path.
func (c *conn) index(path string) {
	data, onData := c.watches.data[path]
	_, onChildren := c.watches.children[path]
	put(c.server.watching.direct, path, c, onData || onChildren)
	put(c.server.watching.recursive, path, c, onData && data&watchRecursive != 0)
}

// fire reports whether a connection gets an event of what happened to a path that it watches, and
// drops the watches that are used up.
func (c *conn) fire(e event) (notified bool) {
	look := func(table map[string]watchModes) {
		modes, found := table[e.path]
		if !found {
			return
		}
		if e.kind == eventChildren && modes == watchRecursive {
			return // it gets the event of the child itself
		}
		notified = true
		if modes&watchOnce != 0 {
			c.unwatch(e.path, table, watchOnce)
		}
	}
	if e.kind != eventChildren {
		look(c.watches.data)
	}
	if e.kind == eventChildren || e.kind == eventDeleted {
		look(c.watches.children)
	}
	return notified
}

// notify sends a transaction's events to those who watch, each event once to each connection. s.mu is held.
func (s *Server) notify(zxid int64, events []event) {
	if s.cfg.version < V3_9 {
		zxid = noZxid
	}
	for _, e := range events {
		s.watching.current++
		for c := range s.watching.direct[e.path] {
			if c.fire(e) {
				s.notifyOnce(c, zxid, e, e.path)
			}
		}
		if e.kind == eventChildren || len(s.watching.recursive) == 0 {
			continue
		}
		for path := e.path; path != "/"; {
			path, _ = split(path)
			for c := range s.watching.recursive[path] {
				s.notifyOnce(c, zxid, e, s.cfg.eventPath(e, path))
			}
		}
	}
}

// notifyOnce sends c an event, with this path, unless that was done, or c may not read the node.
func (s *Server) notifyOnce(c *conn, zxid int64, e event, path string) {
	if c.notified == s.watching.current {
		return
	}
	c.notified = s.watching.current
	// A watch is used up even if its owner may not read the node.
	if allowed(e.acl, permRead, c.who) {
		c.sendEvent(zxid, e.kind, path)
	}
}

// below reports whether path is under root.
func below(path, root string) bool {
	return root == "/" || strings.HasPrefix(path, root+"/")
}

// noZxid is in the header of an event that does not name its transaction.
const noZxid = -1

// sendEvent sends the client an event. Server.mu is held.
func (c *conn) sendEvent(zxid int64, kind eventType, path string) {
	header := proto.ReplyHeader{Xid: proto.XidEvent, Zxid: zxid}
	event := proto.WatcherEvent{Type: int32(kind), State: proto.StateConnected, Path: path}
	s := c.server
	s.counts.WatchEventsSent++
	s.traceEvent(Event{Session: c.session.id, Watch: kind.String(), Path: path})
	s.put(output{to: c, frame: proto.Seal(event.Append(header.Append(proto.Begin(28 + len(path)))))})
}

// addWatch sets a watch that lasts.
func (c *conn) addWatch(r *proto.WatchRequest) (proto.Record, proto.Code) {
	var mode watchModes
	switch r.Kind {
	case proto.WatchPersistent:
		mode = watchPersistent
	case proto.WatchRecursive:
		mode = watchRecursive
	default:
		return nil, proto.MarshallingError
	}
	c.watchLonger(r.Path, mode)
	return &proto.ErrorResponse{}, proto.OK
}

// setWatches sets watches again after a reconnect, and sends events at once for what was missed.
func (c *conn) setWatches(r *proto.SetWatchesRequest) proto.Code {
	nodes := c.server.tree
	for _, path := range r.Data {
		switch n := nodes.node(path); {
		case n == nil:
			c.sendEvent(noZxid, eventDeleted, path)
		case n.stat.Mzxid > r.Zxid:
			c.sendMissed(n, eventChanged, path)
		default:
			c.watch(path, watchOnce, c.watches.data)
		}
	}
	for _, path := range r.Exist {
		if n := nodes.node(path); n != nil {
			c.sendMissed(n, eventCreated, path)
		} else {
			c.watch(path, watchOnce, c.watches.data)
		}
	}
	for _, path := range r.Child {
		switch n := nodes.node(path); {
		case n == nil:
			c.sendEvent(noZxid, eventDeleted, path)
		case n.stat.Pzxid > r.Zxid:
			c.sendMissed(n, eventChildren, path)
		default:
			c.watch(path, watchOnce, c.watches.children)
		}
	}
	for _, path := range r.Persistent {
		c.watchLonger(path, watchPersistent)
	}
	for _, path := range r.Recursive {
		c.watchLonger(path, watchRecursive)
	}
	return proto.OK
}

// sendMissed sends an event for what has happened to a node before a watch of it is set again. Server.mu is held.
func (c *conn) sendMissed(n *node, kind eventType, path string) {
	if c.server.cfg.version < V3_9 || allowed(n.acl, permRead, c.who) {
		c.sendEvent(noZxid, kind, path)
	}
}

// dropWatches removes watches, or only says whether there are any to remove.
func (c *conn) dropWatches(op Op, r *proto.WatchRequest) proto.Code {
	data, children, known := watchAny, watchAny, true
	switch {
	case r.Kind == proto.WatcherAny:
	case c.server.cfg.version < V3_9: // all modes of one table
		known = r.Kind == proto.WatcherChildren || r.Kind == proto.WatcherData
		if r.Kind == proto.WatcherChildren {
			data = 0
		} else {
			children = 0
		}
	default: // one mode
		data, children, known = watchesOfKind(r.Kind)
	}
	if !known {
		return proto.MarshallingError
	}
	if c.watches.data[r.Path]&data == 0 && c.watches.children[r.Path]&children == 0 {
		return proto.NoWatcher
	}
	if op == OpRemoveWatches {
		c.unwatch(r.Path, c.watches.data, data)
		c.unwatch(r.Path, c.watches.children, children)
	}
	return proto.OK
}

// watchesOfKind says which modes 3.9 removes from each table.
func watchesOfKind(kind int32) (data, children watchModes, known bool) {
	switch kind {
	case proto.WatcherChildren:
		return 0, watchOnce, true
	case proto.WatcherData:
		return watchOnce, 0, true
	case proto.WatcherPersistent:
		return watchPersistent, watchPersistent, true
	case proto.WatcherRecursive:
		return watchRecursive, 0, true
	}
	return 0, 0, false
}
