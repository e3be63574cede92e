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
func (w *Watch) OnFire(f func(event zk.Event, session *Session)) { w.shared.onFire(f) }

// Watched sends a read of a path on the server that sets a watch, unless the server has one that will send the same events.
func Watched[T any](ctx context.Context, c Client, l *Connection, path string, kind WatchKind, ask func(path string, watch bool) Request[T]) (T, *Watch, error) {
	value, shared, err := askWatched(ctx, l, watchKey{path, kind}, ask)
	return value, &Watch{shared, c}, err
}

// ExistsWatched is Watched for an exists. The error is nil, and stat too, if there is no such node.
func (c Client) ExistsWatched(ctx context.Context, l *Connection, path string) (stat *zk.Stat, w *Watch, err error) {
	stat, shared, err := l.watches.askExists(ctx, path)
	return stat, &Watch{shared, c}, err
}

// askWatched sends a read that sets a watch, unless the server has one that will send the same events.
func askWatched[T any](ctx context.Context, l *Connection, key watchKey, q func(real string, watch bool) Request[T]) (T, *sharedWatch, error) {
	ws := &l.watches
	ws.order.Lock()
	shared, armed, request := ws.begin(key)
	question := q(key.path, request)
	if !armed {
		question.done = func(_ T, err error) { ws.settle(key, shared, err == nil) }
	}
	x := send(l, question)
	ws.order.Unlock()
	value, err := x.wait(ctx, l)
	return value, shared, err
}

// askExists is askWatched for an exists: which of two kinds its watch is, the answer says. stat is nil if
// there is no such node.
func (ws *watches) askExists(ctx context.Context, path string) (stat *zk.Stat, shared *sharedWatch, err error) {
	there, gone := watchKey{path, WatchData}, watchKey{path, watchGone}
	ws.order.Lock()
	wThere, armedThere, requestThere := ws.begin(there)
	wGone, armedGone, requestGone := ws.begin(gone)
	q := AskExists(path, requestThere || requestGone)
	q.done = func(_ *zk.Stat, err error) {
		if !armedThere {
			ws.settle(there, wThere, err == nil)
		}
		if !armedGone {
			ws.settle(gone, wGone, errors.Is(err, zk.ErrNoNode))
		}
	}
	x := send(ws.link, q)
	ws.order.Unlock()
	stat, err = x.wait(ctx, ws.link)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, wGone, nil
	}
	return stat, wThere, err
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

// AddWatch sets a persistent watch on a path of the namespace, once on each connection that it is tried on.
func (c Client) AddWatch(ctx context.Context, path string, mode Mode, f func(zk.Event)) (*PersistentWatch, error) {
	var w *PersistentWatch
	err := c.Do(ctx, "addWatch", path, func(l *Connection) error {
		w = newPersistentWatch(c, l, path, mode, f)
		return w.add(ctx)
	})
	return w, err
}

func newPersistentWatch(c Client, l *Connection, path string, mode Mode, f func(zk.Event)) *PersistentWatch {
	return &PersistentWatch{link: l, path: c.Real(path), mode: mode, f: f, client: c, done: make(chan struct{})}
}

// add has the server set the watch, and waits for the answer.
func (w *PersistentWatch) add(ctx context.Context) error {
	x, err := w.send(func(error) {})
	if err == nil {
		_, err = x.wait(ctx, w.link)
	}
	if err != nil {
		w.link.watches.leave(w)
	}
	return unsupported(err)
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
	mode, alive := ws.join(w)
	if !alive {
		return nil, zk.ErrNoServer
	}
	q := askAddWatch(w.path, mode)
	q.done = func(_ None, err error) {
		ws.joined(w.path, mode, err)
		l.session.core.unknownOps.note(proto.OpAddWatch, err)
		if err != nil {
			ws.leave(w)
		}
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
