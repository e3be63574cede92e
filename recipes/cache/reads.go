package cache

import (
	"slices"
	"time"
)

// mark says that a path is to be read. A path has at most one mark, and so at most one read at a
// time.
//
//	(no mark) ── event, or in a list ──→ ready ──→ reading ──→ listing ──→ idle ──→ (no mark)
//	idle ─────── event ──→ paused ─────→ ready          ╰─── no children ──↗
//	                                                    ╰── fails: paused, or refused
//	ready ────── children are in the copy, not reached ──────────→ listing
type mark struct {
	path  string
	state state
	pause time.Duration // the last pause; 0: none
	timer *time.Timer   // ends the pause
	round *round        // the round of the pending or running read; nil in states idle and refused
	later *round        // the round of the next read, if an event requires another read; nil: none
}

type state int

const (
	idle    state = iota // it was just read, and is forgotten when the timer fires
	paused               // it is to be read when the timer fires, and its round waits for that
	refused              // the client is not permitted to read it: as paused, but no round waits
	ready                // it is to be read
	reading              // its data and stat are requested
	// listing is the second request of a read: the children, or for a missing root an exists.
	listing
)

// round is the set of marks between two Syncs. The first is the load. A Sync waits for its round
// and the earlier rounds.
type round struct {
	number int          // in order
	left   int          // pending or running reads
	done   chan<- error // receives the reason why the root cannot be read
}

const (
	maxInFlight = 64
	maxTogether = 16 // nodes per request: the reply is as long as their data

	// Pauses between two reads of a node. They double while a server refuses it, while reads fail
	// otherwise, and while it changes in each.
	minRefused, maxRefused = time.Second, time.Minute
	minFailed, maxFailed   = 50 * time.Millisecond, 5 * time.Second
	minRest, maxRest       = time.Millisecond, 50 * time.Millisecond
)

// closeRound ends the present round. done receives a value when all its reads are done. That
// includes nodes that could not be read before, since no event reports when that changes.
func (f *follower) closeRound(done chan<- error) {
	f.open().done = done
	for _, m := range f.byPath {
		if m.state == paused || m.state == refused {
			f.queue(m)
		}
	}
	f.rounds = append(f.rounds, &round{number: f.open().number + 1})
}

// open returns the round of new marks.
func (f *follower) open() *round { return f.rounds[len(f.rounds)-1] }

// join puts a read into r, unless it is in an older round.
func join(place **round, r *round) {
	if old := *place; old == nil || old.number > r.number {
		leave(place)
		*place = r
		r.left++
	}
}

func leave(place **round) {
	if r := *place; r != nil {
		r.left--
		*place = nil
	}
}

// mark causes a path to be read, for r.
func (f *follower) mark(path string, r *round) {
	m := f.byPath[path]
	switch {
	case m == nil:
		m = &mark{path: path}
		f.byPath[path] = m
		f.queue(m)
	case m.state == listing: // its stat may be older than this
		join(&m.later, r)
		return
	case m.state <= paused && r != f.open(), m.state == refused:
		// A Sync waits, or the node may have become readable.
		f.queue(m)
	case m.state == idle:
		m.state = paused
	}
	join(&m.round, r)
}

// unread reports whether m is to be read, or its request was not answered.
func (m *mark) unread() bool {
	return m != nil && m.round != nil && (m.state != listing || m.later != nil)
}

func (f *follower) queue(m *mark) {
	m.state, m.timer = ready, nil
	f.ready = append(f.ready, m)
	join(&m.round, f.open())
}

// send sends as many requests as may be in flight.
func (f *follower) send() {
	now := f.ready[:min(maxInFlight-f.inFlight, len(f.ready))]
	var reads []*mark
	for _, m := range now {
		if n := f.c.nodes.find(m.path); n == nil || n.children == nil || f.reached(n) || f.standard {
			reads = append(reads, m)
		} else { // the stat in the answer says whether its data have changed
			f.list(m)
		}
	}
	for some := range slices.Chunk(reads, maxTogether) {
		f.read(some...)
	}
	clear(now)
	if f.ready = f.ready[len(now):]; len(f.ready) == 0 {
		f.ready = nil
	}
}

// asks records that a request of m is sent, which changes its state.
func (f *follower) asks(m *mark, s state) {
	m.state = s
	f.inFlight++
	f.c.counts.reads.Add(1)
}

// answered runs on the connection's goroutine. If there is no error, it queues take for the
// cache's.
func (f *follower) answered(m *mark, err error, take func()) {
	f.post(func() {
		if f.inFlight--; err == nil {
			take()
		} else {
			f.failed(m, err)
		}
	})
}

// rest puts m into a state that ends after a pause, twice as long as the last pause.
func (f *follower) rest(m *mark, s state, first, last time.Duration) {
	m.state, m.pause = s, min(max(2*m.pause, first), last)
	var timer *time.Timer
	timer = time.AfterFunc(m.pause, func() {
		f.post(func() {
			switch {
			case m.timer != timer: // its state has changed
			case m.state == idle:
				delete(f.byPath, m.path)
			default:
				f.queue(m)
			}
		})
	})
	m.timer = timer
}

// done ends a read of m. The pause after a refused read delays no Sync.
func (f *follower) done(m *mark, refusal error) {
	if m.path == f.c.Path() {
		f.rootErr = refusal
	}
	leave(&m.round)
	m.round, m.later = m.later, nil
	switch {
	case refusal != nil:
		leave(&m.round)
		f.rest(m, refused, minRefused, maxRefused)
	case m.round == nil && f.loaded:
		f.rest(m, idle, minRest, maxRest)
	case m.round == nil:
		delete(f.byPath, m.path)
	case m.round == f.open():
		f.rest(m, paused, minRest, maxRest)
	default: // a Sync waits
		f.queue(m)
	}
}
