package cache

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
)

// loop keeps the copy in step with the ensemble on one connection. Everything in it belongs to the cache's goroutine, which
// calls the functions in the inbox one after the other: events and answers, in the order of the connection. So
//
//   - an answer is at least as new as all events that were handled before it, and older than all that follow. An event about
//     what is just being read needs no second read;
//   - "no such node" removes all below, as does a list or a stat that shows no such child, without a question;
//   - the load reads each node from the root down. What an event says of a node that the load has not reached is dropped.
//
// An event marks a path (event), which is read (ask); the answer goes into the copy, and so to the readers of changes (found, listed,
// answered). When a mark is read says mark.go.
type loop struct {
	c       *Cache
	link    engine.Link
	number  uint32 // different from that of any other loop of the cache, and not 0
	oneShot bool   // the server has standard watches only, which reads set
	inbox   inbox
	marks

	load       waiting
	newSession bool  // until the load has ended
	loaded     bool  // as it was last shown
	current    bool  // as it was last shown
	rootErr    error // why the root cannot be read
}

// run sets the watch and has the server catch up: all that is read after that is at least as new as anything that was read before it,
// by anybody. Then it loads the tree and follows it. It returns when the connection or the cache has ended.
func (l *loop) run() error {
	remove, err := l.watch()
	if err != nil {
		return err
	}
	defer remove()
	if err := engine.Ask(l.c.ctx, l.link.CatchUp); err != nil {
		return err
	}
	l.inbox.take() // what came until now is older than the load
	l.c.show(l, nil, false, false)
	l.mark(l.c.Path(), theNode, &l.load)
	for {
		l.send()
		l.report()
		select {
		case <-l.link.Down():
			return nil
		case <-l.c.ctx.Done():
			return nil
		case <-l.inbox.wake.C():
		}
		for _, do := range l.inbox.take() {
			do()
		}
	}
}

func (l *loop) watch() (remove func(), err error) {
	event := func(e zk.Event) { l.inbox.post(func() { l.event(e) }) }
	err = framework.ErrWatchUnsupported
	if !l.c.cfg.standard {
		mode := engine.Tree
		if l.c.cfg.depth == 0 {
			mode = engine.Node
		}
		err = engine.Ask(l.c.ctx, func(done func(error)) { remove = l.link.Watch(l.c.Path(), mode, event, done) })
	}
	switch {
	case errors.Is(err, framework.ErrWatchUnsupported):
		l.oneShot = true
		l.link, remove = l.link.Watched(event)
		return remove, nil
	case err != nil && remove != nil:
		remove()
	}
	return remove, err
}

// report shows whether the copy is current, and then lets those go on whose wait has ended.
func (l *loop) report() {
	ended := !l.loaded && l.load.left == 0
	if ended {
		l.loaded, l.newSession = true, false
		l.byPath = maps.Collect(maps.All(l.byPath)) // a map does not shrink
		l.c.counts.resyncs.Add(1)
		l.c.nodes.endLoad()
	}
	if current := l.loaded && l.busy == 0; ended || current != l.current {
		l.current = current
		l.c.show(l, nil, l.loaded, current)
	}
	for _, done := range l.released {
		done(l.rootErr)
	}
	l.released = nil
}

// event takes in what a watch reports.
func (l *loop) event(e zk.Event) {
	n := l.c.nodes.find(e.Path)
	switch {
	case !l.c.covers(e.Path):
	case e.Type == zk.EventNodeChildrenChanged:
		if l.oneShot && l.reached(n) && l.c.lists(e.Path) {
			l.mark(e.Path, theList)
		}
	case n == nil:
		l.unknown(e)
	case !l.reached(n): // the load will come to it
	case e.Type == zk.EventNodeDeleted:
		l.removeAll(e.Path)
		if l.oneShot && e.Path == l.c.Path() {
			l.mark(e.Path, theNode) // for a watch
		}
	case e.Type == zk.EventNotWatching && l.c.lists(e.Path):
		l.mark(e.Path, theNode|theList)
	default:
		l.mark(e.Path, theNode)
	}
}

// unknown takes in an event about a node that is not in the copy. If its parent is not there either, and is not to be read, the
// client was not allowed to read that when it was created: the topmost such node is read, and then what is below it.
func (l *loop) unknown(e zk.Event) {
	for path := e.Path; ; {
		dir, _ := framework.Split(path)
		switch parent, m := l.c.nodes.find(dir), l.byPath[dir]; {
		case path == l.c.Path() || l.reached(parent):
			if e.Type != zk.EventNodeDeleted || path != e.Path {
				l.mark(path, theNode)
			}
			return
		case parent != nil || m != nil && m.state != idle:
			return // it is about to be read and listed
		}
		path = dir
	}
}

// ask sends the next request for m.
func (l *loop) ask(m *mark) {
	answer := func(err error, take func()) {
		l.inbox.post(func() {
			if l.answered(m, err) {
				take()
			}
			l.proceed(m)
		})
	}
	found := func(data []byte, stat *zk.Stat, err error) {
		if l.c.cfg.withoutData {
			data = nil
		}
		answer(err, func() { l.found(m, &value{data, *stat, l.number}) })
	}
	m.asked = m.first()
	m.todo &^= m.asked
	switch {
	case m.asked == theList:
		l.link.Children(m.path, func(names []string, stat *zk.Stat, err error) {
			answer(err, func() { l.listed(m, names, stat.Czxid) })
		})
	case m.asked == theStat || l.c.cfg.withoutData && !l.oneShot: // an exists of a missing node would leave a standard watch
		l.link.Exists(m.path, func(stat *zk.Stat, err error) { found(nil, stat, err) })
	default:
		l.link.Get(m.path, found)
	}
}

// answered takes in how a request has ended, and reports whether there is something to take in.
func (l *loop) answered(m *mark, err error) bool {
	l.inFlight--
	root, denied := m.path == l.c.Path(), errors.Is(err, zk.ErrNoAuth)
	if root {
		l.rootErr = nil
	}
	switch {
	case err == nil && m.asked == theStat && !l.c.cfg.withoutData: // the root is there by now
		m.todo |= theNode
	case err == nil:
		return true
	case errors.Is(err, zk.ErrNoNode):
		m.todo = 0
		l.removeAll(m.path)
		if root && l.oneShot && m.asked != theStat { // only an exists sets a watch for a missing node
			m.todo = theStat
		}
	case denied && l.oneShot && l.c.cfg.withoutData && m.asked == theNode:
		m.todo |= theStat // it needs no permission
	case denied: // neither the node nor what is below it is shown
		l.removeAll(m.path)
		l.refuse(m)
		if root {
			l.rootErr = zk.ErrNoAuth
		}
	default:
		m.todo |= m.asked
		l.retryLater(m)
	}
	return false
}

// found takes in the stat, and the data, of a node that is there.
func (l *loop) found(m *mark, v *value) {
	dir, _ := framework.Split(m.path)
	n, root := l.c.nodes.find(m.path), m.path == l.c.Path()
	if !root && !l.reached(l.c.nodes.find(dir)) {
		return // it will be read when its parent is
	}
	if n != nil && n.value.compare(&v.stat) > 0 {
		if !l.newSession { // the server is behind, although it has caught up
			m.todo |= theNode
			l.retryLater(m)
			return
		}
		l.startAgain()
		if n = nil; !root {
			return
		}
	}
	another := n == nil || n.value.stat.Czxid != v.stat.Czxid
	if another && !root && l.oneShot && l.askFirst(dir) {
		m.todo |= theNode
		return // it may be a child of a parent that was made again, whose watches had been used up before
	}
	if another {
		l.removeAll(m.path)
		n = nil
	}
	if v.stat.NumChildren == 0 {
		l.removeBelow(m.path)
	}
	if !l.reached(n) && l.c.lists(m.path) && (v.stat.NumChildren > 0 || l.oneShot) {
		m.todo |= theList
	}
	l.put(m.path, n, v)
}

// put sets the value of the node at path, which is n unless that is nil.
func (l *loop) put(path string, n *node[value], v *value) {
	changed := n == nil || n.value.stat.Mzxid != v.stat.Mzxid
	if !changed {
		v.data = n.value.data // only what is said of children and ACL is new
	}
	if n != nil {
		l.c.counts.bytes.Add(-int64(len(n.value.data)))
	}
	l.c.counts.bytes.Add(int64(len(v.data)))
	l.c.nodes.put(path, v, changed)
}

// listed takes in the names of children.
func (l *loop) listed(m *mark, names []string, czxid int64) {
	n := l.c.nodes.find(m.path)
	switch {
	case n == nil:
		return // it was deleted before, and made again: there was an event
	case n.value.stat.Czxid != czxid: // deleted and made again while the client was not allowed to read it
		m.todo |= theNode
		return
	}
	there := make(map[string]struct{}, min(len(names), len(n.children)))
	waits := slices.Concat(m.waits, m.later)
	for _, name := range names {
		child, path := n.children[name], framework.Join(m.path, name)
		if child != nil {
			there[name] = struct{}{}
		}
		if !l.reached(child) && l.c.keeps(path) {
			l.mark(path, theNode, waits...)
		}
	}
	for name := range n.children {
		if _, ok := there[name]; !ok {
			l.removeAll(framework.Join(m.path, name))
		}
	}
}

// reached reports whether a node was found on this connection.
func (l *loop) reached(n *node[value]) bool { return n != nil && n.value.loop == l.number }

// startAgain drops the copy and loads it again: the ensemble was restored from a backup.
func (l *loop) startAgain() {
	l.newSession = false
	l.removeAll(l.c.Path())
	l.mark(l.c.Path(), theNode)
	root := l.byPath[l.c.Path()]
	for _, m := range l.byPath {
		l.attach(root, slices.Concat(m.waits, m.later)...)
	}
}

// removeAll takes out the node at path, if there is one, and all below it before it.
func (l *loop) removeAll(path string) {
	l.removeBelow(path)
	if n := l.c.nodes.find(path); n != nil {
		l.c.counts.bytes.Add(-int64(len(n.value.data)))
		l.c.nodes.remove(path)
	}
}

func (l *loop) removeBelow(path string) {
	if n := l.c.nodes.find(path); n != nil {
		for name := range n.children {
			l.removeAll(framework.Join(path, name))
		}
	}
}

// inbox is a queue without a limit, so that the connection's goroutine never waits for the cache.
type inbox struct {
	wake wait.Signal

	mu    sync.Mutex // guards queue
	queue []func()
}

func (b *inbox) post(do func()) {
	b.mu.Lock()
	b.queue = append(b.queue, do)
	b.mu.Unlock()
	b.wake.Raise()
}

// take returns all functions in order.
func (b *inbox) take() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.queue
	b.queue = nil
	return taken
}
