package framework

import (
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/engine"
)

// Watch fires once, when something has happened to a node since it was read. To continue, read again, which sets
// another watch. Nothing has to be done to give a Watch up: all watches of one kind on one node share one entry,
// here and on the server. It may fire for a change that the read had already seen.
//
// A Watch also fires when the connection is lost, with an event of type [zk.EventNotWatching]. Then read again,
// since something may have happened while there was no connection. A Watch from [Client.ChildrenW] also fires this way
// if the same client later sets a recursive watch on that path, because the server may drop the first watch. The
// event's Err is nil then.
//
// All methods are safe for concurrent use.
type Watch engine.Watch

// Done is closed when the watch has fired.
func (w *Watch) Done() <-chan struct{} { return (*engine.Watch)(w).Done() }

// Event says what happened. It is the zero Event until Done is closed.
func (w *Watch) Event() zk.Event { return (*engine.Watch)(w).Event() }

// ErrWatchUnsupported means that the server has no persistent watches that the client can use: ZooKeeper before 3.6, or with
// WatchManagerOptimized, and every ClickHouse Keeper. Use [Client.GetW] and [Client.ChildrenW] instead. A Keeper is not asked: older ones close the
// connection, and newer ones report the path of the watch instead of that of the node.
var ErrWatchUnsupported = engine.ErrWatchUnsupported

// WatchMode says which nodes a persistent watch covers.
type WatchMode int32

// The modes of ZooKeeper's addWatch.
const (
	// WatchPersistent covers one node: its creation, its deletion, changes of its data, and
	// zk.EventNodeChildrenChanged when a child is created or deleted.
	WatchPersistent WatchMode = 0

	// WatchRecursive covers a node and all nodes below it: creation, deletion and changes of data, each
	// with the path of the node concerned. There are no events about lists of children.
	WatchRecursive WatchMode = 1
)

// PersistentWatch is a watch that stays until it is removed or its connection ends. All methods are
// safe for concurrent use.
type PersistentWatch struct{ watch *engine.PersistentWatch }

// Done is closed when the watch has ended: its connection ended, or it was removed.
func (w *PersistentWatch) Done() <-chan struct{} { return w.watch.Done() }

// Err is nil until Done is closed. Then it is zk.ErrConnectionClosed, or [ErrSessionLost] or
// [ErrClosed] if the session is over as well, or nil if the watch was removed.
func (w *PersistentWatch) Err() error { return w.watch.Err() }

// Remove ends the watch. It does not wait: a call of the watch's function may still be under way. The server is
// asked to remove it in the background when no other watch shares it.
func (w *PersistentWatch) Remove() { w.watch.Remove() }
