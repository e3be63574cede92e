package cache

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
)

// loop keeps the tree in step with the ensemble on one connection. Everything in it belongs to the cache's goroutine, which
// calls the functions in the inbox one after the other: events and answers, in the order of the connection. So
//
//   - an answer is at least as new as all events that were handled before it, and older than all that follow. An event about
//     what is just being read needs no second read;
//   - "no such node" removes all below, as does a list or a stat that shows no such child, without a question;
//   - the load reads each node from the root down. What an event says of a node that the load has not reached is dropped.
type loop struct {
	c          *Cache
	link       engine.Link
	remove     func() // ends the watch
	number     uint32 // different from that of any other loop of the cache, and not 0
	oneShot    bool   // the server has standard watches only, which reads set
	newSession bool   // until the load has ended

	inbox    inbox
	marks    map[string]*mark // what is to be read, is being read, or cannot be read
	ready    []*mark          // in order
	inFlight int              // requests
	busy     int              // marks that are to be read, now or after a pause
	load     waiting
	loaded   bool
	current  bool                  // as it was last shown
	released []func(rootErr error) // of those whose waits have ended
	rootErr  error                 // why the root cannot be read
}

// mark says what is to be read of one path. There is one for a path at most, and so one request at a time.
type mark struct {
	path   string
	state  markState
	asked  ask  // what is being asked for
	todo   ask  // what follows it
	next   ask  // what is to be read again after that, because of an event
	exists bool // by an exists
	level  int  // how often in a row it changed within the pause after a read
	failed int  // times in a row that it could not be read
	timer  *time.Timer
	waits  []*waiting // for what is asked and todo
	later  []*waiting // for what is next
}

type markState int

const (
	idle    markState = iota // it was just read, and is forgotten when the timer fires
	refused                  // the node must not be read: it is tried again when the timer fires, or for a Sync
	paused                   // until the timer fires
	ready                    // in loop.ready
	reading                  // a request is under way
)

// busy is 1 for the states in which something is to be read.
func (s markState) busy() int { return min(int(s/paused), 1) }

// ask is a set of things to read.
type ask int

const (
	theNode ask = 1 << iota // its data and stat
	theList                 // the names of its children
)

// waiting is a load or a Sync: what has to be read until it is done.
type waiting struct {
	left int
	done func(rootErr error) // nil for the load
}

const (
	maxInFlight = 64

	// Pauses between two reads of a node that a server refuses, and of one that fails otherwise.
	minRefused, maxRefused = time.Second, time.Minute
	minFailed, maxFailed   = 50 * time.Millisecond, 5 * time.Second

	// Between two reads of a node there are pauses. They double while it changes in each of them.
	minRest, maxRest = time.Millisecond, 50 * time.Millisecond
)

// begin sets the watch and has the server catch up. All that is read after that is at least as new as anything that was read before
// it, by anybody.
func (c *Cache) begin() (*loop, error) {
	link, err := c.client.Link(c.ctx)
	if err != nil {
		return nil, err
	}
	c.loops++
	l := &loop{c: c, link: link, number: c.loops, newSession: link.Session() != c.session, marks: make(map[string]*mark)}
	if err = l.watch(); err != nil {
		return nil, err
	}
	if err = engine.Ask(c.ctx, link.CatchUp); err != nil {
		l.remove()
		return nil, err
	}
	l.inbox.take() // what came until now is older than the load
	return l, nil
}

func (l *loop) watch() error {
	event := func(e zk.Event) { l.inbox.post(func() { l.event(e) }) }
	err := framework.ErrWatchUnsupported
	if !l.c.cfg.standard {
		mode := engine.Tree
		if l.c.cfg.depth == 0 {
			mode = engine.Node
		}
		err = engine.Ask(l.c.ctx, func(done func(error)) { l.remove = l.link.Watch(l.c.path, mode, event, done) })
	}
	switch {
	case errors.Is(err, framework.ErrWatchUnsupported):
		l.oneShot = true
		l.link, l.remove = l.link.Watched(event)
		return nil
	case err != nil && l.remove != nil:
		l.remove()
	}
	return err
}

// run loads the tree and then follows it. It returns when the connection or the cache has ended.
func (l *loop) run() {
	defer l.remove()
	l.mark(l.c.path, theNode, &l.load)
	for {
		l.send()
		l.report()
		select {
		case <-l.link.Down():
			return
		case <-l.c.ctx.Done():
			return
		case <-l.inbox.wake.C():
		}
		for _, do := range l.inbox.take() {
			do()
		}
	}
}

// report shows whether the copy is current, and then lets those go on whose wait has ended.
func (l *loop) report() {
	ended := !l.loaded && l.load.left == 0
	if ended {
		l.loaded, l.newSession = true, false
		l.marks = maps.Collect(maps.All(l.marks)) // a map does not shrink
		l.c.endLoad()
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

// catchUp calls done when the server has caught up, and everything has been read of which it had reported a change. Any goroutine may
// call it. If the connection ends done may never be called.
func (l *loop) catchUp(done func(rootErr error)) {
	l.link.CatchUp(func(err error) {
		if err == nil {
			l.inbox.post(func() { l.sync(done) })
		}
	})
}

// sync calls done when everything has been read that is to be read at this moment. That includes nodes which could not be read
// before, since nothing tells when that changes.
func (l *loop) sync(done func(rootErr error)) {
	w := &waiting{left: 1, done: done}
	for _, m := range l.marks {
		if m.state == refused {
			l.queue(m)
		}
		if m.state != idle {
			l.attach(m, w)
		}
	}
	l.release([]*waiting{w})
}

func (l *loop) release(waits []*waiting) {
	for _, w := range waits {
		if w.left--; w.left == 0 && w.done != nil {
			l.released = append(l.released, w.done)
		}
	}
}

// mark has something of a path read. waits are done no earlier than that.
func (l *loop) mark(path string, what ask, waits ...*waiting) {
	m := l.marks[path]
	if m == nil {
		m = &mark{path: path}
		l.marks[path] = m
		l.queue(m)
	}
	switch m.state {
	case reading:
		m.next |= what &^ (m.asked | m.todo) // the answers to those are newer
	case idle:
		m.todo, m.level = what, m.level+1
		l.set(m, paused)
	case refused:
		l.queue(m)
	default:
		m.todo |= what
	}
	l.attach(m, waits...)
}

// attach makes waits wait for what is to be read of m, each of them once.
func (l *loop) attach(m *mark, waits ...*waiting) {
	list := &m.waits
	if m.next != 0 {
		list = &m.later
	}
	for _, w := range waits {
		if !slices.Contains(*list, w) {
			w.left++
			*list = append(*list, w)
		}
	}
	if len(waits) > 0 && m.state == paused {
		l.queue(m)
	}
}

func (l *loop) set(m *mark, s markState) {
	l.busy += s.busy() - m.state.busy()
	m.state = s
}

func (l *loop) queue(m *mark) {
	m.timer = nil
	l.set(m, ready)
	l.ready = append(l.ready, m)
}

// pause puts m into a state that ends after d: with another read, or with the end of the mark if it is still idle.
func (l *loop) pause(m *mark, s markState, d time.Duration) {
	l.set(m, s)
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		l.inbox.post(func() {
			switch {
			case m.timer != timer: // it has gone on
			case m.state == idle:
				delete(l.marks, m.path)
			default:
				l.queue(m)
			}
		})
	})
	m.timer = timer
}

// backedOff is the nth of pauses that double, from 0 on.
func backedOff(first, last time.Duration, n int) time.Duration { return min(first<<min(n, 20), last) }

// send sends as many requests as may be under way.
func (l *loop) send() {
	for l.inFlight < maxInFlight && len(l.ready) > 0 {
		m := l.ready[0]
		l.ready[0] = nil
		l.ready = l.ready[1:]
		l.set(m, reading)
		l.inFlight++
		l.c.reads.Add(1)
		l.ask(m)
	}
	if len(l.ready) == 0 {
		l.ready = nil
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
		answer(err, func() { l.found(m, &value{data, *stat}) })
	}
	switch m.asked = theNode; {
	case m.todo&theNode == 0:
		m.asked = theList
		l.link.Children(m.path, func(names []string, stat *zk.Stat, err error) {
			answer(err, func() { l.listed(m, names, stat.Czxid) })
		})
	case m.exists || l.c.cfg.withoutData && !l.oneShot: // an exists of a missing node would leave a standard watch
		l.link.Exists(m.path, func(stat *zk.Stat, err error) { found(nil, stat, err) })
	default:
		l.link.Get(m.path, found)
	}
	m.todo &^= m.asked
}

// answered takes in how a request has ended, and reports whether there is something to take in.
func (l *loop) answered(m *mark, err error) bool {
	l.inFlight--
	missing, denied := errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth)
	root, exists := m.path == l.c.path, m.exists
	m.exists = false
	if root && denied {
		l.rootErr = zk.ErrNoAuth
	} else if root {
		l.rootErr = nil
	}
	switch {
	case err == nil && exists && !l.c.cfg.withoutData: // the root is there by now
		m.todo = theNode
		return false
	case err == nil:
		return true
	case missing:
		m.todo = 0
		l.removeAll(l.c.tree.find(m.path))
		if root && l.oneShot && !exists { // only an exists sets a watch for a missing node
			m.todo, m.exists = theNode, true
		}
	case denied && l.oneShot && l.c.cfg.withoutData && m.asked == theNode && !exists:
		m.todo, m.exists = m.todo|theNode, true // a stat needs no permission
	case denied: // neither the node nor what is below it is shown
		m.todo, m.next = theNode, 0
		l.removeAll(l.c.tree.find(m.path))
		l.release(m.waits)
		l.release(m.later)
		m.waits, m.later = nil, nil
		l.pause(m, refused, backedOff(minRefused, maxRefused, m.failed))
		m.failed++
	default:
		m.todo |= m.asked
		l.retryLater(m)
	}
	return false
}

func (l *loop) retryLater(m *mark) {
	l.pause(m, paused, backedOff(minFailed, maxFailed, m.failed))
	m.failed++
}

// proceed goes on with what is to be read of m, if it is not paused.
func (l *loop) proceed(m *mark) {
	m.asked = 0
	switch {
	case m.state != reading:
		return
	case m.todo != 0:
		l.queue(m)
		return
	}
	m.failed = 0
	l.release(m.waits)
	m.waits, m.later = m.later, nil
	m.todo, m.next = m.next, 0
	rest := backedOff(minRest, maxRest, m.level)
	switch {
	case m.todo != 0 && (!l.loaded || len(m.waits) > 0):
		l.queue(m)
	case m.todo != 0:
		m.level++
		l.pause(m, paused, rest)
	case l.loaded:
		l.pause(m, idle, rest)
	default:
		l.set(m, idle)
		delete(l.marks, m.path)
	}
}

// found takes in the stat, and the data, of a node that is there.
func (l *loop) found(m *mark, v *value) {
	n, root := l.c.tree.find(m.path), m.path == l.c.path
	if !root && !l.reached(l.c.tree.parent(m.path)) {
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
	if another || v.stat.NumChildren == 0 {
		l.removeBelow(n) // of another node before it
	}
	if (another || !l.reached(n)) && l.c.lists(m.path) && (v.stat.NumChildren > 0 || l.oneShot) {
		m.todo |= theList
	}
	l.c.put(m.path, n, v).read = l.number
}

// listed takes in the names of children.
func (l *loop) listed(m *mark, names []string, czxid int64) {
	n := l.c.tree.find(m.path)
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
	for name, child := range n.children {
		if _, ok := there[name]; !ok {
			l.removeAll(child)
		}
	}
}

// reached reports whether a node was found on this connection.
func (l *loop) reached(n *node) bool { return n != nil && n.read == l.number }

// startAgain drops the copy and loads it again: the ensemble was restored from a backup.
func (l *loop) startAgain() {
	l.newSession = false
	l.removeAll(l.c.tree.root)
	l.mark(l.c.path, theNode)
	root := l.marks[l.c.path]
	for _, m := range l.marks {
		l.attach(root, slices.Concat(m.waits, m.later)...)
	}
}

// removeAll takes out a node, and all below it before it. n may be nil.
func (l *loop) removeAll(n *node) {
	l.removeBelow(n)
	if n != nil {
		l.c.remove(n)
	}
}

func (l *loop) removeBelow(n *node) {
	if n == nil {
		return
	}
	for _, child := range n.children {
		l.removeAll(child)
	}
}

// event takes in what a watch reports.
func (l *loop) event(e zk.Event) {
	n := l.c.tree.find(e.Path)
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
		l.removeAll(n)
		if l.oneShot && e.Path == l.c.path {
			l.mark(e.Path, theNode) // for a watch
		}
	case e.Type == zk.EventNotWatching && l.c.lists(e.Path):
		l.mark(e.Path, theNode|theList)
	default:
		l.mark(e.Path, theNode)
	}
}

// unknown takes in an event about a node that is not in the tree. If its parent is not there either, and is not to be read, the
// client was not allowed to read that when it was created: the topmost such node is read, and then what is below it.
func (l *loop) unknown(e zk.Event) {
	for path := e.Path; ; {
		dir, _ := framework.Split(path)
		switch parent, m := l.c.tree.find(dir), l.marks[dir]; {
		case path == l.c.path || l.reached(parent):
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
