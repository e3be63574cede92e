package engine

import (
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
)

// watches are all watches of one link: those that fire once, and those that stay.
//
// A server of ZooKeeper 3.8 keeps one mode for a connection and a path, and the later request wins: a
// read with a watch would turn a persistent watch into one that fires once, and a persistent watch a
// recursive one into one that does not look below. Therefore
//
//   - while the server has a persistent watch at a path, or is about to, no other is requested
//     there: watches that fire once are served from its events, except those of lists that are set beside a
//     recursive watch;
//   - the server's watch becomes recursive when somebody needs that, and stays so: what it does
//     not say, that a list of children has changed, follows from the children's events;
//   - it is removed when nobody needs it, watches that fire once included.
//
// Newer servers keep the modes apart, and may send two events about a list of children.
type watches struct {
	link *Connection

	// order is held from the decision what to request until the request has its place in the
	// connection's order. Nothing that blocks happens meanwhile.
	order sync.Mutex

	mu       sync.Mutex // guards what follows; not held while a function of a user is called
	byNode   map[watchKey]*sharedWatch
	standing map[string]*standing // by path on the server
	standard []*standardWatches
	ended    bool
}

// standing is the persistent watch that the server has at one path, or is about to have.
type standing struct {
	path      string
	members   [2][]*PersistentWatch // by mode; replaced, never changed
	pending   int                   // requests that are not answered
	asked     bool                  // for recursive, which may not be answered yet
	there     bool                  // the server has it
	recursive bool                  // the server's is recursive
	leaving   bool                  // it is being removed, unless somebody comes
}

func (s *standing) needed() bool { return len(s.members[0])+len(s.members[1]) > 0 || s.pending > 0 }

// WatchKind says which events end a watch. A node can have one of each.
type WatchKind int

// The kinds of watches.
const (
	WatchData     WatchKind = iota // set by reading data, and by an exists that found the node
	watchGone                      // set by an exists that found no node
	WatchChildren                  // set by reading the list of children
)

var watchKinds = [...]WatchKind{WatchData, watchGone, WatchChildren}

type watchKey struct {
	path string // on the server
	kind WatchKind
}

// sharedWatch is what all watches of one kind on one node have in common.
type sharedWatch struct {
	in    *watches
	done  chan struct{}
	event zk.Event // set before done is closed

	// Guarded by watches.mu.
	armed   bool // the server has it
	setting int  // calls that are about to arm it
	funcs   []func(zk.Event, *Session)
}

// fire ends the watch. in.mu is held, unless nobody else knows of it yet.
func (w *sharedWatch) fire(event zk.Event) {
	w.event = event
	close(w.done)
	for _, f := range w.funcs {
		f(event, w.in.link.session)
	}
	w.funcs = nil
}

// onFire is [Watch.OnFire].
func (w *sharedWatch) onFire(f func(zk.Event, *Session)) {
	w.in.mu.Lock()
	defer w.in.mu.Unlock()
	select {
	case <-w.done:
		f(w.event, w.in.link.session)
	default:
		w.funcs = append(w.funcs, f)
	}
}

// begin returns the watch that a call is about to arm, whether it is armed already, and whether the
// server has to be asked for it: not if the events of a persistent watch will do. It is asked also if the watch is armed. That
// changes nothing, unless the server has dropped the watch for an event that the client may not see.
// Between begin and settle the watch cannot miss an event, as it is in the table before the
// request is sent.
func (ws *watches) begin(key watchKey) (w *sharedWatch, armed, request bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w = ws.byNode[key]
	if w == nil {
		w = &sharedWatch{in: ws, done: make(chan struct{})}
		if ws.ended {
			w.fire(notWatching(key.path))
			return w, true, false
		}
		if ws.byNode == nil {
			ws.byNode = make(map[watchKey]*sharedWatch)
		}
		ws.byNode[key] = w
	}
	if w.armed {
		return w, true, ws.requestLocked(key)
	}
	w.setting++
	return w, false, ws.requestLocked(key)
}

// requestLocked reports whether the server has to be asked for a watch that fires once. ws.mu is held.
func (ws *watches) requestLocked(key watchKey) bool {
	s := ws.standing[key.path]
	// A recursive watch has no events about children that the client may not read, but the list of children changes
	// with them. Servers keep watches of lists in a table of their own, where a recursive watch is of no use. As long as it is
	// not answered the server may have, and keep, one that is not recursive, and that has events about lists.
	return s == nil || !s.there && s.pending == 0 || key.kind == WatchChildren && s.recursive
}

// settle says how the call that begin was for has ended, if it was not armed then.
func (ws *watches) settle(key watchKey, w *sharedWatch, armed bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.setting--
	w.armed = w.armed || armed
	if !w.armed && w.setting == 0 && ws.byNode[key] == w {
		delete(ws.byNode, key)
		ws.reviewLocked(key.path)
	}
}

// join adds a watch to its path's, and returns the mode to request. ws.order is held.
func (ws *watches) join(w *PersistentWatch) (Mode, bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.ended {
		return 0, false
	}
	s := ws.standing[w.path]
	if s == nil {
		s = &standing{path: w.path}
		if ws.standing == nil {
			ws.standing = make(map[string]*standing)
		}
		ws.standing[w.path] = s
	}
	old := s.members[w.mode]
	s.members[w.mode] = append(old[:len(old):len(old)], w)
	s.pending++
	if w.mode == Tree && !s.asked {
		s.asked = true
	}
	if s.asked {
		return Tree, true
	}
	return Node, true
}

// joined notes how a request that join was for has ended.
func (ws *watches) joined(path string, mode Mode, err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	s := ws.standing[path]
	if s == nil {
		return // the link has ended
	}
	s.pending--
	switch {
	case err == nil:
		s.there = true
		if mode == Tree {
			s.recursive = true
			// The server may have forgotten that of the list, and the recursive one has no events about children that the client
			// may not read.
			ws.fireLocked(replaced(path), WatchChildren)
		}
	case s.pending == 0:
		s.asked = s.recursive
	}
	if err != nil && !s.there {
		// Whoever has relied on it for a watch that fires once must look again, also if another request is under way.
		ws.fireLocked(replaced(path), watchKinds[:]...)
	}
	ws.reviewLocked(path)
}

// leave takes a watch away.
func (ws *watches) leave(w *PersistentWatch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	s := ws.standing[w.path]
	if s == nil {
		return
	}
	var rest []*PersistentWatch
	for _, m := range s.members[w.mode] {
		if m != w {
			rest = append(rest, m)
		}
	}
	s.members[w.mode] = rest
	ws.reviewLocked(w.path)
}

// reviewLocked sees to a persistent watch that nobody needs any more. ws.mu is held.
func (ws *watches) reviewLocked(path string) {
	s := ws.standing[path]
	if s == nil || s.needed() || ws.ended {
		return
	}
	if !s.there {
		delete(ws.standing, path) // the server refused
		return
	}
	if !ws.servesLocked(path) && !s.leaving {
		s.leaving = true
		l := ws.link
		l.session.core.background(func() { ws.remove(s) }) // ends with the request, or with the connection
	}
}

// servesLocked reports whether watches that fire once depend on what the server has at path.
func (ws *watches) servesLocked(path string) bool {
	for _, kind := range watchKinds {
		if ws.byNode[watchKey{path, kind}] != nil {
			return true
		}
	}
	return slices.ContainsFunc(ws.standard, func(w *standardWatches) bool { return w.change(path, 0, 0) != 0 })
}

// remove takes a persistent watch from the server, unless somebody needs it by now.
func (ws *watches) remove(s *standing) {
	ws.order.Lock()
	ws.mu.Lock()
	s.leaving = false
	gone := ws.standing[s.path] == s && !s.needed() && !ws.servesLocked(s.path)
	if gone {
		delete(ws.standing, s.path)
	}
	ws.mu.Unlock()
	if !gone {
		ws.order.Unlock()
		return
	}
	x := send(ws.link, askRemoveWatch(s.path))
	ws.order.Unlock()
	// That there is none (-121) is fine as well.
	_, _ = x.wait(ws.link.session.core.ctx, ws.link)
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
	switch event.Type {
	case zk.EventNodeCreated:
		ws.fireLocked(event, watchGone)
	case zk.EventNodeDataChanged:
		ws.fireLocked(event, WatchData, watchGone)
	case zk.EventNodeChildrenChanged:
		ws.fireLocked(event, WatchChildren)
	case zk.EventNodeDeleted:
		ws.fireLocked(event, WatchData, watchGone, WatchChildren)
	}
	if list.Path != "" {
		ws.fireLocked(list, WatchChildren)
	}
}

// fireLocked ends watches of some kinds on one node. ws.mu is held.
func (ws *watches) fireLocked(event zk.Event, kinds ...WatchKind) {
	for _, w := range ws.standard {
		w.fire(event, kinds)
	}
	if len(ws.standard) > 0 {
		ws.reviewLocked(event.Path)
	}
	for _, kind := range kinds {
		key := watchKey{event.Path, kind}
		if w := ws.byNode[key]; w != nil {
			delete(ws.byNode, key)
			w.fire(event)
			ws.reviewLocked(key.path)
		}
	}
}

// covering returns the persistent watches that an event concerns, and, if the server does not send that, the event about the
// parent's list of children that follows from it, with those that it concerns.
func (ws *watches) covering(event zk.Event) (found []*PersistentWatch, list zk.Event, parents []*PersistentWatch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.standing) == 0 {
		return nil, list, nil
	}
	if s := ws.standing[event.Path]; s != nil && !(event.Type == zk.EventNodeChildrenChanged && s.recursive) {
		found = s.members[Node]
	}
	if event.Type == zk.EventNodeChildrenChanged {
		return found, list, nil
	}
	for path := event.Path; ; path, _ = Split(path) {
		if s := ws.standing[path]; s != nil {
			if found == nil {
				found = s.members[Tree]
			} else {
				found = append(found[:len(found):len(found)], s.members[Tree]...)
			}
		}
		if path == "/" || path == "" {
			break
		}
	}
	parent, _ := Split(event.Path)
	if s := ws.standing[parent]; s != nil && s.asked && parent != event.Path && event.Type != zk.EventNodeDataChanged {
		list = zk.Event{Type: zk.EventNodeChildrenChanged, State: event.State, Path: parent}
		parents = s.members[Node]
	}
	return found, list, parents
}

// end ends all watches, because the connection is gone.
func (ws *watches) end(cause error) {
	ws.mu.Lock()
	ws.ended = true
	byNode, standing := ws.byNode, ws.standing
	ws.byNode, ws.standing = nil, nil
	for key, w := range byNode {
		w.fire(notWatching(key.path))
	}
	ws.mu.Unlock()
	for _, s := range standing {
		for _, members := range s.members {
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
