package view

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
)

// Views are the views of one client, and of all that share its connection.
type Views struct {
	mu     sync.Mutex // guards what follows
	byPath map[string]*View
	rests  map[string]time.Time // until when a path has no view

	without *framework.Session // its server has no recursive watches
}

const (
	// idle: a view that nobody has used for this time is given up.
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

// Get returns the view of a path for an acquire, or nil. If there is none, one may begin, if the caller wants that: see View.Await. own
// is how many nodes of the caller may be in the queue.
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
		waiters:  make(map[string][]*Waiter),
		members:  make(map[string]Member),
		load:     load{used: now, cycles: 1},
		ended:    func(v *View, why error) { vs.ended(session, real, v, why) },
	}
	vs.byPath[real] = v
	go v.watch(client, session, MaxOthers+own) // ends with the view, or with its connection
	return v
}

// Lookup returns the view of a path that is there, or nil.
func (vs *Views) Lookup(client *framework.Client, path string) *View {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	return vs.byPath[engine.Of(client).Real(path)]
}

// watch sets the watch of a view, reads the first list and its nodes, of which there may be so many besides those that are being
// created, and ends the view with its connection.
func (v *View) watch(client *framework.Client, session *framework.Session, most int) {
	l, err := engine.Of(client).Link(framework.InSession(session.Context(), session))
	if err != nil {
		v.end(nil)
		return
	}
	watched, listed := make(chan error, 1), make(chan error, 1)
	remove := l.Watch(v.path, engine.Tree, v.event, func(err error) { watched <- err })
	defer remove()
	l.Children(v.path, func(names []string, stat *zk.Stat, err error) {
		v.list(names, stat, err)
		listed <- err
	})
	err = <-watched
	if list := <-listed; err == nil && !errors.Is(list, zk.ErrNoNode) {
		err = list
	}
	if err == nil {
		err = v.read(l, most)
	}
	if err != nil {
		v.end(err)
		return
	}
	v.begin()
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		select {
		case <-l.Down():
			v.end(nil)
		case <-timer.C:
			if left := v.untilIdle(); left > 0 {
				timer.Reset(left)
			} else {
				v.end(nil)
			}
		case <-v.done:
			return
		}
	}
}

// read reads the nodes of the first list. Servers report the end of a node only to those who may read it, so the view cannot
// be asked if one of them may not be read.
func (v *View) read(l engine.Link, most int) error {
	names, creating := v.first()
	if len(names) > most+creating {
		return errHeavy
	}
	answers := make(chan error, len(names))
	for _, name := range names {
		l.Get(framework.Join(v.path, name), func(_ []byte, _ *zk.Stat, err error) { answers <- v.unread(name, err) })
	}
	var failed error
	for range names {
		if err := <-answers; err != nil {
			failed = err
		}
	}
	return failed
}

// Why a view is not worth having. zk.ErrNoAuth and zk.ErrNoNode, for a node of the first list, say that, too.
var (
	errHeavy  = errors.New("it costs more than lists do")
	errMissed = errors.New("no event came for a node")
)

// untilIdle is how long the view stays if nobody uses it.
func (v *View) untilIdle() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.members) > 0 {
		return idle
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
