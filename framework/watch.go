package framework

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/internal/wait"
)

func init() {
	clientapi.OnFire = func(watch any, f func(event zk.Event, session any)) { watch.(*Watch).shared.onFire(f) }
}

// Watch tells once that something has happened to a node since it was read. To continue, read again, which sets
// another watch. Nothing has to be done to give a Watch up: all watches of one kind on one node share one entry,
// here and on the server. It may fire for a change that the read had already seen.
//
// A Watch also fires when the connection is lost, with an event of type [zk.EventNotWatching]. Then read again,
// since something may have happened while there was no connection. A Watch from [Client.ChildrenW] also fires this way
// if the same client later sets a recursive watch on that path, because the server may drop the first watch. The
// event's Err is nil then.
//
// All methods are safe for concurrent use.
type Watch struct {
	shared *sharedWatch
	client *Client
}

// Done is closed when the watch has fired.
func (w *Watch) Done() <-chan struct{} { return w.shared.done }

// Event says what happened. It is the zero Event until Done is closed.
func (w *Watch) Event() zk.Event {
	if !wait.Closed(w.shared.done) {
		return zk.Event{}
	}
	event := w.shared.event
	event.Path = w.client.unreal(event.Path)
	return event
}

// askWatched sends a read that sets a watch, unless the server has one that will tell.
func askWatched[T any](ctx context.Context, l *link, key watchKey, q func(real string, watch bool) question[T]) (T, *sharedWatch, error) {
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
	there, gone := watchKey{path, watchData}, watchKey{path, watchGone}
	ws.order.Lock()
	wThere, armedThere, requestThere := ws.begin(there)
	wGone, armedGone, requestGone := ws.begin(gone)
	q := askExists(path, requestThere || requestGone)
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
