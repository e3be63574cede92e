package engine

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/wait"
)

// Watch is a framework.Watch: one that fires once.
type Watch struct {
	shared *sharedWatch
	client Client
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

// sharedWatch is what all watches of one kind on one node have in common.
type sharedWatch struct {
	in    *watches
	done  chan struct{}
	event zk.Event // set before done is closed

	// Guarded by watches.mu.
	armed   bool // the server has it
	setting int  // reads that are about to arm it
	funcs   []func(zk.Event, *Session)
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

// Watched sends a read of a path on the server that sets a watch, unless the server has one that will send the same events. An exists sets
// one also if it fails with zk.ErrNoNode.
func Watched[T any](ctx context.Context, c Client, l *Connection, path string, kind WatchKind, ask func(path string, watch bool) Request[T]) (T, *Watch, error) {
	ws := &l.watches
	ws.order.Lock()
	shared, request := ws.begin(path, kind)
	q := ask(path, request)
	exists := q.Op == proto.OpExists
	q.done = func(_ T, err error) { ws.settle(path, kind, shared, sets(exists, err)) }
	x := send(l, q)
	ws.order.Unlock()
	value, err := x.wait(ctx, l)
	return value, &Watch{shared, c}, err
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
	w := newPersistentWatch(c, l, path, mode, f)
	x, err := w.send(func(error) {})
	if err == nil {
		_, err = x.wait(ctx, l)
	}
	if err != nil {
		l.watches.leave(w)
	}
	return w, unsupported(err)
}

func newPersistentWatch(c Client, l *Connection, path string, mode Mode, f func(zk.Event)) *PersistentWatch {
	return &PersistentWatch{link: l, path: c.Real(path), mode: mode, f: f, client: c, done: make(chan struct{})}
}

// send asks the server to set the watch, also when another call has done so: that call may not have been answered yet. done
// is called with the answer, unless nothing was sent.
func (w *PersistentWatch) send(done func(err error)) (*exchange[None], error) {
	l, ws := w.link, &w.link.watches
	if err := l.Supports(proto.OpAddWatch); err != nil {
		return nil, unsupported(err)
	}
	ws.order.Lock()
	defer ws.order.Unlock()
	mode := ws.join(w)
	q := askAddWatch(w.path, mode)
	q.done = func(_ None, err error) {
		ws.joined(w, mode, err)
		l.session.core.noteUnknown(proto.OpAddWatch, err)
		done(unsupported(err))
	}
	return send(l, q), nil
}

// unsupported is err, or [ErrWatchUnsupported] if the server does not know the request.
func unsupported(err error) error {
	if errors.Is(err, ErrUnimplemented) {
		return ErrWatchUnsupported
	}
	return err
}

// Done is as in framework.PersistentWatch, and so are Err, Session and Remove.
func (w *PersistentWatch) Done() <-chan struct{} { return w.done }

func (w *PersistentWatch) Err() error {
	if wait.Closed(w.done) {
		return w.err
	}
	return nil
}

func (w *PersistentWatch) Session() *Session { return w.link.session }

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
	defer func() {
		if p := recover(); p != nil {
			w.client.cfg.Log.Error("watch function panicked", "path", event.Path, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	w.f(event)
}

func (w *PersistentWatch) end(err error) {
	w.once.Do(func() {
		w.err = err
		close(w.done)
	})
}
