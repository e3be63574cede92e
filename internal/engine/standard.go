package engine

import (
	"slices"

	"github.com/go-zookeeper/zk"
)

// view is who gets the events of the standard watches that the reads of a Link set: see [Link.Watched].
type view struct {
	link    Link // whose reads set none
	f       func(zk.Event)
	removed bool // guarded by watches.mu
}

// Watched is for servers without persistent watches. It returns a view of the link whose Get, Exists and Children set
// standard watches, each for one event: a Get or Children that succeeds, and an Exists also of a missing node. f is called with
// their events, those about lists of children included, until remove is called or the link is down. After an event of type
// zk.EventNotWatching the node has no watch, as after any other.
//
// remove takes the watches from the server, in the background. A ClickHouse Keeper has them until they fire.
func (l Link) Watched(f func(zk.Event)) (watched Link, remove func()) {
	v := &view{link: l, f: f}
	l.view = v
	return l, v.remove
}

// fire is called for an event that uses up a watch of the view. watches.mu is held.
func (v *view) fire(event zk.Event) {
	if !v.removed {
		event.Path = v.link.client.Unreal(event.Path)
		v.f(event)
	}
}

// removeAtOnce is how many watches are removed before an answer is waited for, so that other requests come in between.
const removeAtOnce = 64

// remove takes from the server what nobody else needs. A ClickHouse Keeper is not asked: not all of them know how.
func (v *view) remove() {
	l, ctx := v.link.Connection, v.link.client.ctx
	paths := l.watches.drop(v)
	if len(paths) == 0 || l.ByKeeper() {
		return
	}
	v.link.client.background(func() { // ends with the connection, or with the client
		for n, path := range paths {
			if ctx.Err() != nil || !l.up() {
				return
			}
			if x := l.watches.remove(path); x != nil && n%removeAtOnce == removeAtOnce-1 {
				_, _ = x.wait(ctx, l)
			}
		}
	})
}

// drop ends all watches of a view, and returns the paths that have no others. What removes them from the server is sent
// behind the reads that set them.
func (ws *watches) drop(v *view) (paths []string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	v.removed = true
	for path, r := range ws.rows {
		before := len(r.once)
		r.once = slices.DeleteFunc(r.once, func(w *onceWatch) bool { return w.view == v })
		if len(r.once) == before {
			continue
		}
		if ws.reviewLocked(path); ws.rows[path] == nil {
			paths = append(paths, path)
		}
	}
	return paths
}
