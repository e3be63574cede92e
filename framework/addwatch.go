package framework

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"
)

// ErrWatchUnsupported means that the servers do not know persistent watches: ZooKeeper before
// 3.6. A caller can do the same with [Client.GetW] and [Client.ChildrenW].
var ErrWatchUnsupported = errors.New("persistent watches are not supported by the server")

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
type PersistentWatch struct {
	link   *link
	shared *sharedPersistent
	notify func(zk.Event)
	ended  func() // nil, or called when the connection has ended

	once sync.Once
	done chan struct{}
	err  error // set before done is closed
}

// AddWatch sets a persistent watch on path, which need not exist. It says nothing about what is there
// already: add the watch first, then read.
//
// f is called with every event, on the connection's goroutine and in the order of the connection: an
// event that the server sent before a reply has been given to f before the operation of that
// reply returns. So f must be quick, must not block and must not call the client. Watches on the same
// path and with the same mode share one watch on the server. Servers report nothing about nodes that the client is not allowed to read.
//
// The watch ends with its connection, also if the session goes on: nothing is replayed, so add
// it again then, and read again. Errors are [ErrWatchUnsupported], [ErrBadPath], [ErrBadArgument]
// and those of other operations. With a context from [InSession] it is set in that session.
func (c *Client) AddWatch(ctx context.Context, path string, mode WatchMode, f func(zk.Event)) (*PersistentWatch, error) {
	const op = "addWatch"
	if err := ValidatePath(path); err != nil {
		return nil, opError(op, path, err)
	}
	if mode != WatchPersistent && mode != WatchRecursive || f == nil {
		return nil, opError(op, path, fmt.Errorf("%w: watch mode %d, or a nil function", ErrBadArgument, mode))
	}
	var w *PersistentWatch
	key := persistentKey{c.real(path), mode}
	err := c.core.do(ctx, op, path, func(l *link) error {
		w = &PersistentWatch{link: l, done: make(chan struct{})}
		w.notify = func(e zk.Event) {
			e.Path = c.unreal(e.Path)
			f(e)
		}
		if !l.persistent.add(key, w) {
			return zk.ErrNoServer
		}
		// Also when another call has set it: that call may not have been answered yet.
		_, err := ask(ctx, l, askAddWatch(key.path, mode))
		if err != nil {
			l.persistent.drop(w)
		}
		if unimplemented(err) || errors.Is(err, zk.ErrBadArguments) {
			return ErrWatchUnsupported
		}
		return err
	})
	if err != nil {
		return nil, opError(op, path, err)
	}
	return w, nil
}

// Done is closed when the watch has ended: its connection ended, or it was removed.
func (w *PersistentWatch) Done() <-chan struct{} { return w.done }

// Err is nil until Done is closed, and then zk.ErrConnectionClosed, or nil if the watch was removed.
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
	if last := w.link.persistent.drop(w); !last {
		return
	}
	l, key := w.link, w.shared.key
	l.session.core.background(func() { // ends with the request, or with the connection
		_, _ = ask(l.session.core.ctx, l, askRemoveWatch(key.path))
	})
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

type persistentKey struct {
	path string // on the server
	mode WatchMode
}

// sharedPersistent is one watch on the server.
type sharedPersistent struct {
	key     persistentKey
	members []*PersistentWatch // replaced, never changed
}

// persistentWatches are those of one connection.
type persistentWatches struct {
	mu    sync.Mutex // guards what follows; not held while a function is called
	byKey map[persistentKey]*sharedPersistent
	ended bool
}

// add reports whether the connection still takes watches.
func (ps *persistentWatches) add(key persistentKey, w *PersistentWatch) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.ended {
		return false
	}
	shared := ps.byKey[key]
	if shared == nil {
		shared = &sharedPersistent{key: key}
		if ps.byKey == nil {
			ps.byKey = make(map[persistentKey]*sharedPersistent)
		}
		ps.byKey[key] = shared
	}
	w.shared = shared
	shared.members = append(shared.members[:len(shared.members):len(shared.members)], w)
	return true
}

// drop takes w away and reports whether it was the last of its key.
func (ps *persistentWatches) drop(w *PersistentWatch) (last bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var rest []*PersistentWatch
	found := false
	for _, m := range w.shared.members {
		if m == w {
			found = true
		} else {
			rest = append(rest, m)
		}
	}
	w.shared.members = rest
	if !found || len(rest) > 0 || ps.ended {
		return false
	}
	delete(ps.byKey, w.shared.key)
	return true
}

// notify calls the functions of all watches that cover the event's node. It runs on the connection's goroutine.
func (ps *persistentWatches) notify(event zk.Event) {
	for _, w := range ps.covering(event) {
		w.notify(event)
	}
}

func (ps *persistentWatches) covering(event zk.Event) []*PersistentWatch {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if len(ps.byKey) == 0 {
		return nil
	}
	var found []*PersistentWatch
	add := func(key persistentKey) {
		if shared := ps.byKey[key]; shared != nil {
			if found == nil {
				found = shared.members
			} else {
				found = append(found[:len(found):len(found)], shared.members...)
			}
		}
	}
	add(persistentKey{event.Path, WatchPersistent})
	if event.Type == zk.EventNodeChildrenChanged {
		return found
	}
	for path := event.Path; ; path, _ = Split(path) {
		add(persistentKey{path, WatchRecursive})
		if path == "/" {
			return found
		}
	}
}

// end ends all watches, because the connection is gone.
func (ps *persistentWatches) end() {
	ps.mu.Lock()
	ps.ended = true
	all := ps.byKey
	ps.byKey = nil
	ps.mu.Unlock()
	for _, shared := range all {
		for _, w := range shared.members {
			w.end(zk.ErrConnectionClosed)
		}
	}
}

// Operations that go-zookeeper does not know.
const (
	opRemoveWatches = 18
	opAddWatch      = 106

	watcherAny = 3
)

func askAddWatch(path string, mode WatchMode) question[struct{}] {
	body := appendBytes(make([]byte, 0, 8+len(path)), []byte(path))
	body = binary.BigEndian.AppendUint32(body, uint32(mode))
	return question[struct{}]{op: opAddWatch, body: body, parse: func(*cursor) struct{} { return struct{}{} }}
}

func askRemoveWatch(path string) question[struct{}] {
	body := appendBytes(make([]byte, 0, 8+len(path)), []byte(path))
	body = binary.BigEndian.AppendUint32(body, watcherAny)
	return question[struct{}]{op: opRemoveWatches, body: body, parse: func(*cursor) struct{} { return struct{}{} }}
}
