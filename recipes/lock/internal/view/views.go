package view

import (
	"cmp"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/engine/wire"
)

// Views are the views of one client, and of all clients that share its connection.
type Views struct {
	mu     sync.Mutex // guards what follows
	byPath map[string]*View
	rests  map[string]time.Time // until when a path has no view

	without *framework.Session // its server has no recursive watches
}

const (
	// idle: a view that was unused for this time ends.
	idle = 10 * time.Second

	// rest is for how long there is no new view of a path after one was not worth having.
	rest = time.Minute
)

type viewsKey struct{}

// Of returns the views of a client.
func Of(client *framework.Client) *Views {
	v, _ := engine.Of(client).Values().LoadOrStore(viewsKey{}, &Views{
		byPath: make(map[string]*View),
		rests:  make(map[string]time.Time),
	})
	return v.(*Views)
}

// Get returns the view of a path for an acquire, or nil. If there is none, it may start one if the
// caller wants that: see View.Await. own is the number of nodes that the caller may have in the
// queue.
func (vs *Views) Get(client *framework.Client, session *framework.Session, path string, begin bool, own int) *View {
	real := engine.Of(client).Real(path)
	now := time.Now()
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if v := vs.byPath[real]; v != nil {
		v.use(now)
		return v
	}
	if !begin || vs.without == session || now.Before(vs.rests[real]) {
		return nil
	}
	v := &View{
		path:     path,
		ready:    make(chan struct{}),
		done:     make(chan struct{}),
		next:     -1,
		children: make(map[string]*child),
		rankings: make(map[Order]*ranking),
		load:     load{used: now, cycles: 1 + own}, // each node of this client stands for an acquire
		ended:    func(v *View, why error) { vs.ended(session, real, v, why) },
	}
	vs.byPath[real] = v
	go v.watch(client, session) // ends with the view, or with its connection
	return v
}

// Lookup returns the existing view of a path, or nil. Unlike Get it does not count as a use.
func (vs *Views) Lookup(client *framework.Client, path string) *View {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	return vs.byPath[engine.Of(client).Real(path)]
}

// watch sets the watch of a view, reads the first list and its nodes, and ends the view with its
// connection.
func (v *View) watch(client *framework.Client, session *framework.Session) {
	l, err := engine.Of(client.In(session)).Link(session.Context())
	if err != nil {
		v.end(nil)
		return
	}
	v.down = l.Down()
	answers := make(chan error, 2)
	remove := l.Watch(v.path, wire.Tree, v.event, func(err error) { answers <- err })
	defer remove()
	defer v.end(nil) // before remove: then nothing is reported any more
	var names []string
	l.Children(v.path, func(listed []string, stat *zk.Stat, err error) {
		names = listed
		answers <- v.list(listed, stat, err)
	})
	if err = cmp.Or(<-answers, <-answers); err == nil {
		err = v.read(l, names)
	}
	if err != nil {
		v.end(err)
		return
	}
	v.begin()
	for left := idle; left > 0; left = v.untilIdle() {
		select {
		case <-l.Down():
			return
		case <-v.done:
			return
		case <-time.After(left):
		}
	}
}

// read reads the nodes of the first list. Servers report the end of a node only to clients that may
// read it, so the view cannot be asked if one of them may not be read.
func (v *View) read(l engine.Link, names []string) (failed error) {
	answers := make(chan error, len(names))
	for _, name := range names {
		l.Get(framework.Join(v.path, name), func(_ []byte, _ *zk.Stat, err error) { answers <- v.unread(name, err) })
	}
	for range names {
		failed = cmp.Or(failed, <-answers)
	}
	return failed
}

// untilIdle is how long the view stays while it is unused.
func (v *View) untilIdle() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range v.rankings {
		if len(r.members) > 0 {
			return idle
		}
	}
	return idle - time.Since(v.load.used)
}

// ended removes a view that has ended: see View.end.
func (vs *Views) ended(session *framework.Session, path string, v *View, why error) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if vs.byPath[path] == v {
		delete(vs.byPath, path)
	}
	switch {
	case errors.Is(why, framework.ErrWatchUnsupported):
		vs.without = session
	case errors.Is(why, errHeavy), errors.Is(why, errMissed), errors.Is(why, zk.ErrNoAuth), errors.Is(why, zk.ErrNoNode):
		now := time.Now()
		maps.DeleteFunc(vs.rests, func(_ string, until time.Time) bool { return now.After(until) })
		vs.rests[path] = now.Add(rest)
	}
}
