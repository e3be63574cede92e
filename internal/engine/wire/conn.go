// Package wire is one connection of one session: its requests, the one order of answers and events,
// and its watches. It is the lower floor of package engine: it knows neither servers nor retries,
// and [Host] is all that it knows of the client and of the session.
//
// Paths are the servers'. Functions that are called with answers and events run on the connection's
// goroutine, one at a time, in the order in which the server sent them. They must not block.
package wire

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/wait"
)

// Host is the client and the session of a connection. All methods are safe for concurrent use.
type Host interface {
	Err() error               // reason why the session is over; nil while it is alive
	Life() context.Context    // cancelled when the client is closed
	Background(f func()) bool // runs f on a goroutine that ends with Life, unless it has ended
	Unknown() *Unknown        // shared by all connections of a client
}

// Conn is a connection with its requests and watches. It exists from the agreement on the session
// until the connection is lost.
type Conn struct {
	host     Host
	conn     *conn.Conn
	down     <-chan struct{} // closed when the connection is of no more use
	watches  watches
	catching catching
}

// catching holds the callers that wait for a write of [Conn.CatchUp]. One write is in flight at a
// time. Callers that arrive during it share the next write: a thousand caches on a new connection
// cost two writes.
type catching struct {
	mu       sync.Mutex
	underWay bool
	next     []func(err error)
}

// New returns a Conn that does nothing until Start.
func New(c *conn.Conn, host Host) *Conn {
	l := &Conn{host: host, conn: c, down: c.Down()}
	l.watches.link = l
	return l
}

// Start starts the connection's goroutines. h.Event is called before the watches fire.
func (l *Conn) Start(h conn.Handlers) {
	event := h.Event
	h.Event = func(e zk.Event, zxid int64) {
		event(e, zxid)
		l.watches.notify(e)
	}
	l.conn.Start(h)
}

// Up reports whether the connection can be used, as far as the client knows.
func (l *Conn) Up() bool { return !wait.Closed(l.down) && l.host.Err() == nil }

// Down returns a channel that is closed when the connection is lost or closed, before its requests
// fail.
func (l *Conn) Down() <-chan struct{} { return l.down }

// Err returns the reason why the connection was lost or closed. It returns nil while the connection
// is in use.
func (l *Conn) Err() error { return l.conn.Err() }

var errLeft = errors.New("connection no longer needed")

// Close closes the connection, fails its waiting requests and returns when both are done. The
// session remains.
func (l *Conn) Close() {
	l.conn.Close(errLeft)
	<-l.conn.Done()
	cause := l.host.Err()
	if cause == nil {
		cause = zk.ErrConnectionClosed
	}
	l.watches.end(cause)
}

// Drain calls [conn.Conn.Drain].
func (l *Conn) Drain() { l.conn.Drain() }

// CloseSession calls [conn.Conn.CloseSession].
func (l *Conn) CloseSession(ctx context.Context) (answered bool) { return l.conn.CloseSession(ctx) }

// Supports returns an error that wraps [ErrUnimplemented] if, as far as the client knows, the
// server does not know op.
func (l *Conn) Supports(op proto.Op) error {
	if _, known := optional[op]; !known {
		return nil
	}
	if l.host.Unknown().has(op) || l.ByKeeper() {
		return unimplemented(op)
	}
	return nil
}

// ByKeeper reports whether a ClickHouse Keeper granted the session. A Keeper cannot resume
// sessions, so every version returns a password of zeros, even with data imported from ZooKeeper.
// ZooKeeper's passwords are random.
func (l *Conn) ByKeeper() bool {
	return !slices.ContainsFunc(l.conn.Grant.Password, func(b byte) bool { return b != 0 })
}

// CatchUp sends a write that changes nothing. Once it is answered, the server has applied every
// transaction that was committed anywhere before, and has delivered their events. A refusal is an
// answer, too: err is not nil only if the reply was lost or the server was too busy to look at the
// request.
//
// It is sent on each connection that resumes a session whose last connection delivered an event
// without a transaction number. The next server may be behind the last one. Requests sent after the
// write are answered when the server has caught up. The write also confirms the session: see
// session.Deadline.
func (l *Conn) CatchUp(done func(err error)) {
	w := &l.catching
	w.mu.Lock()
	w.next = append(w.next, done)
	first := !w.underWay
	w.underWay = true
	w.mu.Unlock()
	if first {
		l.catchUp()
	}
}

// catchUp sends the next write, if a caller waits for it. None is in flight.
func (l *Conn) catchUp() {
	w := &l.catching
	w.mu.Lock()
	waiting := w.next
	w.next, w.underWay = nil, len(waiting) > 0
	w.mu.Unlock()
	if len(waiting) == 0 {
		return
	}
	q := AskNothing()
	q.Done = func(_ None, err error) {
		l.catchUp()
		for _, done := range waiting {
			done(orAnswered(err))
		}
	}
	Post(l, q)
}

// CaughtUp waits until the server has applied every earlier write: see [Conn.CatchUp]. It returns
// at once when ctx is done or the client is closed.
func (l *Conn) CaughtUp(ctx context.Context) error {
	_, err := Call(ctx, l, AskNothing())
	return orAnswered(err)
}

// orAnswered is err, or nil if it is an answer to AskNothing, in the order of writes.
func orAnswered(err error) error {
	if errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
