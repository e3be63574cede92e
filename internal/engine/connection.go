package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine/wire"
)

// Connection is one connection of one session. Its paths are the server's. It exists from the
// agreement on the session until the connection is lost.
type Connection struct {
	*wire.Conn
	session  *Session
	target   target
	notified chan struct{} // closed after Down, when the session's dependents have been notified
	began    time.Time
	useful   atomic.Bool // a request was answered
}

// newConnection begins to use a connection.
func newConnection(s *Session, t target, c *conn.Conn, cfg *Config) *Connection {
	l := &Connection{Conn: wire.New(c, s), session: s, target: t, notified: make(chan struct{}), began: time.Now()}
	l.Start(conn.Handlers{
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
		},
		Ended: func() { // holders are notified before a request fails
			if l.ByKeeper() { // it may end the session early, and no other server can tell
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

// Session returns the session of the connection.
func (l *Connection) Session() *Session { return l.session }

// Confirm calls CaughtUp until the session is dependable, for at most the session timeout: see
// [session.Deadline]. After a long silence the first write only begins a proof. A write proves
// answers of a while ago, so Confirm pauses between further writes.
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
