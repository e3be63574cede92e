package engine

import (
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// Link is one connection of one session, with the paths of a client. All methods are safe for concurrent use. Two Links are equal
// if they are the same connection of the same client.
type Link struct {
	*Connection
	client   Client
	standard *standardWatches // nil: reads set no watches
}

// Mode says which nodes a watch covers.
type Mode int32

// The modes of a watch.
const (
	Node Mode = 0 // one node, and the list of its children
	Tree Mode = 1 // a node and all nodes below it; no events about lists
)

// Get is for the data of a node. Like Exists, Children and Delete it sends one request, once, and does not block. Errors are those of ZooKeeper,
// zk.ErrNoServer if nothing was sent, and one that wraps zk.ErrConnectionClosed if no answer came.
func (l Link) Get(path string, done func(data []byte, stat *zk.Stat, err error)) {
	read(l, "get", path, WatchData, AskGet, func(r WithStat[[]byte], err error) { done(r.Value, r.Stat, err) })
}

// Exists is for the stat of a node: see Get.
func (l Link) Exists(path string, done func(stat *zk.Stat, err error)) {
	read(l, "exists", path, WatchData, AskExists, func(stat *zk.Stat, err error) {
		if l.standard != nil && errors.Is(err, zk.ErrNoNode) {
			l.standard.change(l.client.Real(path), 1<<watchGone, 0)
		}
		done(stat, err)
	})
}

// Children is for the names of a node's children: see Get.
func (l Link) Children(path string, done func(names []string, stat *zk.Stat, err error)) {
	read(l, "children", path, WatchChildren, AskChildren, func(r WithStat[[]string], err error) { done(r.Value, r.Stat, err) })
}

// Delete deletes a node: see Get.
func (l Link) Delete(path string, version int32, done func(err error)) {
	sendTo(l, "delete", path, askDelete(l.client.Real(path), version), func(_ None, err error) { done(err) })
}

// Watch sets a persistent watch. f is called with each event about the node, or about all nodes below it as well if
// mode is Tree, until remove is called or the link is down. It may be called before done. err is
// [ErrWatchUnsupported] if the server has no such watches.
func (l Link) Watch(path string, mode Mode, f func(zk.Event), done func(err error)) (remove func()) {
	w := newPersistentWatch(l.client, l.Connection, path, mode, f)
	if _, err := w.send(done); err != nil {
		done(err)
	}
	return w.Remove
}

// sendTo sends a request whose answer goes to a function, and reports it on another goroutine if somebody observes.
func sendTo[T any](l Link, op, path string, q Request[T], done func(T, error)) {
	q.done = done
	if l.client.cfg.Operation != nil {
		e := Operation{Op: op, Path: path, Began: time.Now(), Attempts: 1}
		q.done = func(value T, err error) {
			done(value, err)
			e.Err = err
			l.client.report(e)
		}
	}
	post(l.Connection, q)
}
