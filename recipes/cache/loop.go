package cache

import (
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// loop keeps the tree in step with the ensemble during one epoch. Everything in it belongs to the cache's goroutine,
// which does what the notes of the inbox say, one after the other. Notes of one connection are in its order: an
// event that the server sent before an answer is handled before that answer.
type loop struct {
	c       *Cache
	e       *epoch
	oneShot bool
	tasks   map[string]*task // of all nodes that are to be read, are being read, or cannot be read
	ready   []*task          // in order; those that were taken out are skipped
	flying  int              // tasks that are being read
	peaked  bool             // tasks had many
	loaded  bool

	afterLoad []*wait             // they wait for the load
	armed     map[*node]watchPair // with standard watches
	rootWatch *framework.Watch    // the same, while there is no root
	err       error               // ends the loop
}

// task is what is to be done about one path. There is one for a path at most, and so one request at a time.
type task struct {
	path    string
	state   taskState
	wanted  ask       // what to ask for next
	asked   ask       // what is being asked for
	useless bool      // the node was deleted after the request was sent
	expects *value    // what the node was when an event said that it has changed
	heat    int       // how much faster it changes than it can be read
	ended   time.Time // when it was last read, in the state cooling
	failed  int       // times in a row that it could not be read
	now     []*wait   // done when the present read is
	next    []*wait   // done when the one after it is
	timer   *time.Timer
}

type taskState int

const (
	ready   taskState = iota
	flying            // a request is under way
	paused            // until the timer fires
	parked            // the same, and nobody waits for it
	cooling           // nothing is to be read; until the timer fires it is remembered that there was much
)

// ask says what is to be read.
type ask struct {
	node bool // its data and stat
	list bool // the names of its children
	deep bool // and all children, which the tree has or the server
}

func (a ask) and(b ask) ask { return ask{a.node || b.node, a.list || b.list, a.deep || b.deep} }

// wait is a load or a Sync: what has to be read until it is done.
type wait struct {
	left int
	done func()
}

func newLoop(c *Cache, e *epoch) *loop {
	return &loop{c: c, e: e, oneShot: e.watch == nil, tasks: make(map[string]*task), armed: make(map[*node]watchPair)}
}

// run loads the tree and then follows it. It returns when the epoch ends.
func (l *loop) run() error {
	load := &wait{left: 1, done: l.endLoad}
	l.want(l.c.path, ask{node: true, list: true, deep: true}, []*wait{load})
	load.release()
	for {
		l.start()
		select {
		case <-l.e.down:
			return errDown
		case <-l.c.ctx.Done():
			return l.c.Err()
		case <-l.c.inbox.wake:
		}
		for _, n := range l.c.inbox.take() {
			if n.epoch == l.e {
				n.do(l)
			}
			if l.err != nil {
				return l.err
			}
		}
	}
}

func (w *wait) release() {
	if w.left--; w.left == 0 {
		w.done()
	}
}

func (l *loop) endLoad() {
	l.c.mu.Lock()
	l.c.resyncs++
	if l.c.following() {
		l.c.setFresh(true)
	}
	l.c.mu.Unlock()
	l.loaded = true
	for _, w := range l.afterLoad {
		w.release()
	}
	l.afterLoad = nil
}

// sync calls done when everything has been loaded that is to be read at this moment.
func (l *loop) sync(done func()) {
	w := &wait{left: 1, done: done}
	if !l.loaded {
		w.left++
		l.afterLoad = append(l.afterLoad, w)
	}
	if l.oneShot {
		l.collect()
	}
	for _, t := range l.tasks {
		if t.busy() {
			l.attach(t, []*wait{w})
		}
	}
	w.release()
}

// want has a path read. waits are done no earlier than that.
func (l *loop) want(path string, a ask, waits []*wait) *task {
	t := l.tasks[path]
	if t == nil {
		t = &task{path: path}
		l.tasks[path] = t
		l.ready = append(l.ready, t)
	}
	t.wanted = t.wanted.and(a)
	switch t.state {
	case parked:
		l.wake(t)
	case cooling:
		l.heatUp(t)
	}
	l.attach(t, waits)
	return t
}

// busy reports whether t is being read, or will be soon.
func (t *task) busy() bool { return t != nil && t.state != parked && t.state != cooling }

// attach makes waits wait for t. What is being read now will do, unless the path was wanted again since it was sent.
func (l *loop) attach(t *task, waits []*wait) {
	if len(waits) == 0 {
		return
	}
	for _, w := range waits {
		w.left++
	}
	if t.state == flying && t.wanted != (ask{}) {
		t.next = append(t.next, waits...)
		return
	}
	t.now = append(t.now, waits...)
	if t.state == paused {
		l.wake(t)
	}
}

// wake ends a pause.
func (l *loop) wake(t *task) {
	t.timer.Stop()
	t.state = ready
	l.ready = append(l.ready, t)
}

// pause makes a task ready again later.
func (l *loop) pause(t *task, state taskState, d time.Duration) {
	t.state = state
	t.timer = time.AfterFunc(d, func() {
		l.c.inbox.post(note{l.e, func(l *loop) {
			switch {
			case l.tasks[t.path] != t || t.state != state:
			case state == cooling:
				delete(l.tasks, t.path)
			default:
				l.wake(t)
			}
		}})
	})
}

func (l *loop) stopTimers() {
	for _, t := range l.tasks {
		if t.timer != nil {
			t.timer.Stop()
		}
	}
}

// start sends as many requests as may be under way.
func (l *loop) start() {
	for l.flying < l.c.cfg.concurrency && len(l.ready) > 0 {
		t := l.ready[0]
		l.ready[0] = nil
		l.ready = l.ready[1:]
		t.state = flying
		t.asked, t.wanted = t.wanted, ask{}
		l.flying++
		q := l.query(t)
		l.c.wg.Go(func() { // ends with the request, which ends with the epoch
			r := q.run()
			if l.e.alive() { // otherwise it may have been answered on another connection
				l.c.inbox.post(note{l.e, func(l *loop) { l.settle(t, r) }})
			}
		})
	}
	if len(l.ready) == 0 {
		l.ready = nil
	}
	if len(l.tasks) == 0 && l.peaked {
		l.tasks, l.peaked = make(map[string]*task), false // maps do not shrink
	}
	l.peaked = l.peaked || len(l.tasks) > maxSpare
}

// settle takes in what was read.
func (l *loop) settle(t *task, r answer) {
	l.flying--
	a := t.asked
	t.asked, t.state = ask{}, ready
	again := t.wanted != (ask{})
	switch {
	case t.useless, again && isMissing(r.err):
		// It was deleted, or made, after the answer or before: read it again.
		t.useless = false
		t.keep(a)
		l.again(t)
		return
	case r.err == nil && !l.outdated(t, r):
		t.failed = 0
		l.found(t, a, r)
	case isMissing(r.err):
		t.failed = 0
		l.missing(t, r)
	case isRefused(r.err):
		l.refuse(t)
	default:
		t.keep(a)
		t.failed++
		l.pause(t, paused, backedOff(minPause, maxPause, t.failed))
		return
	}
	l.finish(t)
}

// keep has the next read do what the last one did not.
func (t *task) keep(a ask) {
	t.wanted = t.wanted.and(a)
	t.now, t.next = append(t.now, t.next...), nil
}

// finish ends a read. If the path was wanted again meanwhile, it is read again.
func (l *loop) finish(t *task) {
	done := t.now
	t.now, t.next = t.next, nil
	if t.wanted == (ask{}) {
		t.wanted = l.fired(t.path)
	}
	switch {
	case t.state == parked:
		done, t.now = append(done, t.now...), nil
	case t.wanted != (ask{}):
		l.again(t)
	default:
		l.idle(t)
	}
	for _, w := range done {
		w.release()
	}
}

// again has a task read again: at once the first time, and after longer and longer pauses while the node changes
// faster than it can be read. Whoever waits for it does not wait for that.
func (l *loop) again(t *task) {
	t.heat++
	if t.heat < hot || len(t.now) > 0 {
		l.ready = append(l.ready, t)
		return
	}
	l.pause(t, paused, t.rest())
}

// idle ends a task for which there is nothing more to read.
func (l *loop) idle(t *task) {
	l.listen(t.path)
	rest := maxRest
	if !l.oneShot {
		t.heat--
	}
	if t.heat < hot {
		if !l.oneShot || !l.loaded {
			delete(l.tasks, t.path)
			return
		}
		rest = quick
	}
	t.ended = time.Now()
	l.pause(t, cooling, rest)
}

// heatUp begins the next read of a task that cools. With a persistent watch the heat is known from changes during a
// read; a standard watch tells of the first only, so there it depends on how soon after the read it came.
func (l *loop) heatUp(t *task) {
	t.timer.Stop()
	switch {
	case !l.oneShot:
	case time.Since(t.ended) < quick:
		t.heat++
	default:
		t.heat = max(t.heat-1, 0)
	}
	if t.heat < hot {
		l.wake(t)
		return
	}
	l.pause(t, paused, t.rest())
}

// hot is the heat at which pauses begin. They double up to maxRest.
const (
	hot     = 2
	minRest = time.Millisecond
	maxRest = 50 * time.Millisecond
	quick   = minRest / 2
)

func (t *task) rest() time.Duration { return backedOff(minRest, maxRest, t.heat-hot+1) }

// backedOff is the nth of pauses that double.
func backedOff(shortest, longest time.Duration, n int) time.Duration {
	return min(shortest<<min(n-1, 20), longest)
}

// event takes in what a persistent watch tells.
func (l *loop) event(e zk.Event) {
	if !l.c.covers(e.Path) {
		return
	}
	if e.Path == l.c.path {
		l.rootEvent(e)
		return
	}
	n, t := l.c.tree.find(e.Path), l.tasks[e.Path]
	switch e.Type {
	case zk.EventNodeCreated:
		l.created(e.Path)
	case zk.EventNodeDataChanged:
		if n != nil || t != nil {
			l.want(e.Path, ask{node: true}, nil)
		}
	case zk.EventNodeDeleted:
		if t != nil && t.state == flying {
			t.useless = true
			t.wanted.node = true
		}
		if n == nil {
			return
		}
		if len(n.children) > 0 {
			l.want(e.Path, ask{node: true}, nil) // its children went first, so it is there again or will be checked
			return
		}
		l.remove(n, nil)
	}
}

// created is the creation of a node below the root. If its parent is in the tree, or will be when it has been read, the
// node is read then. Otherwise the parent itself was made so recently that it will be read, and listed, later.
func (l *loop) created(path string) {
	dir, _ := framework.Split(path)
	switch {
	case l.c.tree.find(dir) != nil:
		l.want(path, ask{node: true, list: true}, nil)
	case l.tasks[dir].busy():
		l.want(dir, ask{node: true, list: true}, nil)
	}
}

// rootEvent is event for the root. What it says is not believed but looked up: there are servers whose events
// carry the path of the watch instead of that of the node. An event that was sent after the last read of the root
// must find the root changed, so one that does not gives such a server away.
func (l *loop) rootEvent(e zk.Event) {
	if e.Type == zk.EventNodeChildrenChanged {
		return
	}
	root, reading := l.c.tree.root, l.tasks[l.c.path].busy()
	t := l.want(l.c.path, ask{node: true, list: e.Type != zk.EventNodeDataChanged}, nil)
	if root != nil && !reading && l.c.cfg.depth != 0 {
		t.expects = root.value
	}
}
