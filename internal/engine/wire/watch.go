package wire

import (
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/wait"
)

// Watch fires once. Calls of [Watched] that set a watch of one kind on one node, and whose contexts
// end together, share it.
type Watch struct {
	in    *watches
	path  string
	done  chan struct{}
	event zk.Event // set before done is closed

	// Guarded by watches.mu.
	once  *onceWatch // nil: it has fired
	ended <-chan struct{}
	calls int // whose read has not failed
	funcs []func(zk.Event)
	stop  func() bool // ends the wait for the end of the contexts; nil: there is none
}

// Done returns a channel that is closed when the watch has fired.
func (w *Watch) Done() <-chan struct{} { return w.done }

// Event returns the event that fired the watch. Until Done is closed, it returns the zero Event.
func (w *Watch) Event() zk.Event {
	if !wait.Closed(w.done) {
		return zk.Event{}
	}
	return w.event
}

// OnFire calls f once, when the watch fires. If it has already fired, OnFire calls f before it
// returns. f must neither block nor call the client.
//
// It runs on the connection's goroutine before later answers are delivered, or on another goroutine
// if the watch is given up.
func (w *Watch) OnFire(f func(event zk.Event)) {
	w.in.mu.Lock()
	defer w.in.mu.Unlock()
	if w.once == nil {
		f(w.event)
	} else {
		w.funcs = append(w.funcs, f)
	}
}

// fire ends the watch. in.mu is held.
func (w *Watch) fire(event zk.Event) {
	w.event, w.once = event, nil
	close(w.done)
	for _, f := range w.funcs {
		f(event)
	}
	w.funcs = nil
	if w.stop != nil {
		w.stop()
	}
}

// Reading returns a request that reads a path, and sets a watch if watch is true.
type Reading[T any] func(path string, watch bool) Request[T]

// Watched sends a read. The read sets a watch unless the server already has one that will send the
// same events. When ctx is done, the watch is given up.
//
// An exists request sets a watch even if it fails with zk.ErrNoNode.
func Watched[T any](ctx context.Context, l *Conn, path string, kind WatchKind, ask Reading[T]) (T, *Watch, error) {
	op, w, x := watch(l, user{ended: ctx.Done()}, path, kind, ask, func(T, error) {})
	value, err := x.wait(ctx)
	l.watches.learn(ctx, w, sets(op, err))
	return value, w, err
}

// user sets a watch that fires once: a listener, or, without one, the calls of Watched whose
// contexts end with ended.
type user struct {
	listener *Listener
	ended    <-chan struct{}
}

// watch sends the read of [Watched], or of a listener. done is called with the answer, when the
// watch has its place in the table.
func watch[T any](l *Conn, of user, path string, kind WatchKind, ask Reading[T], done func(T, error)) (proto.Op, *Watch, *exchange[T]) {
	ws := &l.watches
	ws.order.Lock()
	defer ws.order.Unlock()
	once, shared, request := ws.begin(path, kind, of)
	q := ask(path, request)
	op := q.Op
	q.Done = func(value T, err error) {
		ws.settle(path, once, sets(op, err))
		done(value, err)
	}
	return op, shared, send(l, q)
}

// Listener receives the events of the standard watches that its reads set, until it is removed or
// the connection is lost. It is for servers without persistent watches.
type Listener struct {
	link    *Conn
	f       func(zk.Event)
	removed bool // guarded by watches.mu
}

// Listener returns a listener that calls f with its events.
func (l *Conn) Listener(f func(zk.Event)) *Listener { return &Listener{link: l, f: f} }

// Listen sends a read and calls done with the answer. The read sets a watch as in [Watched],
// and v receives the event that fires the watch.
func Listen[T any](v *Listener, path string, kind WatchKind, ask Reading[T], done func(T, error)) {
	watch(v.link, user{listener: v}, path, kind, ask, done)
}

// fire is called for an event that uses up a watch of the listener. watches.mu is held.
func (v *Listener) fire(event zk.Event) {
	if !v.removed {
		v.f(event)
	}
}

// Remove removes the watches that no other user needs from the server, in the background. It sends
// no request to a ClickHouse Keeper, because not all versions support the removal. A Keeper keeps
// the watches until they fire.
func (v *Listener) Remove() {
	l := v.link
	paths := l.watches.dropAll(v)
	if len(paths) == 0 || l.ByKeeper() {
		return
	}
	l.host.Background(func() { l.watches.removeAll(l.host.Life(), paths) }) // also ends with the connection
}

// PersistentWatch is a watch that stays until it is removed or its connection is lost. All methods
// are safe for concurrent use.
type PersistentWatch struct {
	link *Conn
	path string
	mode Mode
	f    func(zk.Event)

	once sync.Once
	done chan struct{}
	err  error // set before done is closed
}

// AddWatch sets a persistent watch and waits for the answer. f is called with its events. It
// returns [ErrWatchUnsupported] if the server has no persistent watches.
func (l *Conn) AddWatch(ctx context.Context, path string, mode Mode, f func(zk.Event)) (*PersistentWatch, error) {
	w, x := l.addWatch(path, mode, f, func(error) {})
	_, err := x.wait(ctx)
	if err != nil {
		l.watches.unsubscribe(w)
	}
	return w, unsupported(err)
}

// Watch adds a watch without waiting, and calls done with the reply. The first call of f may
// precede done.
func (l *Conn) Watch(path string, mode Mode, f func(zk.Event), done func(error)) *PersistentWatch {
	w, _ := l.addWatch(path, mode, f, done)
	return w
}

// addWatch asks the server to set a watch, even when another call has done so: that call might not
// have been answered yet.
func (l *Conn) addWatch(path string, mode Mode, f func(zk.Event), done func(error)) (*PersistentWatch, *exchange[None]) {
	w := &PersistentWatch{link: l, path: path, mode: mode, f: f, done: make(chan struct{})}
	if l.Supports(proto.OpAddWatch) != nil { // it is not sent, and concerns no other watch
		return w, send(l, Request[None]{Op: proto.OpAddWatch, Done: func(_ None, err error) { done(unsupported(err)) }})
	}
	ws := &l.watches
	ws.order.Lock()
	defer ws.order.Unlock()
	asked := ws.subscribe(w)
	q := askAddWatch(path, asked)
	q.Done = func(_ None, err error) {
		ws.subscribed(w, asked, err)
		done(unsupported(err))
	}
	return w, send(l, q)
}

// ErrWatchUnsupported means that the server does not support persistent watches.
var ErrWatchUnsupported = errors.New("persistent watches are not supported by the server")

// unsupported returns err, or [ErrWatchUnsupported] if the server does not know the request. A
// server with the optimized watch manager (watchManagerName) has no persistent watches, and answers
// as if it could not read the request.
func unsupported(err error) error {
	if errors.Is(err, ErrUnimplemented) || errors.Is(err, conn.CodeError(proto.MarshallingError)) {
		return ErrWatchUnsupported
	}
	return err
}

// Done returns a channel that is closed when the watch was removed or its connection was lost.
func (w *PersistentWatch) Done() <-chan struct{} { return w.done }

// Err returns nil until Done is closed, and after Remove. Otherwise it returns the reason why the
// connection was lost.
func (w *PersistentWatch) Err() error {
	if wait.Closed(w.done) {
		return w.err
	}
	return nil
}

// Remove removes the watch, and removes it from the server in the background.
func (w *PersistentWatch) Remove() {
	w.end(nil)
	w.link.watches.unsubscribe(w)
}

// notify calls the watch's function, on the connection's goroutine.
func (w *PersistentWatch) notify(event zk.Event) {
	if !wait.Closed(w.done) {
		w.f(event)
	}
}

func (w *PersistentWatch) end(err error) {
	w.once.Do(func() {
		w.err = err
		close(w.done)
	})
}
