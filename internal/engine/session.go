package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/session"
	"github.com/gocurator/curator/internal/wait"
)

// Session is a framework.Session: one ZooKeeper session of a client, from its beginning until it is over.
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
	kick     wait.Signal // makes watch look at the clock again

	nextLook time.Time // when watch looks at the clock again; guarded by Session.mu
	beat     time.Time // when the last heartbeat was sent; guarded by Session.mu
}

// dependencies are those who depend on a session, and the calls that notify them. Guarded by Session.mu.
type dependencies struct {
	suspended  bool // there is no connection
	dependents map[*dependent]struct{}
	notifying  int           // calls that notify dependents at this moment
	calm       *sync.Cond    // notifying is 0
	notified   chan struct{} // closed when all know that the session is over
}

// dependent is somebody who has to know when the session is in trouble.
type dependent struct {
	policy connstate.ErrorPolicy
	notify func(cause error)
}

// newSession takes a grant that a server gave in answer to a connect request that was
// sent at sent.
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

// ID is as in framework.Session, and so are Timeout, Done, Err, Context and Depend.
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

func (s *Session) Depend(policy connstate.ErrorPolicy, notify func(cause error)) (stop func() bool, err error) {
	d := &dependent{policy, notify}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Err(); err != nil {
		return nil, err
	}
	// Also when nobody has looked at the clock yet: the process may have been
	// stopped a moment ago, for longer than the session.
	due, proven := s.due()
	if !proven {
		s.kick.Raise()
		return nil, ErrSessionLost
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

// due is when the session is over for those who depend on it. It is not proven if that is soon: a dependence would end the session
// before a write can confirm it. s.mu is held.
func (s *Session) due() (at time.Time, proven bool) {
	at = s.deadline.At(true)
	return at, time.Now().Add(s.part(3)).Before(at)
}

// dependable reports whether somebody can depend on the session, as far as its time is concerned.
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

// nextBeat is when the next heartbeat is due, a write that changes nothing: when it proves the last one, see
// [session.Deadline]. If the session counts as lost before its timeout, they are more frequent: six times at half of it.
// s.mu is held.
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

// left is how long the session lives on if nothing is heard.
func (s *Session) left() time.Duration {
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

// answered notes a reply on the session's connection. There is one connection at
// a time, and it calls from one goroutine. An error means that the connection is of no use.
func (s *Session) answered(a conn.Answer) error {
	// A server that says so need not hang up: it answers pings and reads of a session that has
	// ended, if the client came back to it at that very moment.
	if a.Code == proto.SessionExpired {
		s.over(fmt.Errorf("%w: %w", ErrSessionLost, zk.ErrSessionExpired))
		<-s.notified // another goroutine may be notifying holders at this moment, and our request fails now
		return nil
	}
	if err := s.progress.answered(a); err != nil {
		return err
	}
	s.deadline.Answered(a.Sent, a.Received, a.Committed)
	return nil
}

// resume ends a suspension. It reports whether the session still lives.
func (s *Session) resume() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspended = false
	return s.Err() == nil
}

// suspend notifies those who do not trust a session without a connection. It also waits for other goroutines that notify
// dependents at this moment: its callers go on to fail requests and to notify listeners.
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

// notifiedSome notes that a call that has raised notifying has notified its dependents. s.mu is held.
func (s *Session) notifiedSome() {
	if s.notifying--; s.notifying == 0 {
		s.calm.Broadcast()
	}
}

// over ends the session, unless it is over already, and notifies everybody.
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
	s.core.sweeper.wake.Raise()
}

// watch ends the session at its deadline and, while somebody depends on it, has it
// confirmed. It returns when the session is over.
func (s *Session) watch() {
	timer := time.NewTimer(s.Timeout())
	defer timer.Stop()
	for {
		now, l := time.Now(), s.core.current().link // before the rest: whoever attaches a link has us look again
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
			look = next // also when nobody depends on the session now: the next one to do so need not wake us then
		}
		s.nextLook = look
		s.mu.Unlock()
		if !now.Before(due) {
			s.over(fmt.Errorf("%w: no server has confirmed it in time", ErrSessionLost))
			return
		}
		if beat { // nobody waits for the answer: if none comes, the deadline says so
			post(l, askNothing())
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
