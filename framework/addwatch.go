package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/wait"
)

// ErrWatchUnsupported means that the server has no persistent watches that the client can use: ZooKeeper before 3.6,
// and every ClickHouse Keeper. Use [Client.GetW] and [Client.ChildrenW] instead. A Keeper is not asked: older ones close the
// connection, and newer ones report the path of the watch instead of that of the node.
var ErrWatchUnsupported = errors.New("persistent watches are not supported by the server")

// PersistentWatch is a watch that stays until it is removed or its connection ends. All methods are
// safe for concurrent use.
type PersistentWatch struct {
	link   *link
	path   string // on the server
	mode   WatchMode
	f      func(zk.Event)
	client *Client

	once sync.Once
	done chan struct{}
	err  error // set before done is closed
}

// AddWatch sets a persistent watch on path, which need not exist. It does not report what is there
// already: add the watch first, then read. It is Curator's watchers().add().
//
// f is called with every event, on the connection's goroutine and in the order of the connection: an
// event that the server sent before a reply has been given to f before the operation of that
// reply returns. So f must be quick, must not block and must not call the client. If f panics, the panic is logged, and f is
// called with the next event. Watches on the same
// path and with the same mode share one watch on the server. Servers report nothing about nodes that the client is not allowed to read.
// If the client also has a recursive watch on this path, a [WatchPersistent] gets no event for children that the client
// may not read.
//
// The watch ends with its connection, also if the session lives on: nothing is replayed, so add
// it again then, and read again. Errors are [ErrWatchUnsupported], [ErrBadPath] and [ErrBadArgument].
func (c *Client) AddWatch(ctx context.Context, path string, mode WatchMode, f func(zk.Event)) (*PersistentWatch, error) {
	const op = "addWatch"
	if err := ValidatePath(path); err != nil {
		return nil, opError(op, path, err)
	}
	if mode != WatchPersistent && mode != WatchRecursive || f == nil {
		return nil, opError(op, path, fmt.Errorf("%w: %v, or a nil function", ErrBadArgument, mode))
	}
	var w *PersistentWatch
	err := c.core.do(ctx, op, path, func(l *link) error {
		w = newPersistentWatch(c, l, path, mode, f)
		return w.add(ctx)
	})
	if err != nil {
		return nil, opError(op, path, err)
	}
	return w, nil
}

func newPersistentWatch(c *Client, l *link, path string, mode WatchMode, f func(zk.Event)) *PersistentWatch {
	return &PersistentWatch{link: l, path: c.real(path), mode: mode, f: f, client: c, done: make(chan struct{})}
}

// add has the server set the watch, and waits for the answer.
func (w *PersistentWatch) add(ctx context.Context) error {
	answered := make(chan error, 1)
	x := w.send(func(err error) { answered <- err })
	if x == nil {
		return <-answered
	}
	if _, err := x.wait(ctx, w.link); err != nil {
		w.link.watches.leave(w)
		return cmp.Or(unsupported(err), err)
	}
	return nil
}

// send asks the server to set the watch, also when another call has done so: that call may not have been answered yet. done
// is called with the answer. send returns nil if nothing was sent.
func (w *PersistentWatch) send(done func(err error)) *exchange[nothing] {
	l, c := w.link, w.link.session.core
	if c.unknownOps.has(l, proto.OpAddWatch) {
		done(ErrWatchUnsupported)
		return nil
	}
	ws := &l.watches
	ws.order.Lock()
	defer ws.order.Unlock()
	mode, alive := ws.join(w)
	if !alive {
		done(zk.ErrNoServer)
		return nil
	}
	q := askAddWatch(w.path, mode)
	q.done = func(_ nothing, err error) {
		ws.joined(w.path, mode, err)
		if c.unknownOps.note(proto.OpAddWatch, err) {
			err = ErrWatchUnsupported
		}
		if err != nil {
			ws.leave(w)
		}
		done(err)
	}
	return send(l, q)
}

// unsupported is ErrWatchUnsupported if the server has answered so, and otherwise nil.
func unsupported(err error) error {
	if errors.Is(err, ErrUnimplemented) {
		return ErrWatchUnsupported
	}
	return nil
}

// Done is closed when the watch has ended: its connection ended, or it was removed.
func (w *PersistentWatch) Done() <-chan struct{} { return w.done }

// Err is nil until Done is closed. Then it is zk.ErrConnectionClosed, or [ErrSessionLost] or
// [ErrClosed] if the session is over as well, or nil if the watch was removed.
func (w *PersistentWatch) Err() error {
	if wait.Closed(w.done) {
		return w.err
	}
	return nil
}

// Session is the session of the connection that the watch belongs to.
func (w *PersistentWatch) Session() *Session { return w.link.session }

// Remove ends the watch. It does not wait: a call of the watch's function may still be under way. The server is
// told in the background when no other watch shares it.
func (w *PersistentWatch) Remove() {
	w.end(nil)
	w.link.watches.leave(w)
}

// notify tells the watch's function, on the connection's goroutine.
func (w *PersistentWatch) notify(event zk.Event) {
	if wait.Closed(w.done) {
		return
	}
	event.Path = w.client.unreal(event.Path)
	defer func() {
		if p := recover(); p != nil {
			w.client.Logger().Error("watch function panicked", "path", event.Path, "panic", p, "stack", string(debug.Stack()))
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
