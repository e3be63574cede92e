package queueview

import (
	"errors"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/clientapi"
)

// Views are the views of one client, and of all that share its connection.
type Views struct {
	mu     sync.Mutex // guards what follows
	byPath map[string]*View
	rests  map[string]rest // paths whose view was given up
	none   bool            // the servers do not know recursive watches, or report them wrongly
	wrong  int             // views that were wrong, one after the other
}

const (
	// idle: a view that nobody has used for this time is given up.
	idle = 10 * time.Second

	// firstRest and maxRest are for how long there is no new view of a path after one was given up.
	firstRest = time.Second
	maxRest   = time.Minute

	// maxWrong is the number of wrong views in a row after which the client uses no views.
	maxWrong = 3
)

type viewsKey struct{}

// Of returns the views of a client.
func Of(client *framework.Client) *Views {
	v, _ := clientapi.Values(client).LoadOrStore(viewsKey{}, &Views{
		byPath: make(map[string]*View),
		rests:  make(map[string]rest),
	})
	return v.(*Views)
}

// Get returns the view of a path, or nil. If there is none, one may begin, if the caller wants that: see View.Await.
func (vs *Views) Get(client *framework.Client, session *framework.Session, path string, begin bool) *View {
	real := clientapi.RealPath(client, path)
	now := time.Now()
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if v := vs.byPath[real]; v != nil {
		return v
	}
	if !begin || vs.none || now.Before(vs.rests[real].until) {
		return nil
	}
	v := &View{
		path:     path,
		ready:    make(chan struct{}),
		next:     -1,
		children: make(map[string]*child),
		rankings: make(map[Order]*ranking),
		waiters:  make(map[string][]*Waiter),
		members:  make(map[string]Member),
		load:     load{used: now},
		ended:    func(v *View, why ending) { vs.ended(real, v, why) },
	}
	vs.byPath[real] = v
	go v.watch(client, session) // ends with its requests, or the session
	return v
}

// Lookup returns the view of a path that is there, or nil.
func (vs *Views) Lookup(client *framework.Client, path string) *View {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	return vs.byPath[clientapi.RealPath(client, path)]
}

// watch sets the watch of a view and reads the first list.
func (v *View) watch(client *framework.Client, session *framework.Session) {
	ctx := framework.InSession(session.Context(), session)
	remove, err := clientapi.WatchChildren(ctx, client, v.path, v.functions())
	switch {
	case errors.Is(err, framework.ErrWatchUnsupported):
		v.end(unsupported)
	case err != nil:
		v.end(disconnected)
	default:
		v.begin(remove)
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

// endIdle ends the view if nobody has used it for a while, and looks again later otherwise.
func (v *View) endIdle() {
	v.mu.Lock()
	left := idle
	if len(v.members) == 0 {
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
func (v *View) endIdleIn(d time.Duration) {
	switch {
	case v.over:
	case v.timer == nil:
		v.timer = time.AfterFunc(d, v.endIdle)
	default:
		v.timer.Reset(d)
	}
}

// ended removes a view that has ended.
func (vs *Views) ended(path string, v *View, why ending) {
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

// rest is the time for which there is no new view of a path.
type rest struct {
	until time.Time
	last  time.Duration
}

// rest keeps a path without a view for a while, longer each time. vs.mu is held.
func (vs *Views) rest(path string) {
	now := time.Now()
	for path, r := range vs.rests {
		if now.Sub(r.until) > maxRest {
			delete(vs.rests, path)
		}
	}
	last := min(max(2*vs.rests[path].last, firstRest), maxRest)
	vs.rests[path] = rest{now.Add(last), last}
}
