package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/wait"
)

// Connection is one connection of one session, with the watches that were set on it. Paths are those of the server.
// It is made when the session has been agreed on and ends when the connection does.
type Connection struct {
	session  *Session
	target   target
	conn     *conn.Conn
	down     <-chan struct{} // closed when the connection is of no more use
	notified chan struct{}   // closed after down, when those who do not trust a session without a connection know
	began    time.Time
	useful   atomic.Bool // a request was answered
	watches  watches
	catching catching
}

// catching is who waits for a write of [Connection.CatchUp]. One is under way at a time. Whoever comes meanwhile waits for the next one,
// which is for all of them: a thousand caches on a new connection cost two writes.
type catching struct {
	mu       sync.Mutex
	underWay bool
	next     []func(err error)
}

// newLink begins to use a connection.
func newLink(s *Session, t target, c *conn.Conn, cfg *Config) *Connection {
	l := &Connection{session: s, target: t, conn: c, down: c.Down(), notified: make(chan struct{}), began: time.Now()}
	l.watches.link = l
	c.Start(conn.Handlers{
		Answered: func(a conn.Answer) error {
			err := s.answered(a)
			if err == nil {
				l.useful.Store(true)
			}
			return err
		},
		Event: func(e zk.Event, zxid int64) {
			s.event(zxid)
			cfg.Events.Node(e)
			l.watches.notify(e)
		},
		Ended: func() { // holders are notified before a request fails
			if l.ByKeeper() { // it may have ended the session long before its time, and no other server could tell us
				s.over(fmt.Errorf("%w: a ClickHouse Keeper does not restore it on another connection: %v", ErrSessionLost, c.Err()))
			}
			s.suspend()
			close(l.notified)
		},
		Nudge:      cfg.Nudges,
		MaxRequest: cfg.MaxRequest,
	})
	return l
}

// up reports whether the connection is of use, as far as we know.
func (l *Connection) up() bool {
	return !wait.Closed(l.down) && l.session.Err() == nil
}

var errLeft = errors.New("the connection is not needed any more")

// close ends the connection and everything that waits on it. It returns when all is
// over; the session goes on.
func (l *Connection) close() {
	l.conn.Close(errLeft)
	<-l.conn.Done()
	cause := l.session.Err()
	if cause == nil {
		cause = zk.ErrConnectionClosed
	}
	l.watches.end(cause)
}

// Session is the session of the connection.
func (l *Connection) Session() *Session { return l.session }

// Down is closed first of all when the connection ends.
func (l *Connection) Down() <-chan struct{} { return l.down }

// Supports returns nil, or why op is not sent: the server does not know it, as far as the client knows. The error wraps
// [ErrUnimplemented].
func (l *Connection) Supports(op proto.Op) error {
	if _, known := optional[op]; !known {
		return nil
	}
	if _, unknown := l.session.core.unknownOps.Load(op); unknown || l.ByKeeper() {
		return unimplemented(op)
	}
	return nil
}

// ByKeeper reports whether a ClickHouse Keeper has granted the session: its password is all zeros, since a Keeper restores no
// session. That of ZooKeeper is random. Keepers of all versions do so, with data from ZooKeeper, too.
func (l *Connection) ByKeeper() bool {
	return !slices.ContainsFunc(l.conn.Grant.Password, func(b byte) bool { return b != 0 })
}

// CatchUp sends a write that changes nothing. What was committed anywhere before it was sent has been applied by the
// server, and its events have come, when it is answered. A refusal is an answer, too: err is not nil only if no
// answer came, or if the server had too much to do and has not looked at it.
//
// It is sent on each connection that goes on with a session whose last connection brought an event that named no transaction: the next
// server may know less than the last one did, and what is asked behind it is answered when the server knows as much. It also
// confirms the session: see [session.Deadline].
func (l *Connection) CatchUp(done func(err error)) {
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

// catchUp sends the next write, if somebody waits for it. None is under way.
func (l *Connection) catchUp() {
	w := &l.catching
	w.mu.Lock()
	waiting := w.next
	w.next, w.underWay = nil, len(waiting) > 0
	w.mu.Unlock()
	if len(waiting) == 0 {
		return
	}
	q := askNothing()
	q.done = func(_ None, err error) {
		l.catchUp()
		for _, done := range waiting {
			done(answered(err))
		}
	}
	post(l, q)
}

// CaughtUp is CatchUp, and waits as [Call] does.
func (l *Connection) CaughtUp(ctx context.Context) error {
	_, err := Call(ctx, l, askNothing())
	return answered(err)
}

// Confirm is CaughtUp, and again until somebody can depend on the session, for as long as its timeout: see [session.Deadline]. After a
// long time the first write only begins a proof. And a write proves what was answered a while before, so there are pauses between
// further ones.
func (l *Connection) Confirm(ctx context.Context) error {
	began, err := time.Now(), l.CaughtUp(ctx)
	for n := 0; err == nil && !l.session.dependable() && time.Since(began) < l.session.Timeout(); n++ {
		if n > 0 {
			_ = l.session.core.sleep(ctx, RefusedPause) // if ctx ends, the next request says so
		}
		err = l.CaughtUp(ctx)
	}
	return err
}

// answered is err, or nil if it is an answer to askNothing, in the order of writes.
func answered(err error) error {
	if errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
