package engine

import (
	"slices"
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
	once []*onceWatch // one for each user and kind

	// The persistent watch that the server has, or is about to have.
	members []*PersistentWatch // who share it
	pending int32              // requests for it that are not answered
	asked   Mode               // of the next request: Tree if that was asked for, and not refused
	has     Mode               // of the server's
	leaving bool               // it is being removed, unless somebody comes
}

// noWatch is the mode of a persistent watch that the server does not have.
const noWatch Mode = -1

// onceWatch is a watch that an event uses up. All reads of one user that set the same kind share it.
type onceWatch struct {
	view    *view        // the user; nil: all callers of Watched
	shared  *sharedWatch // what these wait for
	setting int32        // reads that are about to set it
	kind    WatchKind
	set     bool // a read has set it
}

// endedBy are the watches that an event ends.
var endedBy = map[zk.EventType]WatchKind{
	zk.EventNodeCreated:         WatchData,
	zk.EventNodeDataChanged:     WatchData,
	zk.EventNodeChildrenChanged: WatchChildren,
	zk.EventNodeDeleted:         anyKind,
}

// row is the row of a path, which is made if there is none. ws.mu is held.
func (ws *watches) row(path string) *watched {
	r := ws.rows[path]
	if r == nil {
		if ws.rows == nil {
			ws.rows = make(map[string]*watched)
		}
		r = &watched{asked: noWatch, has: noWatch}
		ws.rows[path] = r
	}
	return r
}

// request reports whether the server has to be asked for a watch that fires once. As long as a persistent watch is
// not answered the server may have, and keep, one that is not recursive, and that has events about lists.
func (r *watched) request(kind WatchKind) bool {
	return r.has == noWatch && r.pending == 0 || r.has == Tree && kind == WatchChildren
}

// needed reports whether somebody uses what the server has. A watch that fires once may rely on the persistent one.
func (r *watched) needed() bool { return len(r.once)+len(r.members) > 0 || r.pending > 0 }

// begin returns the watch that a read is about to set, and whether the server has to be asked for it. It is asked also if it has
// the watch. That changes nothing, unless the server has dropped it for an event that the client may not see.
// Between begin and settle the watch cannot miss an event, as it is in the table before the request is sent.
func (ws *watches) begin(path string, kind WatchKind, v *view) (w *onceWatch, request bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	r := ws.row(path)
	i := slices.IndexFunc(r.once, func(w *onceWatch) bool { return w.kind == kind && w.view == v })
	if i < 0 {
		w = &onceWatch{kind: kind, view: v}
		if v == nil {
			w.shared = &sharedWatch{in: ws, done: make(chan struct{})}
		}
		r.once = append(r.once, w)
	} else {
		w = r.once[i]
	}
	w.setting++
	return w, r.request(kind)
}

// settle says how a read that begin was for has ended: whether it has set the watch.
func (ws *watches) settle(path string, w *onceWatch, set bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.setting--
	w.set = w.set || set
	if r := ws.rows[path]; r != nil && !w.set && w.setting == 0 {
		r.once = slices.DeleteFunc(r.once, func(other *onceWatch) bool { return other == w })
		ws.reviewLocked(path)
	}
}

// join adds a watch to its path's, and returns the mode to request. ws.order is held.
func (ws *watches) join(w *PersistentWatch) Mode {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	r := ws.row(w.path)
	r.members = append(r.members, w)
	r.pending++
	r.asked = max(r.asked, w.mode)
	return r.asked
}

// joined notes how a request that join was for has ended.
func (ws *watches) joined(w *PersistentWatch, mode Mode, err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	r := ws.rows[w.path]
	if r == nil {
		return // the connection has ended
	}
	r.pending--
	if err == nil {
		r.has = max(r.has, mode)
		if mode == Tree { // the server may have dropped the watch of the list
			ws.fireLocked(replaced(w.path), WatchChildren)
		}
	} else {
		r.drop(w)
		if r.pending == 0 {
			r.asked = r.has
		}
		if r.has == noWatch {
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
	if r := ws.rows[w.path]; r != nil {
		r.drop(w)
		ws.reviewLocked(w.path)
	}
}

func (r *watched) drop(w *PersistentWatch) {
	r.members = slices.DeleteFunc(r.members, func(other *PersistentWatch) bool { return other == w })
}

// reviewLocked deletes a row that nobody needs any more, a persistent watch in the background. ws.mu is held.
func (ws *watches) reviewLocked(path string) {
	r := ws.rows[path]
	switch {
	case r == nil || r.needed():
	case r.has == noWatch:
		delete(ws.rows, path)
	case !r.leaving:
		r.leaving = true
		ws.link.session.core.background(func() { ws.remove(path) }) // it does not wait
	}
}

// remove takes the watches at a path from the server, unless somebody needs one by now: then it returns nil.
func (ws *watches) remove(path string) *exchange[None] {
	ws.order.Lock()
	defer ws.order.Unlock()
	ws.mu.Lock()
	if r := ws.rows[path]; r != nil && r.needed() {
		r.leaving = false
		ws.mu.Unlock()
		return nil
	}
	delete(ws.rows, path)
	ws.mu.Unlock()
	return send(ws.link, askRemoveWatch(path)) // that there is none (-121) is fine as well
}

// notify runs on the connection's goroutine. Those that stay are first.
func (ws *watches) notify(event zk.Event) {
	var room [2][4]*PersistentWatch // on the stack: an event allocates nothing while a few watches have it
	ws.mu.Lock()
	found, list := room[0][:0], ws.following(event)
	if r := ws.rows[event.Path]; event.Type != zk.EventNodeChildrenChanged || r == nil || r.has != Tree {
		found = ws.covering(event, found)
	} // otherwise it is for watches that fire once: for the others it has followed from the event about the child
	parents := ws.covering(list, room[1][:0])
	ws.mu.Unlock()
	for _, w := range found {
		w.notify(event)
	}
	for _, w := range parents {
		w.notify(list)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.fireLocked(event, endedBy[event.Type])
	ws.fireLocked(list, endedBy[list.Type])
}

// following is the event about the parent's list of children that follows from one about a child. It is empty if
// the server sends it. ws.mu is held.
func (ws *watches) following(event zk.Event) (list zk.Event) {
	parent, _ := Split(event.Path)
	r := ws.rows[parent]
	if r == nil || r.asked != Tree || parent == event.Path {
		return list
	}
	if event.Type == zk.EventNodeCreated || event.Type == zk.EventNodeDeleted {
		list = zk.Event{Type: zk.EventNodeChildrenChanged, State: event.State, Path: parent}
	}
	return list
}

// covering appends the persistent watches that an event concerns. ws.mu is held.
func (ws *watches) covering(event zk.Event, found []*PersistentWatch) []*PersistentWatch {
	for path := event.Path; path != ""; path, _ = Split(path) {
		if r := ws.rows[path]; r != nil {
			for _, w := range r.members {
				if w.mode == Node && path == event.Path || w.mode == Tree && event.Type != zk.EventNodeChildrenChanged {
					found = append(found, w)
				}
			}
		}
		if path == "/" {
			break
		}
	}
	return found
}

// fireLocked has an event use up watches of some kinds at its path. ws.mu is held.
func (ws *watches) fireLocked(event zk.Event, kinds WatchKind) {
	if r := ws.rows[event.Path]; r != nil {
		r.once = slices.DeleteFunc(r.once, func(w *onceWatch) bool { return w.kind&kinds != 0 && w.fire(event) })
		ws.reviewLocked(event.Path)
	}
}

// fire passes an event on, and reports whether the watch has ended. That of a view has not while a read is under
// way, which sets it anew behind the event.
func (w *onceWatch) fire(event zk.Event) (ended bool) {
	if w.view == nil {
		w.shared.fire(event)
		return true
	}
	w.view.fire(event)
	w.set = false
	return w.setting == 0
}

// end ends all watches, because the connection is gone. Those of a view end with its link.
func (ws *watches) end(cause error) {
	ws.mu.Lock()
	rows := ws.rows
	ws.rows = nil
	var members []*PersistentWatch
	for path, r := range rows {
		for _, w := range r.once {
			if w.view == nil {
				w.shared.fire(notWatching(path))
			}
		}
		members = append(members, r.members...)
	}
	ws.mu.Unlock()
	for _, w := range members {
		w.end(cause)
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
