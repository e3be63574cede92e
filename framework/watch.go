package framework

import (
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/engine/wire"
)

// Watch fires once, when a node changes after a read. To continue, read again with a new watch. A
// Watch may fire for a change that the read has already returned.
//
// A Watch also fires with an event of type [zk.EventNotWatching]
//   - when the connection is lost. Read again, since the node may have changed.
//   - when the context of the read is done. The event's Err is the context's error. The server
//     removes the watch unless another one shares it.
//   - when the client sets a recursive watch on the path of a [Client.ChildrenW], because the
//     server may drop the first watch. The event's Err is nil.
//
// All methods are safe for concurrent use.
type Watch engine.Watch

// Done returns a channel that is closed when the watch has fired.
func (w *Watch) Done() <-chan struct{} { return (*engine.Watch)(w).Done() }

// Event returns the event that fired the watch. Until Done is closed, it returns the zero Event.
func (w *Watch) Event() zk.Event { return (*engine.Watch)(w).Event() }

// ErrWatchUnsupported is returned if the server does not support persistent watches. Such servers
// are ZooKeeper before 3.6, ZooKeeper with WatchManagerOptimized, and every ClickHouse Keeper. Use
// [Client.GetW] and [Client.ChildrenW] instead.
var ErrWatchUnsupported = engine.ErrWatchUnsupported

// WatchMode is the set of nodes that a persistent watch covers.
type WatchMode int32

// The modes of ZooKeeper's addWatch.
const (
	// WatchPersistent covers one node. It reports the node's creation, deletion and changes of
	// data, and zk.EventNodeChildrenChanged for created and deleted children. If the client also
	// has a recursive watch on the path, children that the client is not permitted to read are not
	// reported.
	WatchPersistent WatchMode = 0

	// WatchRecursive covers a node and all its descendants. It reports creations, deletions and
	// changes of data with the path of the affected node. It reports no
	// zk.EventNodeChildrenChanged.
	WatchRecursive WatchMode = 1
)

// PersistentWatch is a watch set by [Client.AddWatch]. All methods are safe for concurrent use.
type PersistentWatch struct{ watch *wire.PersistentWatch }

// Done returns a channel that is closed when the watch is removed or its connection is lost.
func (w *PersistentWatch) Done() <-chan struct{} { return w.watch.Done() }

// Err returns nil until Done is closed, and after Remove. Otherwise it returns the reason.
//
// Errors are
//   - zk.ErrConnectionClosed if the connection was lost;
//   - [ErrSessionLost] if the session was lost;
//   - [ErrClosed] if the client was closed.
func (w *PersistentWatch) Err() error { return w.watch.Err() }

// Remove removes the watch without waiting: a call of its function may still be running. If no
// other watch shares it, the client removes it from the server in the background.
func (w *PersistentWatch) Remove() { w.watch.Remove() }
