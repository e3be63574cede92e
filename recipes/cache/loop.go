package cache

import "github.com/gocurator/curator/framework"

// loop keeps the tree in step with the ensemble during one epoch. Everything in it belongs to the cache's goroutine,
// which does what the messages of the inbox say, one after the other. Messages of one connection are in its order: an
// event that the server sent before an answer is handled before that answer.
type loop struct {
	c        *Cache
	e        *epoch
	number   uint32 // different from that of any other loop of the cache, and not 0
	oneShot  bool
	tasks    map[string]*task         // of all nodes that are to be read, are being read, or cannot be read
	ready    []*task                  // in order
	blocked  map[string][]blockedTask // by the path of the parent
	inFlight int                      // tasks that are being read
	peaked   bool                     // tasks had many
	loaded   bool

	afterLoad []*wait             // they wait for the load
	armed     map[*node]watchPair // with standard watches
	rootWatch *framework.Watch    // the same, while there is no root
	unwatched []watchedNode       // nobody waits for their watches yet
	err       error               // ends the loop

	pathsAreRight bool // the server has reported an event with a path other than that of the watch
}

func newLoop(c *Cache, e *epoch) *loop {
	c.loops++
	return &loop{c: c, e: e, number: c.loops, oneShot: e.watch == nil, tasks: make(map[string]*task),
		blocked: make(map[string][]blockedTask), armed: make(map[*node]watchPair)}
}

// run loads the tree and then follows it. It returns when the epoch ends.
func (l *loop) run() error {
	load := &wait{left: 1, done: l.endLoad}
	l.want(l.c.path, ask{node: true, list: true, deep: true}, []*wait{load})
	load.release()
	for {
		l.start()
		l.awaitWatches()
		select {
		case <-l.e.down:
			return errDown
		case <-l.c.ctx.Done():
			return l.c.Err()
		case <-l.c.inbox.wake:
		}
		for _, m := range l.c.inbox.take() {
			if m.epoch == l.e {
				m.do(l)
			}
			if l.err != nil {
				return l.err
			}
		}
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

// sync calls done when everything has been loaded that is to be read at this moment. That includes nodes which could
// not be read before, since nobody tells when that changes.
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
		if t.state == refused {
			l.wake(t)
		}
		if t.busy() {
			l.attach(t, []*wait{w})
		}
	}
	w.release()
}

// start sends as many requests as may be under way.
func (l *loop) start() {
	for l.inFlight < l.c.cfg.concurrency && len(l.ready) > 0 {
		t := l.ready[0]
		l.ready[0] = nil
		l.ready = l.ready[1:]
		t.state = reading
		t.reads++
		t.early = len(t.now)
		t.asked, t.wanted = t.wanted, ask{}
		l.inFlight++
		l.send(t)
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
	l.inFlight--
	a := t.asked
	t.asked, t.state = ask{}, ready
	switch {
	case t.useless: // it was deleted after the answer or before: read it again
		t.useless = false
		t.keep(a)
		l.again(t)
		return
	case r.err == nil && l.tooEarly(t, r):
		l.block(t, a)
		return
	case r.err == nil && !l.outdated(t, r):
		t.failed = 0
		if l.found(t, a, r); l.err != nil {
			return // whoever waits, waits for the next epoch
		}
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
	l.unblock(t)
}

// finish ends a read. If the path was wanted again meanwhile, it is read again.
func (l *loop) finish(t *task) {
	done := t.now
	t.now, t.next = t.next, nil
	if t.wanted == (ask{}) {
		t.wanted = l.fired(t.path)
	}
	switch {
	case t.state == refused: // until its timer fires
	case t.wanted != (ask{}):
		l.again(t)
	default:
		l.endTask(t)
	}
	for _, w := range done {
		w.release()
	}
}
