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

// Done, Err, Session and Remove are those of framework.PersistentWatch.
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
