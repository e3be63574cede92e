package cache

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/wait"
)

// follower keeps the copy in step with the ensemble on one connection. Its fields belong to the
// cache's goroutine, which calls the functions in the inbox one after the other: events and
// replies, in the order of the connection.
type follower struct {
	c        *Cache
	link     engine.Link
	number   uint32 // different for each follower of the cache, and not 0
	standard bool   // the server has standard watches only, which reads set
	// inbox has no limit, so the connection's goroutine never waits for the cache.
	inbox wait.Value[[]func()]

	byPath   map[string]*mark
	ready    []*mark  // those in state ready, in order
	inFlight int      // requests
	rounds   []*round // rounds of marks, the oldest first; the last round is open

	reported atomic.Int64 // events of the watch
	// taken is the number of events that functions of the inbox have processed.
	taken              int64
	newSession, loaded bool  // until the load has ended, and from then on
	rootErr            error // why the root cannot be read
}

// run sets the watch and makes the server catch up: every later read is at least as new as any
// earlier one. Then it loads the tree and follows it. It returns when the connection or the cache
// has ended.
func (f *follower) run() error {
	remove, err := f.watch()
	defer remove()
	if err != nil {
		return err
	}
	if err := engine.Ask(f.c.ctx, f.link.CatchUp); err != nil {
		return err
	}
	f.byPath, f.rounds = make(map[string]*mark), []*round{{}}
	f.mark(f.c.Path(), f.open())
	f.closeRound(make(chan error, 1))
	for f.c.ctx.Err() == nil && !wait.Closed(f.link.Down()) {
		f.send()
		f.report()
		posted, more := f.inbox.Get()
		if len(posted) == 0 {
			select {
			case <-f.link.Down():
			case <-f.c.ctx.Done():
			case <-more:
			}
		}
		f.inbox.Set(func(all *[]func()) { posted, *all = *all, nil })
		for _, do := range posted {
			do()
		}
	}
	return nil
}

// post queues do for the cache's goroutine.
func (f *follower) post(do func()) { f.inbox.Set(func(all *[]func()) { *all = append(*all, do) }) }

// watch sets the watch. If the server has only standard watches, the reads set them.
func (f *follower) watch() (remove func(), err error) {
	event := func(e zk.Event) {
		f.reported.Add(1)
		f.post(func() { f.event(e) })
	}
	mode := wire.Tree
	if f.c.cfg.depth == 0 {
		mode = wire.Node
	}
	err = engine.Ask(f.c.ctx, func(done func(error)) { remove = f.link.Watch(f.c.Path(), mode, event, done) })
	if !errors.Is(err, framework.ErrWatchUnsupported) {
		return remove, err
	}
	f.standard = true
	f.link, remove = f.link.Watched(event)
	return remove, nil
}

// report shows whether the copy is current, and then ends the Syncs whose rounds are done.
func (f *follower) report() {
	unread := func(r *round) bool { return r.left > 0 }
	if !f.loaded && !unread(f.rounds[0]) {
		f.loaded, f.newSession = true, false
		f.byPath = maps.Collect(maps.All(f.byPath)) // a map does not shrink
		f.c.counts.resyncs.Add(1)
		f.c.nodes.endLoad()
	}
	f.c.show(status{follower: f, loaded: f.loaded, current: f.loaded && !slices.ContainsFunc(f.rounds, unread), taken: f.taken})
	for len(f.rounds) > 1 && !unread(f.rounds[0]) {
		f.rounds[0].done <- f.rootErr
		f.rounds = f.rounds[1:]
	}
}

// The way of a change: an event marks a path (event, unknown); reads.go decides when it is read
// (read, list); the reply is put into the copy (found, take, listed, failed, put) and into the
// readers' queues (feed.go).
//
// Events and replies arrive in one order: see package engine. So an event about a node that is
// being read needs no second read. The load reads from the root down, and drops events about nodes
// that it has not reached.

// event handles an event of the watch.
func (f *follower) event(e zk.Event) {
	f.taken++
	n := f.c.nodes.find(e.Path)
	switch {
	case e.Type == zk.EventNodeChildrenChanged && (n == nil || !f.c.lists(e.Path)):
		// The copy does not change.
	case n == nil:
		f.unknown(e.Path)
	case !f.reached(n) && f.byPath[e.Path] == nil: // the load will reach it
	case e.Type == zk.EventNodeDeleted && !(f.standard && e.Path == f.c.Path()):
		// A root with standard watches is read instead, which sets a watch.
		f.removeAll(e.Path)
	default:
		f.mark(e.Path, f.open())
	}
}

// unknown handles an event about a node that is not in the copy. If its parent is not in it either,
// and is not about to be read, the client was not allowed to read the parent when it was created:
// then the topmost such node is read first, and everything below it after that.
func (f *follower) unknown(path string) {
	if !f.c.nodes.holds(path) {
		return
	}
	top := f.c.Path()
	parent, dir := f.c.nodes.nearest(path)
	if parent != nil {
		top = step(dir, path)
	}
	switch m := f.byPath[top]; {
	case top != path && m != nil && m.state != idle: // it is about to be read, and then listed
	case top == f.c.Path() || f.reached(parent) && f.c.lists(dir) && f.c.keeps(top):
		f.mark(top, f.open())
	} // otherwise it will be listed, or does not belong to the copy
}

// read requests the stat of nodes, and their data if the copy or WithOnChange has them.
func (f *follower) read(marks ...*mark) {
	paths := make([]string, len(marks))
	for i, m := range marks {
		f.asks(m, reading)
		paths[i] = m.path
	}
	found := func(i int, data []byte, stat *zk.Stat, err error) {
		f.answered(marks[i], err, func() { f.decode(marks[i], data, stat) })
	}
	// A standard watch of an exists would outlive a deleted node.
	if f.standard || !f.c.cfg.withoutData || f.c.cfg.onChange != nil {
		f.link.GetAll(paths, found)
		return
	}
	for i, path := range paths {
		f.link.Exists(path, func(stat *zk.Stat, err error) { found(i, nil, stat, err) })
	}
}

// decode handles the reply to a read.
func (f *follower) decode(m *mark, data []byte, stat *zk.Stat) {
	plain, err := f.link.Decode(data)
	if err != nil {
		f.failed(m, err)
		return
	}
	f.found(m, &value{plain, *stat})
}

// list requests the names of a node's children.
func (f *follower) list(m *mark) {
	f.asks(m, listing)
	f.link.Children(m.path, func(names []string, stat *zk.Stat, err error) {
		f.answered(m, err, func() { f.listed(m, names, stat) })
	})
}

// failed handles a failed request.
func (f *follower) failed(m *mark, err error) {
	switch {
	case errors.Is(err, zk.ErrNoNode):
		f.removeAll(m.path)
		// Only an exists sets a standard watch on a missing node.
		if f.standard && m.state == reading && m.path == f.c.Path() {
			f.asks(m, listing)
			f.link.Exists(m.path, func(_ *zk.Stat, err error) { f.answered(m, err, func() { f.queue(m) }) })
			return
		}
		f.done(m, nil)
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, framework.ErrNotCompressed):
		// Neither the node nor its descendants are shown.
		f.removeAll(m.path)
		f.done(m, err)
	default:
		f.rest(m, paused, minFailed, maxFailed)
	}
}

// found handles the stat and the data of a node, unless the node has to be read again.
func (f *follower) found(m *mark, v *value) {
	dir, _ := framework.Split(m.path)
	n, root := f.c.nodes.find(m.path), m.path == f.c.Path()
	older := n != nil && cmp.Or(cmp.Compare(n.value.stat.Czxid, v.stat.Czxid), cmp.Compare(n.value.stat.Mzxid, v.stat.Mzxid)) > 0
	another := n == nil || n.value.stat.Czxid != v.stat.Czxid
	switch parent := f.byPath[dir]; {
	case !root && !f.reached(f.c.nodes.find(dir)): // it will be read when its parent is
		f.done(m, nil)
	case older && f.newSession:
		// The ensemble was restored from a backup: the copy is dropped and loaded again.
		f.removeAll(f.c.Path())
		f.done(m, nil)
		f.mark(f.c.Path(), f.rounds[0])
	case older: // the server lags behind
		f.rest(m, paused, minFailed, maxFailed)
	case another && !root && f.standard && parent.unread():
		// The parent, whose watches have fired, may have been recreated.
		if parent.state == paused {
			f.queue(parent)
		}
		f.queue(m)
	default:
		f.take(m, v, another)
	}
}

// take puts the result of a read into the copy, and lists the node's children if they are not
// known. The node may have been recreated since the last read.
func (f *follower) take(m *mark, v *value, another bool) {
	switch {
	case another:
		f.removeAll(m.path)
	case v.stat.NumChildren == 0:
		f.removeBelow(m.path, f.c.nodes.find(m.path), nil)
	}
	n := f.put(m.path, v)
	if f.c.lists(m.path) && (f.standard || v.stat.NumChildren > 0 && !f.reached(n)) {
		f.list(m)
		return
	}
	n.reached = f.number
	f.done(m, nil)
}

// listed handles the names of a node's children, and its stat. A node that was listed first and has
// changed is read after that.
func (f *follower) listed(m *mark, names []string, stat *zk.Stat) {
	n := f.c.nodes.find(m.path)
	switch {
	case n == nil: // it was deleted and recreated: an event says so
		f.done(m, nil)
		return
	case n.value.stat.Czxid != stat.Czxid || n.value.stat.Mzxid > stat.Mzxid: // found decides
		f.read(m)
		return
	case n.value.stat.Mzxid == stat.Mzxid:
		f.put(m.path, &value{stat: *stat})
	case !f.reached(n):
		join(&m.later, m.round)
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
		if path := framework.Join(m.path, name); !f.reached(n.children[name]) && f.c.keeps(path) {
			f.mark(path, m.round)
		}
	}
	f.removeBelow(m.path, n, there)
	n.reached = f.number
	f.done(m, nil)
}

// reached reports whether a node was read on this connection, and its children were listed.
func (f *follower) reached(n *node[value]) bool { return n != nil && n.reached == f.number }

// removeAll removes the node at path, if it exists, and everything below it before it.
func (f *follower) removeAll(path string) {
	if n := f.c.nodes.find(path); n != nil {
		f.removeBelow(path, n, nil)
		f.put(path, nil)
	}
}

// removeBelow removes the children of n except those in keep, and everything below them.
func (f *follower) removeBelow(path string, n *node[value], keep map[string]bool) {
	for name := range n.children {
		if !keep[name] {
			f.removeAll(framework.Join(path, name))
		}
	}
}

// put calls store.put for a node that was read.
func (f *follower) put(path string, v *value) *node[value] {
	old := f.c.nodes.get(path)
	changed := old == nil || v == nil || old.stat.Mzxid != v.stat.Mzxid
	if !changed {
		v.data = old.data // only the fields about children and ACL are new
	}
	if changed && f.c.cfg.onChange != nil {
		now := change(&item[value]{path: path, old: old, new: v}, (*value).node)
		// The function is called when the copy has the change.
		defer f.c.client.Guard("function of WithOnChange", path, func() { f.c.cfg.onChange(now) })
	}
	if v != nil && f.c.cfg.withoutData {
		v.data = nil // they were read for WithOnChange
	}
	f.c.counts.bytes.Add(int64(len(orZero(v).data) - len(orZero(old).data)))
	return f.c.nodes.put(path, v, changed)
}
