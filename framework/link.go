package framework

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/wait"
)

// link is one connection of one session, with the watches that were set on it.
// It is made when the session has been agreed on and ends when the connection does.
type link struct {
	session *Session
	target  target
	conn    *conn.Conn
	down    <-chan struct{} // closed when the connection is of no more use
	told    chan struct{}   // closed after down, when those who do not trust a session without a connection know
	began   time.Time
	useful  atomic.Bool // a request was answered
	watches watches
}

// newLink begins to use a connection. heard is called with each event first.
func newLink(s *Session, t target, c *conn.Conn, r requests, heard func(zk.Event)) *link {
	l := &link{session: s, target: t, conn: c, down: c.Down(), told: make(chan struct{}), began: time.Now()}
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
			heard(e)
			l.watches.notify(e)
		},
		Ended: func() { // whoever learns of it by a request that fails finds that holders were told
			s.suspend()
			close(l.told)
		},
		Nudge:      r.nudges,
		MaxRequest: r.maxLength,
	})
	return l
}

// up reports whether the connection is of use, as far as we know.
func (l *link) up() bool {
	return !wait.Closed(l.down) && (l.session == nil || l.session.Err() == nil)
}

var errLeft = errors.New("the connection is not needed any more")

// close ends the connection and everything that waits on it. It returns when all is
// over; the session goes on.
func (l *link) close() {
	l.conn.Close(errLeft)
	<-l.conn.Done()
	cause := l.session.Err()
	if cause == nil {
		cause = zk.ErrConnectionClosed
	}
	l.watches.end(cause)
}

// closeTimeout is how long a server may take to answer that it has ended the session.
const closeTimeout = time.Second

// closeSession tells the server that the session is over, so that its nodes go
// at once, and ends the link. ctx limits how long that may take. It reports whether the server has answered.
func (l *link) closeSession(ctx context.Context) (answered bool) {
	defer l.close()
	return l.conn.CloseSession(ctx)
}
