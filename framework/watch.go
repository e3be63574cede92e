package framework

import (
	"sync"

	"github.com/go-zookeeper/zk"
)

// Watch tells once that something has happened to a node since it was looked at.
// It fires at most once; to go on watching, look again. Any number of goroutines
// may wait for it. Nothing has to be done to give it up: all watches of one
// kind on one node share one entry, here and on the server.
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

type watchKey struct {
	path string // on the server
	kind watchKind
}

// watches are the watches of one link. go-zookeeper's own channels are not used: it
// has one per call, and none of them can be given back.
type watches struct {
	mu     sync.Mutex // guards what follows
	byNode map[watchKey]*sharedWatch
	ended  bool
}

// begin returns the watch that a call is about to arm, and whether it is armed already:
// then the call needs no watch of its own. Between begin and settle the
// watch cannot miss an event, as it is in the table before the request is sent.
func (ws *watches) begin(key watchKey) (w *sharedWatch, armed bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w = ws.byNode[key]
	if w == nil {
		w = &sharedWatch{done: make(chan struct{})}
		if ws.ended {
			w.event = zk.Event{Type: zk.EventNotWatching, State: zk.StateDisconnected, Path: key.path, Err: zk.ErrConnectionClosed}
			close(w.done)
			return w, false
		}
		if ws.byNode == nil {
			ws.byNode = make(map[watchKey]*sharedWatch)
		}
		ws.byNode[key] = w
	}
	if !w.armed {
		w.setting++
	}
	return w, w.armed
}

// settle says how the call that begin was for has ended.
func (ws *watches) settle(key watchKey, w *sharedWatch, armed bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.setting--
	w.armed = w.armed || armed
	if !w.armed && w.setting == 0 && ws.byNode[key] == w {
		delete(ws.byNode, key)
	}
}

// notify is go-zookeeper's event callback. It runs on the connection's goroutine and
// must not block.
func (ws *watches) notify(event zk.Event) {
	switch event.Type {
	case zk.EventNodeCreated:
		ws.fire(event, watchGone)
	case zk.EventNodeDataChanged:
		ws.fire(event, watchData, watchGone)
	case zk.EventNodeChildrenChanged:
		ws.fire(event, watchChildren)
	case zk.EventNodeDeleted:
		ws.fire(event, watchData, watchGone, watchChildren)
	}
}

func (ws *watches) fire(event zk.Event, kinds ...watchKind) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, kind := range kinds {
		key := watchKey{event.Path, kind}
		if w := ws.byNode[key]; w != nil {
			delete(ws.byNode, key)
			w.event = event
			close(w.done)
		}
	}
}

// end fires what is left, because the connection is gone.
func (ws *watches) end() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.ended = true
	for key, w := range ws.byNode {
		w.event = zk.Event{Type: zk.EventNotWatching, State: zk.StateDisconnected, Path: key.path, Err: zk.ErrConnectionClosed}
		close(w.done)
	}
	ws.byNode = nil
}
