package engine

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

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

// Watched sends a read of a path on the server that sets a watch, unless the server has one that will tell.
func Watched[T any](ctx context.Context, c Client, l *Connection, path string, kind WatchKind, ask func(path string, watch bool) Request[T]) (T, *Watch, error) {
	value, shared, err := askWatched(ctx, l, watchKey{path, kind}, ask)
	return value, &Watch{shared, c}, err
}

// ExistsWatched is Watched for an exists. The error is nil, and stat too, if there is no such node.
func (c Client) ExistsWatched(ctx context.Context, l *Connection, path string) (stat *zk.Stat, w *Watch, err error) {
	stat, shared, err := l.watches.askExists(ctx, path)
	return stat, &Watch{shared, c}, err
}

// askWatched sends a read that sets a watch, unless the server has one that will tell.
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

// askExists is askWatched for an exists: which of two kinds its watch is, the answer tells. stat is nil if
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
