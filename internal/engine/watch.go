package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/wait"
)

// Watch is a framework.Watch: one that fires once.
type Watch struct {
	shared *sharedWatch
	client Client
}

// sharedWatch is what all callers with a watch of one kind on one node wait for.
type sharedWatch struct {
	in    *watches
	done  chan struct{}
	event zk.Event                   // set before done is closed
	funcs []func(zk.Event, *Session) // guarded by watches.mu
}

// Done is closed when the watch has fired.
func (w *Watch) Done() <-chan struct{} { return w.shared.done }

// Event says what happened. It is the zero Event until Done is closed.
func (w *Watch) Event() zk.Event {
	if !wait.Closed(w.shared.done) {
		return zk.Event{}
	}
	event := w.shared.event
	event.Path = w.client.Unreal(event.Path)
	return event
}

// OnFire calls f, once, when the watch fires, or at once if it has fired: on the connection's goroutine before later
// answers are handed out. f must neither block nor call the client. The path of the event is the server's, and session
// is the one that the watch was set in.
func (w *Watch) OnFire(f func(event zk.Event, session *Session)) {
	shared := w.shared
	shared.in.mu.Lock()
	defer shared.in.mu.Unlock()
	if wait.Closed(shared.done) {
		f(shared.event, shared.in.link.session)
	} else {
		shared.funcs = append(shared.funcs, f)
	}
}

// fire ends the watch. in.mu is held.
func (w *sharedWatch) fire(event zk.Event) {
	w.event = event
	close(w.done)
	for _, f := range w.funcs {
		f(event, w.in.link.session)
	}
	w.funcs = nil
}

// Watched sends a read of a path on the server that sets a watch, unless the server has one that will send the same
// events. An exists sets one also if it fails with zk.ErrNoNode.
func Watched[T any](ctx context.Context, c Client, l *Connection, path string, kind WatchKind, ask Reading[T]) (T, *Watch, error) {
	w, x := watch(l, nil, path, kind, ask, func(T, error) {})
	value, err := x.wait(ctx)
	return value, &Watch{w.shared, c}, err
}

// Reading makes a request that reads a path on the server, and sets a watch if watch is true.
type Reading[T any] func(path string, watch bool) Request[T]

// watch sends the read of [Watched], or of a view. done is called with the answer, when the watch has its place in the table.
func watch[T any](l *Connection, v *view, path string, kind WatchKind, ask Reading[T], done func(T, error)) (*onceWatch, *exchange[T]) {
	ws := &l.watches
	ws.order.Lock()
	defer ws.order.Unlock()
	w, request := ws.begin(path, kind, v)
	q := ask(path, request)
	op := q.Op
	q.done = func(value T, err error) {
		ws.settle(path, w, sets(op, err))
		done(value, err)
	}
	return w, send(l, q)
}

// view is who gets the events of the standard watches that the reads of a Link set: see [Link.Watched].
type view struct {
	link    Link // whose reads set none
	f       func(zk.Event)
	removed bool // guarded by watches.mu
}

// Watched is for servers without persistent watches. It returns a view of the link whose Get, Exists and Children set
// standard watches, each for one event: a Get or Children that succeeds, and an Exists also of a missing node. f is called with
// their events, those about lists of children included, until remove is called or the link is down. After an event of type
// zk.EventNotWatching the node has no watch, as after any other.
//
// remove takes the watches from the server, in the background. A ClickHouse Keeper has them until they fire.
func (l Link) Watched(f func(zk.Event)) (watched Link, remove func()) {
	v := &view{link: l, f: f}
	l.view = v
	return l, v.remove
}

// fire is called for an event that uses up a watch of the view. watches.mu is held.
func (v *view) fire(event zk.Event) {
	if !v.removed {
		event.Path = v.link.client.Unreal(event.Path)
		v.f(event)
	}
}

// removeAtOnce is how many watches are removed before an answer is waited for, so that other requests come in between.
const removeAtOnce = 64

// remove takes from the server what nobody else needs. A ClickHouse Keeper is not asked: not all of them know how.
func (v *view) remove() {
	l, ctx := v.link.Connection, v.link.client.ctx
	paths := l.watches.drop(v)
	if len(paths) == 0 || l.ByKeeper() {
		return
	}
	v.link.client.background(func() { // ends with the connection, or with the client
		for n, path := range paths {
			if ctx.Err() != nil || !l.up() {
				return
			}
			if x := l.watches.remove(path); x != nil && n%removeAtOnce == removeAtOnce-1 {
				_, _ = x.wait(ctx)
			}
		}
	})
}

// drop ends all watches of a view, and returns the paths that have no others. What removes them from the server is sent
// behind the reads that set them.
func (ws *watches) drop(v *view) (paths []string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	v.removed = true
	for path, r := range ws.rows {
		before := len(r.once)
		r.once = slices.DeleteFunc(r.once, func(w *onceWatch) bool { return w.view == v })
		if len(r.once) == before {
			continue
		}
		if ws.reviewLocked(path); ws.rows[path] == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

// PersistentWatch is a watch that stays until it is removed or its connection ends. All methods are
// safe for concurrent use.
type PersistentWatch struct {
	link   *Connection
	path   string // on the server
	mode   Mode
	f      func(zk.Event)
	client Client

	once sync.Once
	done chan struct{}
	err  error // set before done is closed
}

// AddWatch sets a persistent watch on a path of the namespace, and waits for the answer.
func (c Client) AddWatch(ctx context.Context, l *Connection, path string, mode Mode, f func(zk.Event)) (*PersistentWatch, error) {
	w, x := c.addWatch(l, path, mode, f, func(error) {})
	_, err := x.wait(ctx)
	if err != nil {
		l.watches.leave(w)
	}
	return w, unsupported(err)
}

// addWatch asks the server to set a watch, also when another call has done so: that call may not have been answered yet. done
// is called with the answer.
func (c Client) addWatch(l *Connection, path string, mode Mode, f func(zk.Event), done func(error)) (*PersistentWatch, *exchange[None]) {
	w := &PersistentWatch{link: l, path: c.Real(path), mode: mode, f: f, client: c, done: make(chan struct{})}
	if l.Supports(proto.OpAddWatch) != nil { // it is not sent, and concerns nobody else
		return w, send(l, Request[None]{Op: proto.OpAddWatch, done: func(_ None, err error) { done(unsupported(err)) }})
	}
	ws := &l.watches
	ws.order.Lock()
	defer ws.order.Unlock()
	asked := ws.join(w)
	q := askAddWatch(w.path, asked)
	q.done = func(_ None, err error) {
		ws.joined(w, asked, err)
		done(unsupported(err))
	}
	return w, send(l, q)
}

// ErrWatchUnsupported is that of package framework.
var ErrWatchUnsupported = errors.New("persistent watches are not supported by the server")

// unsupported is err, or [ErrWatchUnsupported] if the server does not know the request. One whose watchManagerName is that of the
// optimized watch manager has no persistent watches, and answers as if it could not read the request.
func unsupported(err error) error {
	if errors.Is(err, ErrUnimplemented) || errors.Is(err, conn.CodeError(proto.MarshallingError)) {
		return ErrWatchUnsupported
	}
	return err
}

// Done is as in framework.PersistentWatch, and so are Err and Remove.
func (w *PersistentWatch) Done() <-chan struct{} { return w.done }

func (w *PersistentWatch) Err() error {
	if wait.Closed(w.done) {
		return w.err
	}
	return nil
}

func (w *PersistentWatch) Remove() {
	w.end(nil)
	w.link.watches.leave(w)
}

// notify calls the watch's function, on the connection's goroutine.
func (w *PersistentWatch) notify(event zk.Event) {
	if wait.Closed(w.done) {
		return
	}
	event.Path = w.client.Unreal(event.Path)
	defer w.client.Recover("watch function", event.Path)
	w.f(event)
}

func (w *PersistentWatch) end(err error) {
	w.once.Do(func() {
		w.err = err
		close(w.done)
	})
}
