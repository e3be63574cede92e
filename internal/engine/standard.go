package engine

import (
	"errors"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
)

// standardWatches are the standard watches that the reads of a link have set: see [Link.Watched]. The server has one watch for each
// kind and path, whoever has asked for it, so nothing but the fact that it is set has to be kept.
type standardWatches struct {
	link Link // whose reads set none
	f    func(zk.Event)

	mu  sync.Mutex // guards set; taken after watches.mu
	set map[string]kinds
}

// kinds is a set of [WatchKind].
type kinds uint8

// Watched is for servers without persistent watches. It returns a view of the link whose Get, Exists and Children set
// standard watches, each for one event: a Get or Children that succeeds, and an Exists also of a missing node. f is called with
// their events, those about lists of children included, until remove is called or the link is down. After an event of type
// zk.EventNotWatching the node has no watch, as after any other.
//
// remove takes the watches from the server, in the background. A ClickHouse Keeper has them until they fire.
func (l Link) Watched(f func(zk.Event)) (watched Link, remove func()) {
	w := &standardWatches{link: l, f: f, set: make(map[string]kinds)}
	ws := &l.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.standard = append(ws.standard, w)
	l.standard = w
	return l, func() {
		if ws.forget(w) {
			l.client.background(w.remove) // ends with the connection, or with the client
		}
	}
}

// read sends a read, which sets a standard watch if the link's reads do. Then the watch is noted before the answer, so that a
// persistent watch that serves it stays, and again when it is there: until then events are those of an earlier one.
func read[T any](l Link, op, path string, kind WatchKind, ask func(path string, watch bool) Request[T], done func(T, error)) {
	real, w, ws := l.client.Real(path), l.standard, &l.watches
	if w == nil {
		sendTo(l, op, path, ask(real, false), done)
		return
	}
	ws.order.Lock()
	defer ws.order.Unlock()
	ws.mu.Lock()
	request := ws.requestLocked(watchKey{real, kind})
	w.change(real, 1<<kind, 0)
	ws.mu.Unlock()
	sendTo(l, op, path, ask(real, request), func(value T, err error) {
		if err == nil {
			w.change(real, 1<<kind, 0)
		} else {
			w.change(real, 0, 1<<kind)
		}
		done(value, err)
	})
}

// change adds and drops watches at path, and returns those that were there.
func (w *standardWatches) change(path string, add, drop kinds) (was kinds) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was = w.set[path]
	if now := was&^drop | add; now != 0 {
		w.set[path] = now
	} else {
		delete(w.set, path)
	}
	return was
}

// fire is called for each event that uses watches up. watches.mu is held.
func (w *standardWatches) fire(event zk.Event, list []WatchKind) {
	var fired kinds
	for _, kind := range list {
		fired |= 1 << kind
	}
	if w.change(event.Path, 0, fired)&fired != 0 {
		event.Path = w.link.client.Unreal(event.Path)
		w.f(event)
	}
}

// removeAtOnce is how many watches are removed before an answer is waited for, so that other requests come in between.
const removeAtOnce = 64

// remove takes from the server what nobody else needs. A ClickHouse Keeper is not asked: not all of them know how.
func (w *standardWatches) remove() {
	l, ctx := w.link.Connection, w.link.client.ctx
	if _, err := Call(ctx, l, AskExists("/", false)); l.ByKeeper() || err != nil && !errors.Is(err, zk.ErrNoNode) {
		return // otherwise all reads have been answered now
	}
	n := 0
	for path := range w.set {
		x := l.watches.removeStandard(path)
		if n++; x == nil || n%removeAtOnce != 0 {
			continue
		}
		if _, _ = x.wait(ctx, l); ctx.Err() != nil || !l.up() {
			return
		}
	}
}

// forget ends the events of w, and reports whether that is new.
func (ws *watches) forget(w *standardWatches) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	n := len(ws.standard)
	ws.standard = slices.DeleteFunc(ws.standard, func(other *standardWatches) bool { return other == w })
	return len(ws.standard) < n && !ws.ended
}

// removeStandard takes the watches that fire once from the server, unless somebody needs one. Then it returns nil.
func (ws *watches) removeStandard(path string) *exchange[None] {
	ws.order.Lock()
	defer ws.order.Unlock()
	ws.mu.Lock()
	needed := ws.standing[path] != nil || ws.servesLocked(path)
	ws.mu.Unlock()
	if needed {
		return nil
	}
	return send(ws.link, askRemoveWatch(path))
}
