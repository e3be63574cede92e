package engine

import (
	"sync"

	"github.com/go-zookeeper/zk"
)

// watches are all watches of one connection: a row for each path.
//
// A server of ZooKeeper 3.8 keeps one mode for a connection and a path, and the later request wins: a
// read with a watch would turn a persistent watch into one that fires once, and a persistent watch a
// recursive one into one that does not look below. Newer servers keep the modes apart, and may send two events about a list of
// children. This is what the server is asked for at one path:
//
//	wanted                              asked for
//	a watch that fires once             a watch with the read
//	the same beside a persistent watch  nothing: it fires with an event of that one, which has them all
//	a list beside a recursive watch     a watch with the read: a recursive watch has no events about lists
//	a persistent watch                  a persistent one, or a recursive one if anybody has asked for that here
//	a recursive watch                   a recursive one: events about the list follow from those about children
//	nothing any more                    the removal of the persistent watch, if there is one
//
// Servers have no events about children that the client may not read. So what follows from those about children is less than
// what a watch of the list has, and such a watch has to look again when the server's becomes recursive.
type watches struct {
	link *Connection

	// order is held from the decision what to request until the request has its place in the
	// connection's order. Nothing that blocks happens meanwhile.
	order sync.Mutex

	mu   sync.Mutex          // guards what follows; not held while a function of a user is called
	rows map[string]*watched // by path on the server; each has something
}

// watched is what is watched at one path. Guarded by watches.mu.
type watched struct {
	once     [2]*sharedWatch // by kind
	views    []viewWatch     // of the reads of views
	standing *standing       // nil: there is no persistent watch
}

// standing is the persistent watch that the server has at one path, or is about to have.
type standing struct {
	members [2][]*PersistentWatch // by mode; replaced, never changed
	pending int                   // requests that are not answered; positive while has is noWatch
	asked   Mode                  // of the next request: Tree if it was asked for, and not refused
	has     Mode                  // of the server's
	leaving bool                  // it is being removed, unless somebody comes
}

// noWatch is the mode of a watch that the server does not have.
const noWatch Mode = -1

func (s *standing) needed() bool {
	return len(s.members[Node])+len(s.members[Tree]) > 0 || s.pending > 0
}

// kinds is a set of [WatchKind].
type kinds uint8

const (
	onlyData kinds = 1 << WatchData
	onlyList kinds = 1 << WatchChildren
	anyKind        = onlyData | onlyList
)

// endedBy are the watches that an event ends.
var endedBy = map[zk.EventType]kinds{
	zk.EventNodeCreated:         onlyData,
	zk.EventNodeDataChanged:     onlyData,
	zk.EventNodeChildrenChanged: onlyList,
	zk.EventNodeDeleted:         anyKind,
}

// row is the row of a path, which is made if there is none. ws.mu is held.
func (ws *watches) row(path string) *watched {
	r := ws.rows[path]
	if r == nil {
		if ws.rows == nil {
			ws.rows = make(map[string]*watched)
		}
		r = new(watched)
		ws.rows[path] = r
	}
	return r
}

// request reports whether the server has to be asked for a watch that fires once. As long as a persistent watch is
// not answered the server may have, and keep, one that is not recursive, and that has events about lists.
func (r *watched) request(kind WatchKind) bool {
	return r.standing == nil || kind == WatchChildren && r.standing.has == Tree
}

// fires reports whether there are watches that fire once.
func (r *watched) fires() bool {
	return r.once[WatchData] != nil || r.once[WatchChildren] != nil || len(r.views) > 0
}

// begin returns the watch that a read is about to set, and whether the server has to be asked for it. It is asked also if it has
// the watch. That changes nothing, unless the server has dropped it for an event that the client may not see.
// Between begin and settle the watch cannot miss an event, as it is in the table before the request is sent.
func (ws *watches) begin(path string, kind WatchKind) (w *sharedWatch, request bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	r := ws.row(path)
	if r.once[kind] == nil {
		r.once[kind] = &sharedWatch{in: ws, done: make(chan struct{})}
	}
	w = r.once[kind]
	w.setting++
	return w, r.request(kind)
}

// settle says how the read that begin was for has ended.
func (ws *watches) settle(path string, kind WatchKind, w *sharedWatch, armed bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.setting--
	w.armed = w.armed || armed
	if r := ws.rows[path]; r != nil && r.once[kind] == w && !w.armed && w.setting == 0 {
		r.once[kind] = nil
		ws.reviewLocked(path)
	}
}

// join adds a watch to its path's, and returns the mode to request. ws.order is held.
func (ws *watches) join(w *PersistentWatch) Mode {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	r := ws.row(w.path)
	if r.standing == nil {
		r.standing = &standing{has: noWatch}
	}
	s := r.standing
	old := s.members[w.mode]
	s.members[w.mode] = append(old[:len(old):len(old)], w)
	s.pending++
	s.asked = max(s.asked, w.mode)
	return s.asked
}

// joined notes how a request that join was for has ended.
func (ws *watches) joined(w *PersistentWatch, mode Mode, err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	r := ws.rows[w.path]
	if r == nil || r.standing == nil {
		return // the connection has ended
	}
	s := r.standing
	s.pending--
	if err == nil {
		s.has = max(s.has, mode)
		if mode == Tree { // the server may have forgotten the watch of the list
			ws.fireLocked(replaced(w.path), onlyList)
		}
	} else {
		s.drop(w)
		if s.pending == 0 {
			s.asked = max(s.has, Node)
		}
		if s.has == noWatch {
			// Whoever has relied on it for a watch that fires once must look again, also if another request is under way.
			ws.fireLocked(replaced(w.path), anyKind)
		}
	}
	ws.reviewLocked(w.path)
}

// leave takes a watch away.
func (ws *watches) leave(w *PersistentWatch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if r := ws.rows[w.path]; r != nil && r.standing != nil {
		r.standing.drop(w)
		ws.reviewLocked(w.path)
	}
}

func (s *standing) drop(w *PersistentWatch) {
	var rest []*PersistentWatch
	for _, m := range s.members[w.mode] {
		if m != w {
			rest = append(rest, m)
		}
	}
	s.members[w.mode] = rest
}

// reviewLocked sees to a persistent watch that nobody needs any more, and to an empty row. ws.mu is held.
func (ws *watches) reviewLocked(path string) {
	r := ws.rows[path]
	if r == nil {
		return
	}
	if s := r.standing; s != nil && !s.needed() {
		switch {
		case s.has == noWatch:
			r.standing = nil // the server refused
		case !r.fires() && !s.leaving:
			s.leaving = true
			ws.link.session.core.background(func() { ws.remove(path, s) }) // it does not wait
		}
	}
	if r.standing == nil && !r.fires() {
		delete(ws.rows, path)
	}
}

// remove takes a persistent watch from the server, unless somebody needs it by now.
func (ws *watches) remove(path string, s *standing) {
	ws.order.Lock()
	defer ws.order.Unlock()
	ws.mu.Lock()
	s.leaving = false
	r := ws.rows[path]
	gone := r != nil && r.standing == s && !s.needed() && !r.fires()
	if gone {
		delete(ws.rows, path)
	}
	ws.mu.Unlock()
	if gone {
		post(ws.link, askRemoveWatch(path)) // that there is none (-121) is fine as well
	}
}

// notify runs on the connection's goroutine. Those that stay are first.
func (ws *watches) notify(event zk.Event) {
	found, list, parents := ws.covering(event)
	for _, w := range found {
		w.notify(event)
	}
	for _, w := range parents {
		w.notify(list)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.fireLocked(event, endedBy[event.Type])
	if list.Path != "" {
		ws.fireLocked(list, onlyList)
	}
}

// fireLocked ends watches of some kinds at the event's path. ws.mu is held.
func (ws *watches) fireLocked(event zk.Event, set kinds) {
	r := ws.rows[event.Path]
	if r == nil {
		return
	}
	for kind, w := range r.once {
		if w != nil && set&(1<<kind) != 0 {
			r.once[kind] = nil
			w.fire(event)
		}
	}
	r.useUp(set, func(v *view) bool { return v.fire(event) })
	ws.reviewLocked(event.Path)
}

// covering returns the persistent watches that an event concerns, and, if the server does not send that, the event about the
// parent's list of children that follows from it, with those that it concerns.
func (ws *watches) covering(event zk.Event) (found []*PersistentWatch, list zk.Event, parents []*PersistentWatch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	isList := event.Type == zk.EventNodeChildrenChanged
	if s := ws.at(event.Path); s != nil && !(isList && s.has == Tree) {
		found = s.members[Node]
	}
	if isList {
		return found, list, nil
	}
	for path := event.Path; ; path, _ = Split(path) {
		if s := ws.at(path); s != nil && found == nil {
			found = s.members[Tree]
		} else if s != nil {
			found = append(found[:len(found):len(found)], s.members[Tree]...)
		}
		if path == "/" || path == "" {
			break
		}
	}
	parent, _ := Split(event.Path)
	if s := ws.at(parent); s != nil && s.asked == Tree && parent != event.Path && event.Type != zk.EventNodeDataChanged {
		list = zk.Event{Type: zk.EventNodeChildrenChanged, State: event.State, Path: parent}
		parents = s.members[Node]
	}
	return found, list, parents
}

// at is the persistent watch at a path, or nil. ws.mu is held.
func (ws *watches) at(path string) *standing {
	if r := ws.rows[path]; r != nil {
		return r.standing
	}
	return nil
}

// end ends all watches, because the connection is gone.
func (ws *watches) end(cause error) {
	ws.mu.Lock()
	rows := ws.rows
	ws.rows = nil
	for path, r := range rows {
		for _, w := range r.once {
			if w != nil {
				w.fire(notWatching(path))
			}
		}
	}
	ws.mu.Unlock()
	for _, r := range rows {
		if r.standing == nil {
			continue
		}
		for _, members := range r.standing.members {
			for _, w := range members {
				w.end(cause)
			}
		}
	}
}

// replaced is the event of a watch that must be set anew, although the connection is as it was.
func replaced(path string) zk.Event {
	return zk.Event{Type: zk.EventNotWatching, State: zk.StateHasSession, Path: path}
}

// notWatching is the event of a watch that nothing will be heard of any more, since the connection has ended.
func notWatching(path string) zk.Event {
	return zk.Event{Type: zk.EventNotWatching, State: zk.StateDisconnected, Path: path, Err: zk.ErrConnectionClosed}
}
