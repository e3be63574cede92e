package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/proto"
)

// ErrWatchUnsupported means that the servers do not know persistent watches: ZooKeeper before
// 3.6, and older ClickHouse Keepers. The client does not send that request again. Use [Client.GetW] and
// [Client.ChildrenW] instead.
var ErrWatchUnsupported = errors.New("persistent watches are not supported by the server")

// PersistentWatch is a watch that stays until it is removed or its connection ends. All methods are
// safe for concurrent use.
type PersistentWatch struct {
	link   *link
	path   string // on the server
	mode   WatchMode
	f      func(zk.Event)
	client *Client
	ended  func() // nil, or called when the connection has ended

	once sync.Once
	done chan struct{}
	err  error // set before done is closed
}

// AddWatch sets a persistent watch on path, which need not exist. It does not report what is there
// already: add the watch first, then read. It is Curator's watchers().add().
//
// f is called with every event, on the connection's goroutine and in the order of the connection: an
// event that the server sent before a reply has been given to f before the operation of that
// reply returns. So f must be quick, must not block and must not call the client. Watches on the same
// path and with the same mode share one watch on the server. Servers report nothing about nodes that the client is not allowed to read.
// While the client has a recursive watch at its path as well, a [WatchPersistent] is not told either that such a child came or went.
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

// add has the server set the watch, also when another call has done so: that call may not have been
// answered yet.
func (w *PersistentWatch) add(ctx context.Context) error {
	l, c := w.link, w.link.session.core
	if c.unknownOps.has(proto.OpAddWatch) {
		return ErrWatchUnsupported
	}
	ws := &l.watches
	ws.order.Lock()
	mode, alive := ws.join(w)
	if !alive {
		ws.order.Unlock()
		return zk.ErrNoServer
	}
	q := askAddWatch(w.path, mode)
	q.settle = func(err error) { ws.joined(w.path, mode, err) }
	x := send(l, q)
	ws.order.Unlock()
	_, err := x.wait(ctx, l)
	if c.unknownOps.note(l, proto.OpAddWatch, len(w.path), x.sent, err) {
		err = ErrWatchUnsupported
	}
	if err != nil {
		ws.leave(w)
	}
	return err
}

// Done is closed when the watch has ended: its connection ended, or it was removed.
func (w *PersistentWatch) Done() <-chan struct{} { return w.done }

// Err is nil until Done is closed. Then it is zk.ErrConnectionClosed, or [ErrSessionLost] or
// [ErrClosed] if the session is over as well, or nil if the watch was removed.
func (w *PersistentWatch) Err() error {
	select {
	case <-w.done:
		return w.err
	default:
		return nil
	}
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
	select {
	case <-w.done:
		return
	default:
	}
	event.Path = w.client.unreal(event.Path)
	w.f(event)
}

func (w *PersistentWatch) end(err error) {
	first := false
	w.once.Do(func() {
		first = true
		w.err = err
		close(w.done)
	})
	if first && err != nil && w.ended != nil {
		w.ended() // not within Do: it may call Remove
	}
}
