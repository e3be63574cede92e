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
	acl  []proto.ACL // of the node: who may not read it is not told
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

// watchIndex finds the connections that watch a path, so that an event costs nothing for all
// others. Guarded by Server.mu.
type watchIndex struct {
	direct    map[string]map[*conn]struct{} // that watch the path itself, in whatever way
	recursive map[string]map[*conn]struct{} // that watch all that is below the path, too
	told      uint64                        // number of the event that is being told
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

// watch sets a watch: in c.watches.data, c.watches.children, or both.
func (c *conn) watch(path string, mode watchMode, tables ...map[string]watchMode) {
	for _, table := range tables {
		table[path] = mode
	}
	c.index(path)
}

// unwatch removes a watch.
func (c *conn) unwatch(path string, tables ...map[string]watchMode) {
	for _, table := range tables {
		delete(table, path)
	}
	c.index(path)
}

// unwatchAll removes all watches of a connection that has ended.
func (c *conn) unwatchAll() {
	w := c.watches
	c.watches = newWatches()
	for _, table := range []map[string]watchMode{w.data, w.children} {
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
	put(c.server.watching.recursive, path, c, onData && data == watchRecursive)
}

// fire reports whether a connection is to be told of what happened to a path that it watches, and
// drops the watches that are used up.
func (c *conn) fire(e event) (told bool) {
	look := func(table map[string]watchMode) {
		mode, found := table[e.path]
		if !found {
			return
		}
		if e.kind == eventChildren && mode == watchRecursive {
			return // it is told of the child itself
		}
		told = true
		if mode == watchOnce {
			c.unwatch(e.path, table)
		}
	}
	if e.kind != eventChildren {
		look(c.watches.data)
	}
	if e.kind == eventChildren || e.kind == eventDeleted {
		look(c.watches.children)
	}
	return told
}

// notify tells all watches of a transaction's events, each connection once of each. s.mu is held.
func (s *Server) notify(events []event) {
	for _, e := range events {
		s.watching.told++
		for c := range s.watching.direct[e.path] {
			if c.fire(e) {
				s.tellOnce(c, e, e.path)
			}
		}
		if e.kind == eventChildren || len(s.watching.recursive) == 0 {
			continue
		}
		for path := e.path; path != "/"; {
			path, _ = split(path)
			for c := range s.watching.recursive[path] {
				s.tellOnce(c, e, s.cfg.told(e, path))
			}
		}
	}
}

// tellOnce tells c of an event, with this path, unless that was done, or c may not know.
func (s *Server) tellOnce(c *conn, e event, path string) {
	if c.told == s.watching.told {
		return
	}
	c.told = s.watching.told
	// A watch is used up even if its owner may not be told.
	if allowed(e.acl, permRead, c.who) {
		c.sendEvent(e.kind, path)
	}
}

// below reports whether path is under root.
func below(path, root string) bool {
	return root == "/" || strings.HasPrefix(path, root+"/")
}

// sendEvent tells the client of an event. Server.mu is held.
func (c *conn) sendEvent(kind eventType, path string) {
	header := proto.ReplyHeader{Xid: proto.XidEvent, Zxid: -1}
	event := proto.WatcherEvent{Type: int32(kind), State: proto.StateConnected, Path: path}
	s := c.server
	s.counts.WatchEventsSent++
	s.tell(Event{Session: c.session.id, Watch: kind.String(), Path: path})
	s.put(output{to: c, frame: proto.Seal(event.Append(header.Append(proto.Begin(28 + len(path)))))})
}

// addWatch sets a watch that lasts.
func (c *conn) addWatch(r *proto.WatchRequest) (proto.Record, proto.Code) {
	var mode watchMode
	switch r.Kind {
	case proto.WatchPersistent:
		mode = watchPersistent
	case proto.WatchRecursive:
		mode = watchRecursive
	default:
		return nil, proto.MarshallingError
	}
	c.watch(r.Path, mode, c.watches.data, c.watches.children)
	return &proto.ErrorResponse{}, proto.OK
}

// setWatches sets watches again after a reconnect, and tells at once of what was missed.
func (c *conn) setWatches(r *proto.SetWatchesRequest) proto.Code {
	nodes := c.server.tree
	for _, path := range r.Data {
		switch n := nodes.node(path); {
		case n == nil:
			c.sendEvent(eventDeleted, path)
		case n.stat.Mzxid > r.Zxid:
			c.sendEvent(eventChanged, path)
		default:
			c.watch(path, watchOnce, c.watches.data)
		}
	}
	for _, path := range r.Exist {
		if nodes.node(path) != nil {
			c.sendEvent(eventCreated, path)
		} else {
			c.watch(path, watchOnce, c.watches.data)
		}
	}
	for _, path := range r.Child {
		switch n := nodes.node(path); {
		case n == nil:
			c.sendEvent(eventDeleted, path)
		case n.stat.Pzxid > r.Zxid:
			c.sendEvent(eventChildren, path)
		default:
			c.watch(path, watchOnce, c.watches.children)
		}
	}
	for _, path := range r.Persistent {
		c.watch(path, watchPersistent, c.watches.data, c.watches.children)
	}
	for _, path := range r.Recursive {
		c.watch(path, watchRecursive, c.watches.data, c.watches.children)
	}
	return proto.OK
}

// dropWatches removes watches, or only says whether there are any to remove.
func (c *conn) dropWatches(op Op, r *proto.WatchRequest) proto.Code {
	if r.Kind < proto.WatcherChildren || r.Kind > proto.WatcherAny {
		return proto.MarshallingError
	}
	_, data := c.watches.data[r.Path]
	_, children := c.watches.children[r.Path]
	data = data && r.Kind != proto.WatcherChildren
	children = children && r.Kind != proto.WatcherData
	if !data && !children {
		return proto.NoWatcher
	}
	if op == OpRemoveWatches {
		if data {
			c.unwatch(r.Path, c.watches.data)
		}
		if children {
			c.unwatch(r.Path, c.watches.children)
		}
	}
	return proto.OK
}
