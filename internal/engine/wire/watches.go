package wire

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/wait"
)

// watches are all watches of one connection: a row for each path.
//
// A server of ZooKeeper 3.8 keeps one mode for a connection and a path, and the later request wins:
// a read with a watch would turn a persistent watch into one that fires once, and a persistent
// watch a recursive one into one that does not look below. Newer servers keep the modes apart, and
// may send two events about a list of children. The requests for one path:
//
//	wanted                              asked for
//	a watch that fires once             a watch with the read
//	the same beside a persistent watch  nothing: it fires with an event of that one
//	a list beside a recursive watch     a watch with the read: a recursive one has no events of lists
//	a persistent watch                  a persistent one, or a recursive one if one was wanted here
//	a recursive watch                   a recursive one: it implies the events of the list
//	nothing any more                    the removal of the persistent watch, if it exists
//
// # Life of a row
//
//	state    the row has                        next, when
//	absent                                      setting: a read or an AddWatch begins
//	setting  setting or pending > 0             set: the server has a watch; absent: it refused
//	set      a once that is set, or members     absent: an event has used it up; unused: given up
//	unused   no user; the server has a watch    set: a new user; absent: NodeDeleted, or removed
//
// An unused watch that fires once is removed after removePause, since many are used up soon. An
// unused persistent one is removed at once. Between the decision to remove it and the removal, a
// new user keeps the row.
//
// Servers send no events about children that the client is not permitted to read. So events about
// children say less than a watch of the list, and such a watch has to look again when the server's
// watch becomes recursive.
type watches struct {
	link *Conn

	// order is held from the decision what to request until the request has its place in the
	// connection's order. Nothing blocks while it is held.
	order sync.Mutex

	mu   sync.Mutex          // guards what follows; not held while a function of a user is called
	rows map[string]*watched // by path on the server; each has something

	removing bool // removeUnused runs
}

// watched holds the watches of one path. Guarded by watches.mu.
type watched struct {
	once []*onceWatch // one for each user and kind

	// The persistent watch that the server has, or is about to have.
	members []*PersistentWatch // the users that share it
	pending int32              // requests for it that are not answered
	asked   Mode               // mode of the next request: Tree if wanted, and not refused
	has     Mode               // the mode of the server's watch
	leaving bool               // it is being removed, unless a new watch needs it
	unused  bool               // the server may have a watch that fires once and was given up

	room [1]*onceWatch // initial room for once: most rows need no more
}

// noWatch is the mode of a persistent watch that the server does not have.
const noWatch Mode = -1

// onceWatch is a watch that an event uses up. All reads of one user that set the same kind share
// it.
type onceWatch struct {
	listener *Listener // the user; nil: all callers of Watched
	waiting  []*Watch  // what the calls that have not given it up wait for
	setting  int32     // reads that are about to set it
	kind     WatchKind
	set      bool // a read has set it

	room [1]*Watch // initial room for waiting
}

// endedBy are the watches that an event ends.
var endedBy = map[zk.EventType]WatchKind{
	zk.EventNodeCreated:         WatchData,
	zk.EventNodeDataChanged:     WatchData,
	zk.EventNodeChildrenChanged: WatchChildren,
	zk.EventNodeDeleted:         anyKind,
}

// row returns the row of a path, a new one if it is missing. ws.mu is held.
func (ws *watches) row(path string) *watched {
	r := ws.rows[path]
	if r == nil {
		if ws.rows == nil {
			ws.rows = make(map[string]*watched)
		}
		r = &watched{asked: noWatch, has: noWatch}
		r.once = r.room[:0]
		ws.rows[path] = r
	}
	return r
}

// request reports whether the server has to be asked for a watch that fires once. As long as a
// persistent watch is not answered the server may have, and keep, one that is not recursive, and
// that has events about lists.
func (r *watched) request(kind WatchKind) bool {
	return r.has == noWatch && r.pending == 0 || r.has == Tree && kind == WatchChildren
}

// needed reports whether any watch uses the server's. A watch that fires once may rely on the
// persistent watch.
func (r *watched) needed() bool { return len(r.once)+len(r.members) > 0 || r.pending > 0 }

// begin returns the watch that a read is about to set, and whether the server has to be asked for
// it. It is asked even if it has the watch. That changes nothing, unless the server has dropped it
// for an event that the client is not permitted to see. Between begin and settle the watch cannot
// miss an event, as it is in the table before the request is sent. shared is nil with a listener.
func (ws *watches) begin(path string, kind WatchKind, of user) (w *onceWatch, shared *Watch, request bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	r := ws.row(path)
	i := slices.IndexFunc(r.once, func(w *onceWatch) bool { return w.kind == kind && w.listener == of.listener })
	if i < 0 {
		w = &onceWatch{kind: kind, listener: of.listener}
		w.waiting = w.room[:0]
		r.once = append(r.once, w)
	} else {
		w = r.once[i]
	}
	if of.listener == nil {
		shared = w.share(ws, path, of.ended)
		shared.calls++
	}
	w.setting++
	return w, shared, r.request(kind)
}

// share returns what calls wait for whose contexts end with ended.
func (w *onceWatch) share(ws *watches, path string, ended <-chan struct{}) *Watch {
	for _, shared := range w.waiting {
		if shared.ended == ended {
			return shared
		}
	}
	shared := &Watch{in: ws, path: path, done: make(chan struct{}), once: w, ended: ended}
	w.waiting = append(w.waiting, shared)
	return shared
}

// settle says how a read that begin was for has ended: whether it has set the watch.
func (ws *watches) settle(path string, w *onceWatch, set bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.setting--
	w.set = w.set || set
	ws.dropUnused(path, w)
}

// learn notes how a call has ended whose context is ctx: whether it waits for the watch.
func (ws *watches) learn(ctx context.Context, w *Watch, waits bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if !waits {
		w.calls--
	}
	switch {
	case w.once == nil: // it has fired
	case w.calls == 0:
		ws.giveUpLocked(w, zk.ErrClosing) // no caller sees the reason
	case waits && w.ended != nil && w.stop == nil:
		w.stop = context.AfterFunc(ctx, func() { ws.giveUp(w, wait.Err(ctx)) })
	}
}

// giveUp ends a watch without waiters. The server is asked to remove it soon, unless another watch
// needs it.
func (ws *watches) giveUp(w *Watch, reason error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.once != nil {
		ws.giveUpLocked(w, reason)
	}
}

// giveUpLocked gives up a watch that has not fired. ws.mu is held.
func (ws *watches) giveUpLocked(w *Watch, reason error) {
	once := w.once
	once.waiting = slices.DeleteFunc(once.waiting, func(other *Watch) bool { return other == w })
	w.fire(zk.Event{Type: zk.EventNotWatching, State: zk.StateHasSession, Path: w.path, Err: reason})
	ws.dropUnused(w.path, once)
}

// dropUnused deletes a watch that no read sets any more and that no caller waits for, or that no
// read has set. ws.mu is held.
func (ws *watches) dropUnused(path string, w *onceWatch) {
	r := ws.rows[path]
	if r == nil || w.setting > 0 || w.set && (w.listener != nil || len(w.waiting) > 0) {
		return
	}
	before := len(r.once)
	r.once = slices.DeleteFunc(r.once, func(other *onceWatch) bool { return other == w })
	if len(r.once) < before {
		r.unused = r.unused || w.set
		ws.reviewLocked(path)
	}
}

// dropAll ends all watches of a listener, and returns the paths that have no others. The removal
// from the server is sent behind the reads that set them.
func (ws *watches) dropAll(v *Listener) (paths []string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	v.removed = true
	for path, r := range ws.rows {
		before := len(r.once)
		r.once = slices.DeleteFunc(r.once, func(w *onceWatch) bool { return w.listener == v })
		if len(r.once) == before {
			continue
		}
		r.unused = r.unused || r.needed()
		if ws.reviewLocked(path); ws.rows[path] == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

// subscribe adds a watch to its path's, and returns the mode to request. ws.order is held.
func (ws *watches) subscribe(w *PersistentWatch) Mode {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	r := ws.row(w.path)
	r.members = append(r.members, w)
	r.pending++
	r.asked = max(r.asked, w.mode)
	return r.asked
}

// subscribed notes how a request that subscribe was for has ended.
func (ws *watches) subscribed(w *PersistentWatch, mode Mode, err error) {
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
			// The owner of a watch that fires once and relied on it must look again, even while
			// another request is in flight.
			ws.fireLocked(replaced(w.path), anyKind)
		}
	}
	ws.reviewLocked(w.path)
}

// unsubscribe takes a watch away.
func (ws *watches) unsubscribe(w *PersistentWatch) {
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

// reviewLocked deletes a row without users, and the server's watch in the background. ws.mu is
// held.
func (ws *watches) reviewLocked(path string) {
	r := ws.rows[path]
	switch {
	case r == nil || r.needed():
	case r.has == noWatch && (!r.unused || ws.link.ByKeeper()): // not all Keepers know how to remove a watch
		delete(ws.rows, path)
	case r.has == noWatch && !ws.removing:
		ws.removing = ws.link.host.Background(ws.removeUnused) // ends with the client, or the connection
	case r.has == noWatch: // removeUnused finds it
	case !r.leaving:
		r.leaving = true
		ws.link.host.Background(func() { ws.remove(path) }) // it does not wait
	}
}

// removePause is how long a watch that was given up stays on the server. Many are used up soon:
// their node is deleted.
const removePause = 100 * time.Millisecond

// removeUnused takes watches from the server that were given up, until there is none.
func (ws *watches) removeUnused() {
	ctx := ws.link.host.Life()
	for wait.Sleep(ctx, removePause) == nil {
		var paths []string
		ws.mu.Lock()
		for path, r := range ws.rows {
			if r.unused && r.has == noWatch && !r.needed() {
				paths = append(paths, path)
			}
		}
		if ws.removing = len(paths) > 0; !ws.removing {
			ws.mu.Unlock()
			return
		}
		ws.mu.Unlock()
		ws.removeAll(ctx, paths)
	}
}

// removeAtOnce is how many watches are removed before the answers are awaited, so that other
// requests can be sent in between.
const removeAtOnce = 64

// removeAll takes the watches at some paths from the server.
func (ws *watches) removeAll(ctx context.Context, paths []string) {
	for n, path := range paths {
		if ctx.Err() != nil || !ws.link.Up() {
			return
		}
		if x := ws.remove(path); x != nil && n%removeAtOnce == removeAtOnce-1 {
			_, _ = x.wait(ctx)
		}
	}
}

// remove removes the watches at a path from the server. It returns nil if one is needed again.
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

// notify runs on the connection's goroutine. Watches that stay are notified first.
func (ws *watches) notify(event zk.Event) {
	// On the stack: an event for few watches allocates nothing.
	var room [2][4]*PersistentWatch
	ws.mu.Lock()
	found, list := room[0][:0], ws.following(event)
	if r := ws.rows[event.Path]; event.Type != zk.EventNodeChildrenChanged || r == nil || r.has != Tree {
		found = ws.covering(event, found)
		// Otherwise only watches that fire once need it: for the others it followed from the
		// child's event.
	}
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

// following is the event about the parent's list of children that follows from one about a child.
// It is empty if the server sends it. ws.mu is held.
func (ws *watches) following(event zk.Event) (list zk.Event) {
	parent, _ := proto.Split(event.Path)
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
	for path := event.Path; path != ""; path, _ = proto.Split(path) {
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

// fireLocked uses up the watches of some kinds at the path of an event. ws.mu is held.
func (ws *watches) fireLocked(event zk.Event, kinds WatchKind) {
	if r := ws.rows[event.Path]; r != nil {
		r.unused = r.unused && event.Type != zk.EventNodeDeleted // which has used up what there was
		r.once = slices.DeleteFunc(r.once, func(w *onceWatch) bool { return w.kind&kinds != 0 && w.fire(event) })
		ws.reviewLocked(event.Path)
	}
}

// fire passes an event on, and reports whether the watch has ended. The watch of a listener stays
// while a read is in flight, which sets it again behind the event.
func (w *onceWatch) fire(event zk.Event) (ended bool) {
	if w.listener == nil {
		for _, shared := range w.waiting {
			shared.fire(event)
		}
		w.waiting = nil
		return true
	}
	w.listener.fire(event)
	w.set = false
	return w.setting == 0
}

// end ends all watches when the connection is lost. The watches of a listener end with its
// connection.
func (ws *watches) end(cause error) {
	ws.mu.Lock()
	rows := ws.rows
	ws.rows = nil
	var members []*PersistentWatch
	for path, r := range rows {
		for _, w := range r.once {
			if w.listener == nil {
				w.fire(notWatching(path))
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

// notWatching is the event of a watch that nothing will be heard of any more, since the connection
// has ended.
func notWatching(path string) zk.Event {
	return zk.Event{Type: zk.EventNotWatching, State: zk.StateDisconnected, Path: path, Err: zk.ErrConnectionClosed}
}
