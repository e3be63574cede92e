package engine

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/proto"
)

// Link is one connection of one session, with the paths of a client. All methods are safe for
// concurrent use. Two Links are equal if they are the same connection of the same client.
type Link struct {
	*Connection
	client   Client
	listener *wire.Listener // its reads set watches; nil: they set none
}

// Link returns the current connection. It waits at most the connection timeout for a connection,
// without a retry. A view of one session returns a connection of that session.
//
// Errors are
//   - the error of ctx if ctx is done, wrapped with zk.ErrNoServer if Link had to wait;
//   - zk.ErrNoServer if no server was reached in time;
//   - [ErrClosed] if the client is closed;
//   - [ErrSessionLost] if the client is a view of a lost session;
//   - zk.ErrAuthFailed if a server refuses the client's credentials.
func (c Client) Link(ctx context.Context) (Link, error) {
	l, err := c.awaitLink(ctx, c.session, c.cfg.ConnectionTimeout)
	if err != nil {
		return Link{}, err
	}
	return Link{Connection: l, client: c}, nil
}

// On returns a connection of the client as a Link.
func (c Client) On(l *Connection) Link { return Link{Connection: l, client: c} }

// Get reads the data of a node. Like Exists, Children and Delete it sends one request, once, and
// does not block. done receives the server's error, zk.ErrNoServer if the request was not sent, or
// an error that wraps zk.ErrConnectionClosed if the reply was lost.
//
// The data are as stored: the owner of the inbox decodes them with [Link.Decode].
func (l Link) Get(path string, done func(data []byte, stat *zk.Stat, err error)) {
	read(l, "get", path, wire.WatchData, wire.AskGet, func(r wire.WithStat[[]byte], err error) { done(r.Value, r.Stat, err) })
}

// GetAll reads several nodes. It sends one request if the servers support multiRead, the reads
// set no watches, and the request is not too long. done is called for each path, with its index in
// paths.
//
// The results of one request are a snapshot: ZooKeeper's CommitProcessor applies no transaction
// while it answers a read.
func (l Link) GetAll(paths []string, done func(i int, data []byte, stat *zk.Stat, err error)) {
	var q wire.Request[[]proto.MultiResult]
	together := len(paths) > 1 && l.listener == nil && l.Supports(proto.OpMultiRead) == nil
	if together {
		reads := make([]proto.MultiOp, len(paths))
		for i, path := range paths {
			reads[i] = proto.MultiOp{Op: proto.OpGetData, Body: &proto.ReadRequest{Path: l.client.Real(path)}}
		}
		q = wire.AskMulti(proto.OpMultiRead, reads)
		together = conn.CheckLength(len(q.Frame), l.client.cfg.MaxRequest) == nil
	}
	if !together {
		for i, path := range paths {
			l.Get(path, func(data []byte, stat *zk.Stat, err error) { done(i, data, stat, err) })
		}
		return
	}
	q.Done = observed(l, "multiRead", paths[0], func(found []proto.MultiResult, err error) {
		found = append(found, make([]proto.MultiResult, len(paths))...) // a result that is missing is malformed
		for i := range paths {
			done(i, found[i].Data, (*zk.Stat)(&found[i].Stat), cmp.Or(err, wire.ReadFailure(found[i], proto.OpGetData)))
		}
	})
	wire.Post(l.Conn, q)
}

// Exists reads the stat of a node: see [Link.Get].
func (l Link) Exists(path string, done func(stat *zk.Stat, err error)) {
	read(l, "exists", path, wire.WatchData, wire.AskExists, done)
}

// Children reads the names of a node's children: see [Link.Get].
func (l Link) Children(path string, done func(names []string, stat *zk.Stat, err error)) {
	read(l, "children", path, wire.WatchChildren, wire.AskChildren, func(r wire.WithStat[[]string], err error) { done(r.Value, r.Stat, err) })
}

// Delete deletes a node: see [Link.Get].
func (l Link) Delete(path string, version int32, done func(err error)) {
	q := wire.AskDelete(l.client.Real(path), version)
	q.Done = observed(l, "delete", path, func(_ wire.None, err error) { done(err) })
	wire.Post(l.Conn, q)
}

// Watch sets a persistent watch. f is called with each event of the node, and with each event below
// it if mode is Tree, until remove is called or the link is down. The first call of f may precede
// done.
//
// It returns [ErrWatchUnsupported] if the server has no persistent watches.
func (l Link) Watch(path string, mode wire.Mode, f func(zk.Event), done func(err error)) (remove func()) {
	return l.Conn.Watch(l.client.Real(path), mode, l.client.watcher(f), done).Remove
}

// Watched returns a view of the link whose Get, Exists and Children set standard watches, each for
// one event. It is for servers without persistent watches. f is called with all events of these
// watches until remove is called or the link is down.
//
// remove removes the watches from the server, in the background. A ClickHouse Keeper keeps them
// until they fire.
func (l Link) Watched(f func(zk.Event)) (watched Link, remove func()) {
	l.listener = l.Listener(func(event zk.Event) {
		event.Path = l.client.Unreal(event.Path)
		f(event)
	})
	return l, l.listener.Remove
}

// read sends a read, which sets a watch if the link's reads do.
func read[T any](l Link, op, path string, kind wire.WatchKind, ask wire.Reading[T], done func(T, error)) {
	real, done := l.client.Real(path), observed(l, op, path, done)
	if l.listener != nil {
		wire.Listen(l.listener, real, kind, ask, done)
		return
	}
	q := ask(real, false)
	q.Done = done
	wire.Post(l.Conn, q)
}

// observed returns done; if an observer is configured, it also reports the request on another
// goroutine.
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

// reports are operations that are reported on a separate goroutine: they end on the connection's
// goroutine, which must not block.
type reports struct {
	mu    sync.Mutex  // guards queue; not held while the observer is called
	queue []Operation // the first is being reported
}

// reportSoon reports an operation that has ended, in order, if an observer is configured. After
// Close nothing is reported.
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
