package engine

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
)

// Link is one connection of one session, with the paths of a client. All methods are safe for concurrent use. Two Links are equal
// if they are the same connection of the same client.
type Link struct {
	*Connection
	client Client
	view   *view // nil: reads set no watches
}

// Link returns the connection that there is, and waits for one as operations do: for the connection timeout, without a
// retry. With a context of [InSession] it is one of that session. The error is that of ctx, [ErrClosed],
// [ErrSessionLost], zk.ErrAuthFailed, or wraps zk.ErrNoServer.
func (c Client) Link(ctx context.Context) (Link, error) {
	l, err := c.awaitLink(ctx, c.pinned(ctx), c.cfg.ConnectionTimeout)
	if err != nil {
		return Link{}, err
	}
	return Link{Connection: l, client: c}, nil
}

// Get is for the data of a node. Like Exists, Children and Delete it sends one request, once, and does not block. Errors are those of ZooKeeper,
// zk.ErrNoServer if nothing was sent, and one that wraps zk.ErrConnectionClosed if no answer came.
func (l Link) Get(path string, done func(data []byte, stat *zk.Stat, err error)) {
	read(l, "get", path, WatchData, AskGet, func(r WithStat[[]byte], err error) { done(r.Value, r.Stat, err) })
}

// GetAll is Get for several nodes, in one request where servers have multiRead, reads set no watches, and it is not too long. done is
// called for each path, with its place in paths. No event comes between them that the later ones know of and the earlier ones do not:
// ZooKeeper's CommitProcessor applies no transaction while it answers a read.
func (l Link) GetAll(paths []string, done func(i int, data []byte, stat *zk.Stat, err error)) {
	var q Request[[]proto.MultiResult]
	together := len(paths) > 1 && l.view == nil && l.Supports(proto.OpMultiRead) == nil
	if together {
		reads := make([]proto.MultiOp, len(paths))
		for i, path := range paths {
			reads[i] = proto.MultiOp{Op: proto.OpGetData, Body: &proto.ReadRequest{Path: l.client.Real(path)}}
		}
		q = AskMulti(proto.OpMultiRead, reads)
		together = conn.CheckLength(len(q.Frame), l.client.cfg.MaxRequest) == nil
	}
	if !together {
		for i, path := range paths {
			l.Get(path, func(data []byte, stat *zk.Stat, err error) { done(i, data, stat, err) })
		}
		return
	}
	q.done = observed(l, "multiRead", paths[0], func(found []proto.MultiResult, err error) {
		found = append(found, make([]proto.MultiResult, len(paths))...) // a result that is missing is malformed
		for i := range paths {
			done(i, found[i].Data, (*zk.Stat)(&found[i].Stat), cmp.Or(err, ReadFailure(found[i], proto.OpGetData)))
		}
	})
	post(l.Connection, q)
}

// Exists is for the stat of a node: see Get.
func (l Link) Exists(path string, done func(stat *zk.Stat, err error)) {
	read(l, "exists", path, WatchData, AskExists, done)
}

// Children is for the names of a node's children: see Get.
func (l Link) Children(path string, done func(names []string, stat *zk.Stat, err error)) {
	read(l, "children", path, WatchChildren, AskChildren, func(r WithStat[[]string], err error) { done(r.Value, r.Stat, err) })
}

// Delete deletes a node: see Get.
func (l Link) Delete(path string, version int32, done func(err error)) {
	q := AskDelete(l.client.Real(path), version)
	q.done = observed(l, "delete", path, func(_ None, err error) { done(err) })
	post(l.Connection, q)
}

// Watch sets a persistent watch. f is called with each event about the node, or about all nodes below it as well if
// mode is Tree, until remove is called or the link is down. It may be called before done. err is
// [ErrWatchUnsupported] if the server has no such watches.
func (l Link) Watch(path string, mode Mode, f func(zk.Event), done func(err error)) (remove func()) {
	w, _ := l.client.addWatch(l.Connection, path, mode, f, done)
	return w.Remove
}

// read sends a read, which sets a watch if the link's reads do.
func read[T any](l Link, op, path string, kind WatchKind, ask Reading[T], done func(T, error)) {
	real, done := l.client.Real(path), observed(l, op, path, done)
	if l.view != nil {
		watch(l.Connection, l.view, real, kind, ask, done)
		return
	}
	q := ask(real, false)
	q.done = done
	post(l.Connection, q)
}

// observed is done, and reports the request on another goroutine if somebody observes.
func observed[T any](l Link, op, path string, done func(T, error)) func(T, error) {
	if l.client.cfg.Operation == nil {
		return done
	}
	began := time.Now()
	return func(value T, err error) {
		done(value, err)
		l.client.reportSoon(Operation{Op: op, Path: path, Began: began, Attempts: 1, Err: err})
	}
}

// reports are operations that are reported on a goroutine of its own: that of the connection, on which they end, must not block.
type reports struct {
	mu    sync.Mutex  // guards queue; not held while the observer is called
	queue []Operation // the first is being reported
}

// reportSoon reports an operation that has ended, after those before it, if somebody observes. After Close nothing is reported.
func (c *core) reportSoon(e Operation) {
	if c.cfg.Operation == nil {
		return
	}
	e.Duration = time.Since(e.Began)
	r := &c.reports
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, e)
	if len(r.queue) == 1 {
		c.background(c.reportQueue) // ends when all is reported
	}
}

func (c *core) reportQueue() {
	r := &c.reports
	r.mu.Lock()
	for ; len(r.queue) > 0; r.queue = r.queue[1:] {
		e := r.queue[0]
		r.mu.Unlock()
		c.cfg.Operation(c.ctx, e)
		r.mu.Lock()
	}
	r.mu.Unlock()
}
