package cache

import (
	"slices"
	"time"
)

// marks say what is to be read, and when. They belong to the cache's goroutine.
type marks struct {
	byPath   map[string]*mark      // what is to be read, is being read, or cannot be read
	ready    []*mark               // in order
	inFlight int                   // requests
	busy     int                   // marks that are to be read, now or after a pause
	released []func(rootErr error) // of those whose waits have ended
}

func newMarks() marks { return marks{byPath: make(map[string]*mark)} }

// mark says what is to be read of one path. There is one for a path at most, and so one request at a time.
type mark struct {
	path   string
	state  markState
	asked  ask // what is being asked for
	todo   ask // what follows it
	next   ask // what is to be read again after that, because of an event
	level  int // how often in a row it changed within the pause after a read
	failed int // times in a row that it could not be read
	timer  *time.Timer
	waits  []*waiting // for what is asked and todo
	later  []*waiting // for what is next
}

type markState int

const (
	idle    markState = iota // it was just read, and is forgotten when the timer fires
	refused                  // the node must not be read: it is tried again when the timer fires, or for a Sync
	paused                   // until the timer fires
	ready                    // in marks.ready
	reading                  // a request is under way
)

// busy is 1 for the states in which something is to be read.
func (s markState) busy() int { return min(int(s/paused), 1) }

// ask is a set of things to read.
type ask int

const (
	theNode ask = 1           // its data and stat
	theList ask = 2           // the names of its children
	theStat ask = 4 | theNode // the node, by an exists
)

// first is what to ask for before the rest of what is to be read.
func (m *mark) first() ask {
	for _, what := range []ask{theStat, theNode} {
		if m.todo&what == what {
			return what
		}
	}
	return theList
}

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

// backedOff is the nth of pauses that double, from 0 on.
func backedOff(first, last time.Duration, n int) time.Duration { return min(first<<min(n, 20), last) }

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
	for _, m := range l.byPath {
		if m.state == refused {
			l.queue(m)
		}
		if m.state != idle {
			l.attach(m, w)
		}
	}
	l.release(w)
}

func (l *loop) release(waits ...*waiting) {
	for _, w := range waits {
		if w.left--; w.left == 0 && w.done != nil {
			l.released = append(l.released, w.done)
		}
	}
}

// mark has something of a path read. waits are done no earlier than that.
func (l *loop) mark(path string, what ask, waits ...*waiting) {
	m := l.byPath[path]
	if m == nil {
		m = &mark{path: path}
		l.byPath[path] = m
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

// askFirst reports whether the node at path is to be read, and then has that be asked for before what is queued after this.
func (l *loop) askFirst(path string) bool {
	m := l.byPath[path]
	if m == nil || m.state < paused || (m.asked|m.todo|m.next)&theNode == 0 {
		return false
	}
	if m.state == paused {
		l.queue(m)
	}
	return true
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
				delete(l.byPath, m.path)
			default:
				l.queue(m)
			}
		})
	})
	m.timer = timer
}

// send sends as many requests as may be under way.
func (l *loop) send() {
	for l.inFlight < maxInFlight && len(l.ready) > 0 {
		m := l.ready[0]
		l.ready[0] = nil
		l.ready = l.ready[1:]
		l.set(m, reading)
		l.inFlight++
		l.c.counts.reads.Add(1)
		l.ask(m)
	}
	if len(l.ready) == 0 {
		l.ready = nil
	}
}

// retryLater has what m is to read be asked for after a pause.
func (l *loop) retryLater(m *mark) {
	l.pause(m, paused, backedOff(minFailed, maxFailed, m.failed))
	m.failed++
}

// refuse notes that m must not be read. Nobody waits for that.
func (l *loop) refuse(m *mark) {
	l.release(m.waits...)
	l.release(m.later...)
	m.waits, m.later = nil, nil
	m.todo, m.next = theNode, 0
	l.pause(m, refused, backedOff(minRefused, maxRefused, m.failed))
	m.failed++
}

// proceed goes on with what is to be read of m after an answer, if it is not paused.
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
	l.release(m.waits...)
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
		delete(l.byPath, m.path)
	}
}
