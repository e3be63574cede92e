package cache

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
)

// loop keeps the copy in step with the ensemble on one connection. Everything in it belongs to the cache's goroutine, which calls the
// functions in the inbox one after the other: events and answers, in the order of the connection.
type loop struct {
	c       *Cache
	link    engine.Link
	number  uint32               // different from that of any other loop of the cache, and not 0
	oneShot bool                 // the server has standard watches only, which reads set
	inbox   wait.Value[[]func()] // without a limit, so that the connection's goroutine never waits for the cache

	byPath   map[string]*mark
	ready    []*mark  // those in state ready, in order
	inFlight int      // requests
	groups   []*group // of marks, the oldest first; the last one is open

	reported           atomic.Int64 // events of the watch
	taken              int64        // of these, by functions of the inbox
	newSession, loaded bool         // until the load has ended, and since
	rootErr            error        // why the root cannot be read
}

// mark says that something is to be done with a path. There is one for a path at most, and so one read at a time.
//
//	(no mark) ── event, or in a list ──→ ready ──→ reading ──→ listing ──→ idle ──→ (no mark)
//	idle ─────── event ──→ paused ─────→ ready          ╰─── no children ──↗
//	                                                    ╰── fails: paused
//	ready ────── children are in the copy, not reached ──────────→ listing
type mark struct {
	path  string
	state state
	pause time.Duration // the last one; 0: there was none
	timer *time.Timer   // ends the pause
	group *group        // of the read that is to come or under way; nil if there is none, and if nobody waits since it must not be read
	later *group        // of the read after that, which an event asks for; nil if there is none
}

type state int

const (
	idle    state = iota // it was just read, and is forgotten when the timer fires
	paused               // it is to be read when the timer fires
	ready                // it is to be read
	reading              // its data and stat were asked for
	listing              // the second request of the same read: its children, or for a missing root an exists
)

// group is the marks that were made between one Sync and the next; the first is the load. A Sync waits for its group and those before it.
type group struct {
	number int          // in order
	left   int          // reads that are to come or under way
	done   chan<- error // gets why the root cannot be read
}

const (
	maxInFlight = 64
	maxTogether = 16 // nodes that are read with one request: the answer is as long as their data

	// Pauses between two reads of a node. They double while a server refuses it, while reads fail otherwise, and while it changes in each.
	minRefused, maxRefused = time.Second, time.Minute
	minFailed, maxFailed   = 50 * time.Millisecond, 5 * time.Second
	minRest, maxRest       = time.Millisecond, 50 * time.Millisecond
)

// run sets the watch and has the server catch up: all that is read after that is at least as new as anything that was read before it,
// by anybody. Then it loads the tree and follows it. It returns when the connection or the cache has ended.
func (l *loop) run() error {
	remove, err := l.watch()
	defer remove()
	if err != nil {
		return err
	}
	if err := engine.Ask(l.c.ctx, l.link.CatchUp); err != nil {
		return err
	}
	l.byPath, l.groups = make(map[string]*mark), []*group{{}}
	l.mark(l.c.Path(), l.open())
	l.closeGroup(make(chan error, 1))
	for l.c.ctx.Err() == nil && !wait.Closed(l.link.Down()) {
		l.send()
		l.report()
		posted, more := l.inbox.Get()
		if len(posted) == 0 {
			select {
			case <-l.link.Down():
			case <-l.c.ctx.Done():
			case <-more:
			}
		}
		l.inbox.Set(func(all *[]func()) { posted, *all = *all, nil })
		for _, do := range posted {
			do()
		}
	}
	return nil
}

// post has the cache's goroutine call do.
func (l *loop) post(do func()) { l.inbox.Set(func(all *[]func()) { *all = append(*all, do) }) }

// watch sets the watch, or has the reads set standard watches if the server has no others.
func (l *loop) watch() (remove func(), err error) {
	event := func(e zk.Event) {
		l.reported.Add(1)
		l.post(func() { l.event(e) })
	}
	mode := engine.Tree
	if l.c.cfg.depth == 0 {
		mode = engine.Node
	}
	err = engine.Ask(l.c.ctx, func(done func(error)) { remove = l.link.Watch(l.c.Path(), mode, event, done) })
	if !errors.Is(err, framework.ErrWatchUnsupported) {
		return remove, err
	}
	l.oneShot = true
	l.link, remove = l.link.Watched(event)
	return remove, nil
}

// report shows whether the copy is current, and then lets those go on whose wait has ended.
func (l *loop) report() {
	unread := func(g *group) bool { return g.left > 0 }
	if !l.loaded && !unread(l.groups[0]) {
		l.loaded, l.newSession = true, false
		l.byPath = maps.Collect(maps.All(l.byPath)) // a map does not shrink
		l.c.counts.resyncs.Add(1)
		l.c.nodes.endLoad()
	}
	l.c.show(status{loop: l, loaded: l.loaded, current: l.loaded && !slices.ContainsFunc(l.groups, unread), taken: l.taken})
	for len(l.groups) > 1 && !unread(l.groups[0]) {
		l.groups[0].done <- l.rootErr
		l.groups = l.groups[1:]
	}
}

// closeGroup has done get something when all has been read that is to be read at this moment. That includes nodes which could not
// be read before, since no event says when that changes.
func (l *loop) closeGroup(done chan<- error) {
	l.open().done = done
	for _, m := range l.byPath {
		if m.state == paused {
			l.queue(m)
		}
	}
	l.groups = append(l.groups, &group{number: l.open().number + 1})
}

// open is the group of what is marked now.
func (l *loop) open() *group { return l.groups[len(l.groups)-1] }

// join puts a read into g, unless it is in an older group.
func join(place **group, g *group) {
	if old := *place; old == nil || old.number > g.number {
		leave(place)
		*place = g
		g.left++
	}
}

func leave(place **group) {
	if g := *place; g != nil {
		g.left--
		*place = nil
	}
}

// mark has a path read, for g.
func (l *loop) mark(path string, g *group) {
	m := l.byPath[path]
	switch {
	case m == nil:
		m = &mark{path: path}
		l.byPath[path] = m
		l.queue(m)
	case m.state == listing: // its stat may be older than this
		join(&m.later, g)
		return
	case m.state <= paused && g != l.open(), m.state == paused && m.group == nil: // somebody waits, or it is worth a try
		l.queue(m)
	case m.state == idle:
		m.state = paused
	}
	join(&m.group, g)
}

// unread reports whether m is to be read, or was asked for and not answered.
func (m *mark) unread() bool {
	return m != nil && m.group != nil && (m.state != listing || m.later != nil)
}

func (l *loop) queue(m *mark) {
	m.state, m.timer = ready, nil
	l.ready = append(l.ready, m)
	join(&m.group, l.open())
}

// send sends as many requests as may be under way.
func (l *loop) send() {
	now := l.ready[:min(maxInFlight-l.inFlight, len(l.ready))]
	var reads []*mark
	for _, m := range now {
		if n := l.c.nodes.find(m.path); n == nil || n.children == nil || l.reached(n) || l.oneShot {
			reads = append(reads, m)
		} else { // the stat in the answer says whether its data have changed
			l.list(m)
		}
	}
	for some := range slices.Chunk(reads, maxTogether) {
		l.read(some...)
	}
	clear(now)
	if l.ready = l.ready[len(now):]; len(l.ready) == 0 {
		l.ready = nil
	}
}

// asks notes that a request of m is sent, for which it gets into a state.
func (l *loop) asks(m *mark, s state) {
	m.state = s
	l.inFlight++
	l.c.counts.reads.Add(1)
}

// answered is for the connection's goroutine: take is called on the cache's if there is no error.
func (l *loop) answered(m *mark, err error, take func()) {
	l.post(func() {
		if l.inFlight--; err == nil {
			take()
		} else {
			l.failed(m, err)
		}
	})
}

// rest puts m into a state that ends after a pause, twice as long as the last one.
func (l *loop) rest(m *mark, s state, first, last time.Duration) {
	m.state, m.pause = s, min(max(2*m.pause, first), last)
	var timer *time.Timer
	timer = time.AfterFunc(m.pause, func() {
		l.post(func() {
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

// done ends a read of m. If that must not be read, nobody waits for the next time.
func (l *loop) done(m *mark, refused error) {
	if m.path == l.c.Path() {
		l.rootErr = refused
	}
	leave(&m.group)
	m.group, m.later = m.later, nil
	switch {
	case refused != nil:
		leave(&m.group)
		l.rest(m, paused, minRefused, maxRefused)
	case m.group == nil && l.loaded:
		l.rest(m, idle, minRest, maxRest)
	case m.group == nil:
		delete(l.byPath, m.path)
	case m.group == l.open():
		l.rest(m, paused, minRest, maxRest)
	default: // somebody waits
		l.queue(m)
	}
}
