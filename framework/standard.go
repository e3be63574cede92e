package framework

import (
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/engine"
)

// watchedLink is a link whose reads set standard watches: see [engine.Link]. The server has one watch for each kind and path, whoever
// has asked for it, so nothing but the fact that it is set has to be kept.
type watchedLink struct {
	linkView
	f func(zk.Event)

	mu  sync.Mutex // guards set; taken after watches.mu
	set map[string]kinds
}

// kinds is a set of [watchKind].
type kinds uint8

func (v linkView) Watched(f func(zk.Event)) (l engine.Link, remove func()) {
	w := &watchedLink{linkView: v, f: f, set: make(map[string]kinds)}
	ws := &v.link.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.watched = append(ws.watched, w)
	return w, func() {
		if ws.forget(w) {
			v.client.core.background(w.remove) // ends with the connection, or with the client
		}
	}
}

func (w *watchedLink) Get(path string, done func(data []byte, stat *zk.Stat, err error)) {
	read(w, "get", path, watchData, askGet, func(r withStat[[]byte], err error) { done(r.value, r.stat, err) })
}

func (w *watchedLink) Exists(path string, done func(stat *zk.Stat, err error)) {
	read(w, "exists", path, watchData, askExists, func(stat *zk.Stat, err error) {
		if errors.Is(err, zk.ErrNoNode) {
			w.change(w.client.real(path), 1<<watchGone, 0)
		}
		done(stat, err)
	})
}

func (w *watchedLink) Children(path string, done func(names []string, stat *zk.Stat, err error)) {
	read(w, "children", path, watchChildren, askChildren, func(r withStat[[]string], err error) { done(r.value, r.stat, err) })
}

// read sends a read that sets a watch. The watch is noted before the answer, so that a persistent watch that serves it stays, and
// again when it is there: until then events are those of an earlier one.
func read[T any](w *watchedLink, op, path string, kind watchKind, ask func(path string, watch bool) question[T], done func(T, error)) {
	real, ws := w.client.real(path), &w.link.watches
	ws.order.Lock()
	defer ws.order.Unlock()
	ws.mu.Lock()
	request := ws.requestLocked(watchKey{real, kind})
	w.change(real, 1<<kind, 0)
	ws.mu.Unlock()
	post(w.linkView, op, path, ask(real, request), func(value T, err error) {
		if err == nil {
			w.change(real, 1<<kind, 0)
		} else {
			w.change(real, 0, 1<<kind)
		}
		done(value, err)
	})
}

// change adds and drops watches at path, and returns those that were there.
func (w *watchedLink) change(path string, add, drop kinds) (was kinds) {
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
func (w *watchedLink) fire(event zk.Event, list []watchKind) {
	var fired kinds
	for _, kind := range list {
		fired |= 1 << kind
	}
	if w.change(event.Path, 0, fired)&fired != 0 {
		event.Path = w.client.unreal(event.Path)
		w.f(event)
	}
}

// removeAtOnce is how many watches are removed before an answer is waited for, so that other requests come in between.
const removeAtOnce = 64

// remove takes from the server what nobody else needs. A ClickHouse Keeper is not asked: not all of them know how.
func (w *watchedLink) remove() {
	l, ctx := w.link, w.client.core.ctx
	if _, err := ask(ctx, l, askExists("/", false)); byKeeper(l.conn.Grant) || err != nil && !errors.Is(err, zk.ErrNoNode) {
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
