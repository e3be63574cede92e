package engine

import (
	"slices"

	"github.com/go-zookeeper/zk"
)

// view is a Link whose reads set standard watches: see [Link.Watched]. The server has one watch for each
// kind and path, whoever has asked for it, so nothing but the fact that it is set has to be kept.
type view struct {
	link    Link // whose reads set none
	f       func(zk.Event)
	removed bool // guarded by watches.mu
}

// viewWatch are the watches at one path that the reads of one view have set, or are about to.
type viewWatch struct {
	view *view
	set  kinds
}

// Watched is for servers without persistent watches. It returns a view of the link whose Get, Exists and Children set
// standard watches, each for one event: a Get or Children that succeeds, and an Exists also of a missing node. f is called with
// their events, those about lists of children included, until remove is called or the link is down. After an event of type
// zk.EventNotWatching the node has no watch, as after any other.
//
// remove takes the watches from the server, in the background. A ClickHouse Keeper has them until they fire.
func (l Link) Watched(f func(zk.Event)) (watched Link, remove func()) {
	v := &view{link: l, f: f}
	ws := &l.watches
	l.view = v
	return l, func() {
		ws.mu.Lock()
		first := !v.removed
		v.removed = true
		ws.mu.Unlock()
		if first {
			l.client.background(v.remove) // ends with the connection, or with the client
		}
	}
}

// read sends a read, which sets a standard watch if the link's reads do. Then the watch is noted before the answer, so that a
// persistent watch that serves it stays, and again when it is there: until then events are those of an earlier one.
func read[T any](l Link, op, path string, kind WatchKind, ask func(path string, watch bool) Request[T], done func(T, error)) {
	real, v, ws := l.client.Real(path), l.view, &l.watches
	if v == nil {
		sendTo(l, op, path, ask(real, false), done)
		return
	}
	ws.order.Lock()
	defer ws.order.Unlock()
	had, request := ws.noteRead(v, real, kind)
	sendTo(l, op, path, ask(real, request), func(value T, err error) {
		switch {
		case sets(op == "exists", err):
			ws.noteRead(v, real, kind)
		case !had: // otherwise an earlier read has set it
			ws.dropRead(v, real, 1<<kind)
		}
		done(value, err)
	})
}

// noteRead notes a watch of a view, and returns whether it was noted, and whether the server has to be asked for it.
func (ws *watches) noteRead(v *view, path string, kind WatchKind) (had, request bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	r := ws.row(path)
	i := slices.IndexFunc(r.views, func(w viewWatch) bool { return w.view == v })
	if i < 0 {
		i = len(r.views)
		r.views = append(r.views, viewWatch{view: v})
	}
	w := &r.views[i]
	had = w.set&(1<<kind) != 0
	w.set |= 1 << kind
	return had, r.request(kind)
}

// dropRead forgets watches of a view.
func (ws *watches) dropRead(v *view, path string, set kinds) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if r := ws.rows[path]; r != nil {
		r.useUp(set, func(w *view) bool { return w == v })
		ws.reviewLocked(path)
	}
}

// useUp takes watches of some kinds from the views for which of is true. It is called for each view that has one.
func (r *watched) useUp(set kinds, of func(*view) bool) {
	for i := range r.views {
		if w := &r.views[i]; w.set&set != 0 && of(w.view) {
			w.set &^= set
		}
	}
	r.views = slices.DeleteFunc(r.views, func(w viewWatch) bool { return w.set == 0 })
}

// fire is called for an event that uses up watches of the view. watches.mu is held.
func (v *view) fire(event zk.Event) bool {
	if !v.removed {
		event.Path = v.link.client.Unreal(event.Path)
		v.f(event)
	}
	return true
}

// removeAtOnce is how many watches are removed before an answer is waited for, so that other requests come in between.
const removeAtOnce = 64

// remove takes from the server what nobody else needs. A ClickHouse Keeper is not asked: not all of them know how.
func (v *view) remove() {
	l, ctx := v.link.Connection, v.link.client.ctx
	_, err := Call(ctx, l, AskExists("/", false))
	answered := sets(true, err) // and so have been all reads
	for n, path := range l.watches.forget(v) {
		if !answered || l.ByKeeper() || ctx.Err() != nil || !l.up() {
			return
		}
		if x := l.watches.removeStandard(path); x != nil && n%removeAtOnce == removeAtOnce-1 {
			_, _ = x.wait(ctx, l)
		}
	}
}

// forget drops all watches of a view, and returns their paths.
func (ws *watches) forget(v *view) (paths []string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for path, r := range ws.rows {
		before := len(r.views)
		r.useUp(anyKind, func(w *view) bool { return w == v })
		if len(r.views) < before {
			paths = append(paths, path)
			ws.reviewLocked(path)
		}
	}
	return paths
}

// removeStandard takes the watches that fire once from the server, unless somebody needs one. Then it returns nil.
func (ws *watches) removeStandard(path string) *exchange[None] {
	ws.order.Lock()
	defer ws.order.Unlock()
	ws.mu.Lock()
	needed := ws.rows[path] != nil
	ws.mu.Unlock()
	if needed {
		return nil
	}
	return send(ws.link, askRemoveWatch(path))
}
