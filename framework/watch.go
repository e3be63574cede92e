package framework

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// Watch tells once that something has happened to a node since it was looked at.
// It fires at most once; to go on watching, look again. Any number of goroutines
// may wait for it. Nothing has to be done to give it up: all watches of one
// kind on one node share one entry, here and on the server. It may fire for a
// change that the look had already seen, so look again and compare.
//
// A Watch also fires when the connection is lost, with an event of type
// [zk.EventNotWatching]: whoever waits should then look again. It is the one
// thing that a watch that the server sets again after a reconnect could miss.
type Watch struct {
	shared *sharedWatch
	client *Client
}

// Done is closed when the watch has fired.
func (w *Watch) Done() <-chan struct{} { return w.shared.done }

// Event says what happened. It is the zero Event until Done is closed.
func (w *Watch) Event() zk.Event {
	select {
	case <-w.shared.done:
	default:
		return zk.Event{}
	}
	event := w.shared.event
	event.Path = w.client.unreal(event.Path)
	return event
}

// sharedWatch is what all watches of one kind on one node have in common.
type sharedWatch struct {
	done  chan struct{}
	event zk.Event // set before done is closed

	// Guarded by watches.mu.
	armed   bool // the server has it
	setting int  // calls that are about to arm it
}

// watchKind says which events end a watch. A node can have one of each.
type watchKind int

const (
	watchData watchKind = iota // set by reading data, and by an exists that found the node
	watchGone                  // set by an exists that found no node
	watchChildren
)

var watchKinds = [...]watchKind{watchData, watchGone, watchChildren}

type watchKey struct {
	path string // on the server
	kind watchKind
}

// askWatched sends a read that sets a watch, unless the server has one that will tell.
func askWatched[T any](ctx context.Context, l *link, key watchKey, q func(real string, watch bool) question[T]) (T, *sharedWatch, error) {
	ws := &l.watches
	ws.order.Lock()
	shared, armed, request := ws.begin(key)
	question := q(key.path, request)
	if !armed {
		question.settle = func(err error) { ws.settle(key, shared, err == nil) }
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
	q.settle = func(err error) {
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

// begin returns the watch that a call is about to arm, whether it is armed already, and whether the
// server has to be asked for it: not if it is armed, or if a persistent watch will tell the same.
// Between begin and settle the watch cannot miss an event, as it is in the table before the
// request is sent.
func (ws *watches) begin(key watchKey) (w *sharedWatch, armed, request bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w = ws.byNode[key]
	if w == nil {
		w = &sharedWatch{done: make(chan struct{})}
		if ws.ended {
			w.fire(notWatching(key.path))
			return w, true, false
		}
		if ws.byNode == nil {
			ws.byNode = make(map[watchKey]*sharedWatch)
		}
		ws.byNode[key] = w
	}
	if w.armed {
		return w, true, false
	}
	w.setting++
	return w, false, ws.standing[key.path] == nil
}

// settle says how the call that begin was for has ended, if it was not armed then.
func (ws *watches) settle(key watchKey, w *sharedWatch, armed bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.setting--
	w.armed = w.armed || armed
	if !w.armed && w.setting == 0 && ws.byNode[key] == w {
		delete(ws.byNode, key)
		ws.reviewLocked(key.path)
	}
}

// fireLocked ends watches of some kinds on one node. ws.mu is held.
func (ws *watches) fireLocked(event zk.Event, kinds ...watchKind) {
	for _, kind := range kinds {
		key := watchKey{event.Path, kind}
		if w := ws.byNode[key]; w != nil {
			delete(ws.byNode, key)
			w.fire(event)
			ws.reviewLocked(key.path)
		}
	}
}

func (w *sharedWatch) fire(event zk.Event) {
	w.event = event
	close(w.done)
}

// notWatching is the event of a watch that nothing will be heard of any more.
func notWatching(path string) zk.Event {
	return zk.Event{Type: zk.EventNotWatching, State: zk.StateDisconnected, Path: path, Err: zk.ErrConnectionClosed}
}
