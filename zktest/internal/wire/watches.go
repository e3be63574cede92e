package wire

import (
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/zktest/internal/tree"
)

// watchModes say how long the watches of a path last and how far they reach. At least one is set.
type watchModes int

const (
	watchOnce watchModes = 1 << iota
	watchPersistent
	watchRecursive
	watchAny watchModes = 1<<iota - 1
)

// watcher holds the watches of one connection. They end with it, and clients set them again.
type watcher struct {
	data     map[string]watchModes // also exists
	children map[string]watchModes
	notified uint64 // the last event that was sent to it, as watchIndex.current
	index    *watchIndex
	client   watching
}

// watching is the connection of a watcher.
type watching interface {
	event(zxid int64, e tree.Event, path string)
}

// watchIndex finds the watchers of a path, so that an event costs nothing for all others.
type watchIndex struct {
	rules     *tree.Rules
	direct    map[string]map[*watcher]struct{} // they watch the path itself, in any mode
	recursive map[string]map[*watcher]struct{} // they watch everything below the path as well
	current   uint64                           // number of the event that is being sent
}

func newWatchIndex(rules *tree.Rules) watchIndex {
	return watchIndex{rules: rules, direct: make(map[string]map[*watcher]struct{}), recursive: make(map[string]map[*watcher]struct{})}
}

// watcher returns a watcher without watches.
func (x *watchIndex) watcher(client watching) watcher {
	return watcher{data: make(map[string]watchModes), children: make(map[string]watchModes), index: x, client: client}
}

// enter notes whether a watcher belongs to a path.
func enter(index map[string]map[*watcher]struct{}, path string, w *watcher, belongs bool) {
	watchers := index[path]
	switch {
	case belongs && watchers == nil:
		index[path] = map[*watcher]struct{}{w: {}}
	case belongs:
		watchers[w] = struct{}{}
	case watchers != nil:
		delete(watchers, w)
		if len(watchers) == 0 {
			delete(index, path)
		}
	}
}

// count is the number of watches as real servers count them.
func (w *watcher) count() int { return len(w.data) + len(w.children) }

// watch sets a watch in w.data, in w.children, or in both. In 3.8 the later watch of a path
// replaces the earlier one.
func (w *watcher) watch(path string, mode watchModes, tables ...map[string]watchModes) {
	for _, table := range tables {
		if w.index.rules.Version >= tree.V39 {
			table[path] |= mode
		} else {
			table[path] = mode
		}
	}
	w.update(path)
}

// watchLonger sets a watch that lasts. A recursive watch learns of children in any case.
func (w *watcher) watchLonger(path string, mode watchModes) {
	if mode == watchRecursive && w.index.rules.Version >= tree.V39 {
		w.watch(path, mode, w.data)
	} else {
		w.watch(path, mode, w.data, w.children)
	}
}

// unwatch removes watches of a path that have one of these modes.
func (w *watcher) unwatch(path string, table map[string]watchModes, modes watchModes) {
	if left := table[path] &^ modes; left != 0 {
		table[path] = left
	} else {
		delete(table, path)
	}
	w.update(path)
}

// unwatchAll removes all watches.
func (w *watcher) unwatchAll() {
	data, children := w.data, w.children
	w.data, w.children = make(map[string]watchModes), make(map[string]watchModes)
	for _, table := range []map[string]watchModes{data, children} {
		for path := range table {
			w.update(path)
		}
	}
}

// update brings the index up to date with the watches of a path.
func (w *watcher) update(path string) {
	data, onData := w.data[path]
	_, onChildren := w.children[path]
	enter(w.index.direct, path, w, onData || onChildren)
	enter(w.index.recursive, path, w, onData && data&watchRecursive != 0)
}

// fire reports whether an event concerns the watcher's own watches of its path, and removes those
// that are used up.
func (w *watcher) fire(e tree.Event) (notified bool) {
	look := func(table map[string]watchModes) {
		modes, found := table[e.Path]
		if !found {
			return
		}
		if e.Kind == tree.EventChildren && modes == watchRecursive {
			return // it gets the event of the child itself
		}
		notified = true
		if modes&watchOnce != 0 {
			w.unwatch(e.Path, table, watchOnce)
		}
	}
	if e.Kind != tree.EventChildren {
		look(w.data)
	}
	if e.Kind == tree.EventChildren || e.Kind == tree.EventDeleted {
		look(w.children)
	}
	return notified
}

// noZxid is in the header of an event that does not name its transaction.
const noZxid = -1

// notify sends a transaction's events to the watchers, each event once to each.
func (x *watchIndex) notify(zxid int64, events []tree.Event) {
	if x.rules.Version < tree.V39 {
		zxid = noZxid
	}
	for _, e := range events {
		x.current++
		for w := range x.direct[e.Path] {
			if w.fire(e) {
				w.once(zxid, e, e.Path)
			}
		}
		if e.Kind == tree.EventChildren || len(x.recursive) == 0 {
			continue
		}
		for path := e.Path; path != "/"; {
			path, _ = tree.Split(path)
			for w := range x.recursive[path] {
				w.once(zxid, e, x.rules.EventPath(e, path))
			}
		}
	}
}

// once sends an event, with this path, unless it was sent already.
func (w *watcher) once(zxid int64, e tree.Event, path string) {
	if w.notified != w.index.current {
		w.notified = w.index.current
		w.client.event(zxid, e, path)
	}
}

// add sets a watch that lasts.
func (w *watcher) add(r *proto.WatchRequest) (proto.Record, proto.Code) {
	var mode watchModes
	switch r.Kind {
	case proto.WatchPersistent:
		mode = watchPersistent
	case proto.WatchRecursive:
		mode = watchRecursive
	default:
		return nil, proto.MarshallingError
	}
	w.watchLonger(r.Path, mode)
	return &proto.ErrorResponse{}, proto.OK
}

// drop removes watches, or only reports whether there are any to remove.
func (w *watcher) drop(op proto.Op, r *proto.WatchRequest) proto.Code {
	data, children, known := w.index.modesOf(r.Kind)
	if !known {
		return proto.MarshallingError
	}
	if w.data[r.Path]&data == 0 && w.children[r.Path]&children == 0 {
		return proto.NoWatcher
	}
	if op == proto.OpRemoveWatches {
		w.unwatch(r.Path, w.data, data)
		w.unwatch(r.Path, w.children, children)
	}
	return proto.OK
}

// modesOf returns the modes that a request to remove watches names in each table. 3.8 removes all
// modes of a table, and 3.9 one mode.
func (x *watchIndex) modesOf(kind int32) (data, children watchModes, known bool) {
	if kind == proto.WatcherAny {
		return watchAny, watchAny, true
	}
	old := x.rules.Version < tree.V39
	switch {
	case kind == proto.WatcherChildren && old:
		return 0, watchAny, true
	case kind == proto.WatcherChildren:
		return 0, watchOnce, true
	case kind == proto.WatcherData && old:
		return watchAny, 0, true
	case kind == proto.WatcherData:
		return watchOnce, 0, true
	case kind == proto.WatcherPersistent && !old:
		return watchPersistent, watchPersistent, true
	case kind == proto.WatcherRecursive && !old:
		return watchRecursive, 0, true
	}
	return 0, 0, false
}
