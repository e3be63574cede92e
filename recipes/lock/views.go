package lock

import (
	"errors"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/clientapi"
)

// When a path has a view. A view costs a watch on the server, and an event for every node that anybody creates
// or deletes there. It saves a list and a watch for every lease that we acquire.
const (
	// soon: a Queue that is used again within this time gets a view. A Queue whose waiters would have to watch
	// more than maxWatched nodes, and one with a local hand-off, get it at the first acquire.
	soon = time.Second

	// idle: a view that nobody has used for this time is given up.
	idle = 10 * time.Second

	// maxOthers is how many nodes of others a queue may have for a view to begin.
	maxOthers = 12

	// maxEvents is how many events about nodes of others a view may cost for each of our acquires, and slack how
	// many more. It is above maxOthers, twice over since each node is made and deleted, so that a view does
	// not begin and end in turns.
	maxEvents = 32
	slack     = 512

	// firstRest and maxRest are for how long there is no new view of a path after one was given up.
	firstRest = time.Second
	maxRest   = time.Minute
)

// load counts what a view costs and how often it is used. It is guarded by view.mu.
type load struct {
	used     time.Time // when a Queue last asked for the view
	cycles   int       // how often that was
	events   int       // about nodes of others; for nodes of ours they are taken off when they are admitted
	expected int       // nodes of ours that are not admitted yet
}

// use notes that a Queue is about to acquire with the view.
func (l *load) use(now time.Time) {
	l.used = now
	l.cycles++
	if l.cycles == 64 { // what was long ago does not count
		l.cycles /= 2
		l.events /= 2
	}
}

// heavy reports whether the view costs more than lists do.
func (l *load) heavy() bool { return l.events-2*l.expected > maxEvents*l.cycles+slack }

// expect notes that a node of ours is about to be created. done is to be called when it was admitted, or when there is
// nothing to admit.
func (v *view) expect() (done func(admitted bool)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.load.expected++
	return func(admitted bool) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.load.expected--
		if admitted {
			v.load.events -= 2
		}
	}
}

// ending is why a view has ended.
type ending int

const (
	disconnected ending = iota
	unused
	heavy       // it costs more than lists do
	missed      // it was not told of all nodes
	wrong       // what it was told cannot be true
	unsupported // by the servers
)

// views are the views of one client, and of all that share its connection.
type views struct {
	mu     sync.Mutex // guards what follows
	byPath map[string]*view
	rests  map[string]rest // paths whose view was given up
	none   bool            // the servers do not know recursive watches, or report them wrongly
	wrong  int             // views that were wrong, one after the other
}

// rest is the time for which there is no new view of a path.
type rest struct {
	until time.Time
	last  time.Duration
}

type viewsKey struct{}

// viewsOf returns the views of a client.
func viewsOf(client *framework.Client) *views {
	v, _ := clientapi.Values(client).LoadOrStore(viewsKey{}, &views{
		byPath: make(map[string]*view),
		rests:  make(map[string]rest),
	})
	return v.(*views)
}

// view returns the view to acquire with, which may have to be waited for (see view.ready). It is nil if
// the path is to be listed. A view that is there is used by all; a new one begins if the Queue is
// worth it.
func (q *Queue) view(session *framework.Session) *view {
	now := time.Now()
	q.mu.Lock()
	worth := q.local != nil || q.maxLeases > maxWatched || now.Sub(q.used) < soon
	if q.others > maxOthers {
		worth = false
	}
	q.used = now
	q.mu.Unlock()
	v := q.views.get(q, session, purpose{all: worth}, now)
	if v != nil {
		v.mu.Lock()
		v.load.use(now)
		v.mu.Unlock()
	}
	return v
}

// purpose is what a view is to begin for: for all acquires of the client, or for one waiter that is next. With neither
// none begins.
type purpose struct{ all, next bool }

// get returns the view of a Queue's path. If there is none, it begins one for the purpose. A view that began for a waiter
// that is next is not for others, until it is there for all.
func (vs *views) get(q *Queue, session *framework.Session, p purpose, now time.Time) *view {
	path := clientapi.RealPath(q.client, q.base)
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if v := vs.byPath[path]; v != nil {
		if v.serves(p) {
			return v
		}
		return nil
	}
	if !p.all && !p.next || vs.none || now.Before(vs.rests[path].until) {
		return nil
	}
	v := newView(q.base, now, func(v *view, why ending) { vs.ended(path, v, why) })
	v.brief = !p.all
	vs.byPath[path] = v
	go begin(q, session, v) // ends with its requests, or the session
	return v
}

// begin sets the watch of a view and reads the first list.
func begin(q *Queue, session *framework.Session, v *view) {
	ctx := framework.InSession(session.Context(), session)
	remove, err := clientapi.WatchChildren(ctx, q.client, q.base, v.functions())
	switch {
	case errors.Is(err, framework.ErrWatchUnsupported):
		v.end(unsupported)
	case err != nil:
		v.end(disconnected)
	default:
		v.begin(remove)
	}
}

// endIdle ends the view if nobody has used it for a while, and looks again later otherwise.
func (v *view) endIdle() {
	v.mu.Lock()
	left := idle
	switch {
	case len(v.entries) > 0:
	case v.brief:
		left = 0
	default:
		left = idle - time.Since(v.load.used)
	}
	if left > 0 {
		v.endIdleIn(left)
	}
	v.mu.Unlock()
	if left <= 0 {
		v.end(unused)
	}
}

// endIdleIn has endIdle called once, after d. v.mu is held.
func (v *view) endIdleIn(d time.Duration) {
	switch {
	case v.over:
	case v.timer == nil:
		v.timer = time.AfterFunc(d, v.endIdle)
	default:
		v.timer.Reset(d)
	}
}

// ended removes a view that has ended.
func (vs *views) ended(path string, v *view, why ending) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if vs.byPath[path] == v {
		delete(vs.byPath, path)
	}
	switch why {
	case unsupported:
		vs.none = true
	case wrong:
		vs.wrong++
		vs.none = vs.none || vs.wrong == maxWrong
		vs.rest(path)
	case heavy, missed:
		vs.rest(path)
	case disconnected, unused:
		vs.wrong = 0
	}
}

// maxWrong is the number of wrong views in a row after which the client uses no views.
const maxWrong = 3

// rest keeps a path without a view for a while, longer each time. vs.mu is held.
func (vs *views) rest(path string) {
	now := time.Now()
	for path, r := range vs.rests {
		if now.Sub(r.until) > maxRest {
			delete(vs.rests, path)
		}
	}
	last := min(max(2*vs.rests[path].last, firstRest), maxRest)
	vs.rests[path] = rest{now.Add(last), last}
}
