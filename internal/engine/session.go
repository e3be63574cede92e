package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/session"
	"github.com/gocurator/curator/internal/wait"
)

// Session is a framework.Session: one ZooKeeper session of a client, from its grant until it is
// over.
//
// # States
//
//	from        to          when                                            in
//	            suspended   a server has granted it                         connectAt
//	suspended   connected   its connection is in use                        attach
//	connected   suspended   its connection was lost                         suspend
//	either      over        no server has confirmed it in time              watch
//	                        a server answers that it has expired            answered
//	                        a server grants another one instead             connectAt
//	                        the connection to a ClickHouse Keeper was lost  newConnection
//	                        the client is closed                            Close, finish
//
// suspend notifies the dependents that do not trust a session without a connection. over is the
// only function that ends a session. It notifies all dependents. Then core.dropIfOver removes a
// lost session and notifies the listeners; finish closes, on its server, a session that the client
// has ended.
type Session struct {
	core *core
	ctx  context.Context // done when the session is over
	end  context.CancelCauseFunc
	progress
	clock

	mu    sync.Mutex // guards what follows, and what the clock says of it
	grant conn.Grant // the timeout may become shorter at a reconnect
	dependencies
}

// clock is when a session is to be confirmed, and when it is over.
type clock struct {
	deadline *session.Deadline
	kick     wait.Signal // has watch look at the clock again

	nextLook time.Time // when watch looks at the clock again; guarded by Session.mu
	beat     time.Time // when the last heartbeat was sent; guarded by Session.mu
}

// pace is how long committed writes take, handshakes included. If it is longer than
// [session.LongestRoundTrip], a session cannot be confirmed in time.
type pace struct {
	limit atomic.Int64 // nanoseconds
	// Duration of the last write in nanoseconds, if the last writes were all too slow; 0 otherwise.
	slow atomic.Int64
	row  int       // slow writes in a row; used by the connecting goroutine, then the connection's
	said time.Time // when the last warning was logged; used by the same goroutines
}

const (
	slowWrites = 2 // in a row are not a coincidence

	sayEvery = time.Minute // at most, that writes are too slow
)

// granted notes the timeout of a session, and how long the grant has taken, which is a write of the
// leader.
func (c *core) granted(timeout, took time.Duration) {
	c.pace.limit.Store(int64(session.LongestRoundTrip(timeout)))
	c.wrote(took)
}

// wrote notes how long a committed write has taken, and tells the log if they are too slow.
func (c *core) wrote(took time.Duration) {
	p, limit := &c.pace, time.Duration(c.pace.limit.Load())
	if took <= limit {
		p.row = 0
		p.slow.Store(0)
		return
	}
	if p.row++; p.row < slowWrites {
		return
	}
	p.slow.Store(int64(took))
	if now := time.Now(); p.said.IsZero() || now.Sub(p.said) >= sayEvery {
		p.said = now
		c.cfg.Log.Warn("writes take too long to confirm a session in time",
			"took", took.Round(time.Millisecond), "allowed", limit.Round(time.Millisecond))
	}
}

// unconfirmed is ErrSessionLost for want of a proof that the session lives. It says so if writes
// are too slow for a proof.
func (s *Session) unconfirmed(text string) error {
	p := &s.core.pace
	if took := p.slow.Load(); took > 0 {
		text = fmt.Sprintf("%s: a write takes %v, and the session timeout allows %v", text,
			time.Duration(took).Round(time.Millisecond), time.Duration(p.limit.Load()).Round(time.Millisecond))
	}
	return fmt.Errorf("%w: %s", ErrSessionLost, text)
}

// dependencies are the dependents of a session, and the calls that notify them. Guarded by
// Session.mu.
type dependencies struct {
	suspended  bool // there is no connection
	dependents map[*dependent]struct{}
	notifying  int           // calls that notify dependents at this moment
	calm       *sync.Cond    // notifying is 0
	notified   chan struct{} // closed when all know that the session is over
}

// dependent is notified when the session is in trouble.
type dependent struct {
	policy connstate.ErrorPolicy
	notify func(cause error)
}

// newSession returns the session of a grant. A server granted it in reply to a connect request that
// was sent at the given time.
func newSession(c *core, g conn.Grant, sent time.Time) *Session {
	s := &Session{
		core:  c,
		grant: g,
		clock: clock{deadline: session.NewDeadline(g.Timeout, sent, c.cfg.ExpirationPercent)},
		dependencies: dependencies{
			suspended:  true, // until there is a link
			dependents: make(map[*dependent]struct{}),
			notified:   make(chan struct{}),
		},
	}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	s.calm = sync.NewCond(&s.mu)
	return s
}

// ID returns the id of the session.
func (s *Session) ID() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grant.Session
}

func (s *Session) Timeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grant.Timeout
}

func (s *Session) Done() <-chan struct{}    { return s.ctx.Done() }
func (s *Session) Err() error               { return context.Cause(s.ctx) }
func (s *Session) Context() context.Context { return s.ctx }

// Life implements [wire.Host].
func (s *Session) Life() context.Context { return s.core.ctx }

// Background implements [wire.Host].
func (s *Session) Background(f func()) bool { return s.core.background(f) }

// Unknown implements [wire.Host].
func (s *Session) Unknown() *wire.Unknown { return &s.core.unknown }

// Depend calls notify once, before another session can own what this one owned, or returns the
// cause if the session is already over or suspended: see framework.Session.
func (s *Session) Depend(policy connstate.ErrorPolicy, notify func(cause error)) (stop func() bool, err error) {
	d := &dependent{policy, notify}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Err(); err != nil {
		return nil, err
	}
	// Even if the deadline was not checked yet: the process may have been suspended for longer than
	// the session.
	due, proven := s.due()
	if !proven {
		s.kick.Raise()
		return nil, s.unconfirmed("it was not confirmed for long")
	}
	if s.suspended && policy.IsError(connstate.Suspended) {
		return nil, ErrSuspended
	}
	s.dependents[d] = struct{}{}
	if due.Before(s.nextLook) || s.nextBeat().Before(s.nextLook) {
		s.kick.Raise()
	}
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, found := s.dependents[d]
		delete(s.dependents, d)
		return found
	}, nil
}

// due is when the session is over for its dependents. proven is false if that is soon: a dependent
// would end the session before a write can confirm it. s.mu is held.
func (s *Session) due() (at time.Time, proven bool) {
	at = s.deadline.At(true)
	return at, time.Now().Add(s.part(3)).Before(at)
}

// dependable reports whether the session's deadline admits a dependent.
func (s *Session) dependable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, proven := s.due()
	return proven
}

// part is a number of 32nds of the time after which the session counts as lost. s.mu is held.
func (s *Session) part(n time.Duration) time.Duration {
	return s.grant.Timeout * n / 32 * time.Duration(s.core.cfg.ExpirationPercent) / 100
}

// nextBeat is when the next heartbeat is due, a write that changes nothing: when it proves the last
// one, see [session.Deadline]. If the session counts as lost before its timeout, they are more
// frequent: six times at half of it. s.mu is held.
func (s *Session) nextBeat() time.Time {
	return s.deadline.Provable(s.beat).Add(-s.grant.Timeout * 9 / 32 * time.Duration(100-s.core.cfg.ExpirationPercent) / 60)
}

// attach notes that a server granted the session (again) on a connection.
func (s *Session) attach(g conn.Grant, sent time.Time) {
	s.deadline.Attached(g.Timeout, sent)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grant = g
	s.kick.Raise()
}

// remaining is how long the session lives on if nothing is heard.
func (s *Session) remaining() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.deadline.At(s.confirmed()))
}

// confirmed reports whether the session is confirmed again and again. s.mu is held.
func (s *Session) confirmed() bool {
	return len(s.dependents) > 0 || s.core.cfg.ExpirationPercent < 100
}

// beginBeats reports whether a new connection is to begin with a heartbeat, which the caller sends.
func (s *Session) beginBeats() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.confirmed() {
		s.beat = time.Now()
	}
	return s.confirmed()
}

// ask returns what to say to the next server, to go on with the session there.
func (s *Session) ask() conn.Hello {
	s.mu.Lock()
	defer s.mu.Unlock()
	return conn.Hello{Session: s.grant.Session, Password: s.grant.Password, LastZxid: s.lastZxid.Load()}
}

// answered notes a reply on the session's connection. There is one connection at a time, and it
// calls from one goroutine. An error means that the connection cannot be used.
func (s *Session) answered(a conn.Answer) error {
	// Such a server need not close the connection: it answers pings and reads of a session that
	// ended while the client reconnected.
	if a.Code == proto.SessionExpired {
		s.over(fmt.Errorf("%w: %w", ErrSessionLost, zk.ErrSessionExpired))
		// Another goroutine may be notifying holders: the request fails after it.
		<-s.notified
		return nil
	}
	if err := s.progress.answered(a); err != nil {
		return err
	}
	s.deadline.Answered(a.Sent, a.Received, a.Committed)
	if a.Committed {
		s.core.wrote(a.Received.Sub(a.Sent))
	}
	return nil
}

// resume ends a suspension. It reports whether the session still lives.
func (s *Session) resume() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspended = false
	return s.Err() == nil
}

// suspend notifies the dependents that do not trust a session without a connection. It also waits
// for other goroutines that notify dependents at this moment: its callers then fail requests and
// notify listeners.
func (s *Session) suspend() {
	s.mu.Lock()
	s.suspended = true
	var affected []*dependent
	for d := range s.dependents {
		if d.policy.IsError(connstate.Suspended) {
			affected = append(affected, d)
			delete(s.dependents, d)
		}
	}
	s.notifying++
	s.mu.Unlock()
	for _, d := range affected {
		d.notify(ErrSuspended)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notifiedSome()
	for s.notifying > 0 {
		s.calm.Wait()
	}
}

// notifiedSome notes that a call that has raised notifying has notified its dependents. s.mu is
// held.
func (s *Session) notifiedSome() {
	if s.notifying--; s.notifying == 0 {
		s.calm.Broadcast()
	}
}

// over ends the session, unless it is over already, and notifies all dependents.
func (s *Session) over(cause error) {
	s.mu.Lock()
	first := s.Err() == nil
	s.end(cause)
	affected := s.dependents
	s.dependents = make(map[*dependent]struct{})
	s.notifying++
	s.mu.Unlock()
	for d := range affected {
		d.notify(s.Err())
	}
	s.mu.Lock()
	s.notifiedSome()
	s.mu.Unlock()
	if first {
		close(s.notified)
	}
	s.core.debts.Wake()
}

// watch ends the session at its deadline and, while it has dependents, confirms it. It returns when
// the session is over.
func (s *Session) watch() {
	timer := time.NewTimer(s.Timeout())
	defer timer.Stop()
	for {
		// Before the rest: attaching a link kicks this loop.
		now, l := time.Now(), s.core.current().link
		s.mu.Lock()
		needed := s.confirmed()
		due := s.deadline.At(needed)
		look := due
		next := s.nextBeat()
		beat := needed && !now.Before(next) && l != nil && l.session == s
		if beat {
			s.beat = now
			next = s.nextBeat()
		}
		if now.Before(next) && next.Before(due) {
			// Even without dependents: then the next dependent need not wake this loop.
			look = next
		}
		s.nextLook = look
		s.mu.Unlock()
		if !now.Before(due) {
			s.over(s.unconfirmed("no server has confirmed it in time"))
			return
		}
		if beat { // no caller waits for the answer: the deadline detects its absence
			wire.Post(l.Conn, wire.AskNothing())
		}
		timer.Reset(look.Sub(now))
		select {
		case <-s.Done():
			return
		case <-s.kick.C():
		case <-timer.C:
		}
	}
}
