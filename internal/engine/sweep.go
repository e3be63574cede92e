package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
)

// MayStillCome has a persistent node deleted, in the background: a create was sent in the session of ctx, a context of
// [InSession], and not answered, so the node may be there or be made yet; or it was to be deleted and no server
// could be reached. wanted reports whether somebody keeps a node at path by now: then it stays. Nobody else may need a
// persistent node at path until the session is over for the servers as well, since a node does not say who has made it.
// wanted must not block.
func (c Client) MayStillCome(ctx context.Context, path string, wanted func() bool) {
	c.sweeper.sweep(&unwanted{session: sessionOf(ctx), persistent: true, path: c.Real(path), wanted: wanted})
}

// sweeper removes the nodes of creates that nobody wants any more, because their outcome was not learned: of protected
// creates, and persistent nodes of a fixed name.
//
// Such a node may be made yet: a server that stands still can carry a request out long after its
// connection is gone. So the sweeper looks again and again, with pauses that grow, until nothing can be
// on its way any more: after the session whose request it was has ended, or after sweepFor.
type sweeper struct {
	core *core
	wake wait.Signal // to look at the clock and the sessions again

	mu       sync.Mutex // guards what follows
	unwanted map[*unwanted]struct{}
	closed   bool // what was left has been taken by last
}

// unwanted is a node that a create may have made, or may make yet. Close has all that are persistent deleted.
type unwanted struct {
	session    *Session    // whose request it was
	persistent bool        // it does not go with the session
	dir, id    string      // of a protected node
	path       string      // of another
	wanted     func() bool // whether a node at path is wanted now; nil for a protected one

	// Guarded by sweeper.mu.
	lost  bool      // its create was not answered: the sweeper looks for it. Otherwise that is waited for
	began time.Time // to be lost
	over  time.Time // when the session was first seen to be over
	next  time.Time // look
}

const (
	firstSweepPause = 500 * time.Millisecond
	sweepFor        = 17 * time.Minute
)

func newSweeper(c *core) *sweeper {
	return &sweeper{core: c, unwanted: make(map[*unwanted]struct{})}
}

// expect notes a create that is about to be sent. Close removes its node unless forget or unwant is called
// before. The end of the session removes those that are not persistent.
func (s *sweeper) expect(u *unwanted) {
	if u.persistent {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unwanted[u] = struct{}{}
	}
}

// forget says that u is wanted, or was not made. It reports false if Close has taken it already.
func (s *sweeper) forget(u *unwanted) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unwanted, u)
	return !u.persistent || !s.closed
}

// unwant says that nobody wants u any more, and how its create has ended.
func (s *sweeper) unwant(u *unwanted, path string, err error) {
	switch {
	case err == nil:
		s.core.background(func() { // ends with the client
			s.core.removeUnasked(s.core.ctx, path)
			if s.core.ctx.Err() == nil { // otherwise it is for last
				s.forget(u)
			}
		})
	case retry.Unknown(err):
		s.sweep(u)
	default:
		s.forget(u)
	}
}

// sweep looks for u from now on.
func (s *sweeper) sweep(u *unwanted) {
	s.mu.Lock()
	u.lost, u.began = true, time.Now()
	s.unwanted[u] = struct{}{}
	s.mu.Unlock()
	s.wake.Raise()
}

// run ends with the client.
func (s *sweeper) run() {
	c := s.core
	for c.ctx.Err() == nil {
		u, next := s.first()
		switch pause := time.Until(next); {
		case pause > 0:
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-s.wake.C():
			case <-c.ctx.Done():
			}
			timer.Stop()
		case u.wanted == nil:
			s.look(u.dir)
		default:
			s.lookAt(u)
		}
	}
}

// first returns the one that is looked for next, and when. If there is none, that is long hence.
func (s *sweeper) first() (first *unwanted, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	next = now.Add(sweepFor)
	for u := range s.unwanted {
		if u.lost && u.over.IsZero() && u.session.Err() != nil {
			u.over, u.next = now, now
		}
		if u.lost && u.next.Before(next) {
			first, next = u, u.next
		}
	}
	return first, next
}

// look removes what there is below dir. One list serves all that were unwanted before.
func (s *sweeper) look(dir string) {
	s.mu.Lock()
	now := time.Now()
	ids := make(map[string]*unwanted)
	for u := range s.unwanted {
		if u.lost && u.wanted == nil && u.dir == dir {
			ids[u.id] = u
		}
	}
	s.mu.Unlock()
	c := s.core
	var names []string
	_, err := c.repeat(c.ctx, true, func(l *Connection) error {
		var err error
		names, err = c.freshChildren(c.ctx, l, dir)
		return err
	})
	if c.ctx.Err() != nil {
		return
	}
	if err != nil {
		c.cfg.Log.Warn("nodes may stay behind", "dir", dir, "count", len(ids), "reason", err)
	}
	for _, name := range names {
		if _, id := Unprotected(name); ids[id] != nil {
			c.removeUnasked(c.ctx, Join(dir, name))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range ids {
		if err != nil || u.done(now) {
			delete(s.unwanted, u)
		}
	}
}

// lookAt removes the node of a fixed name, unless it is wanted now.
func (s *sweeper) lookAt(u *unwanted) {
	c, began := s.core, time.Now()
	var session *Session // that was asked
	_, err := c.repeat(c.ctx, true, func(l *Connection) error {
		session = l.session
		// What was asked in this session before has been carried out by now, or is not any more.
		if err := l.CaughtUp(c.ctx); err != nil {
			return err
		}
		stat, err := Call(c.ctx, l, AskExists(u.path, false))
		if err != nil || stat.EphemeralOwner != 0 || u.wanted() {
			return err
		}
		_, err = Call(c.ctx, l, AskDelete(u.path, stat.Version))
		return err
	})
	if c.ctx.Err() != nil {
		return // it is for last
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, zk.ErrBadVersion): // somebody has written to it just now
		u.next = began.Add(firstSweepPause)
		return
	case err != nil && !errors.Is(err, zk.ErrNoNode):
		c.cfg.Log.Warn("node stays behind", "path", u.path, "reason", err)
	case session != u.session && !u.done(began):
		return
	}
	delete(s.unwanted, u)
}

// done reports whether a look that began at now was the last that is needed, and otherwise sets the next.
func (u *unwanted) done(now time.Time) bool {
	if u.over.IsZero() {
		age := now.Sub(u.began)
		u.next = now.Add(max(firstSweepPause, age))
		return age > sweepFor
	}
	if !u.persistent {
		return true // a session that is over takes its nodes along
	}
	// For us it is over earlier than for the servers. They end sessions once per tick, which is half a timeout at most.
	u.next = u.over.Add(u.session.Timeout() * 3 / 2)
	return !now.Before(u.next)
}

// last removes what it can before the session is closed, which does the same for ephemeral nodes. What the
// connection has sent is answered before these requests, and after Drain nothing else is sent.
func (s *sweeper) last(ctx context.Context, l *Connection) {
	l.conn.Drain()
	s.mu.Lock()
	s.closed = true
	ids := make(map[string]map[string]bool) // by dir
	var byPath []*unwanted
	for u := range s.unwanted {
		switch {
		case u.wanted != nil:
			byPath = append(byPath, u)
		case u.persistent && ids[u.dir] == nil:
			ids[u.dir] = map[string]bool{u.id: true}
		case u.persistent:
			ids[u.dir][u.id] = true
		}
	}
	s.mu.Unlock()
	for _, u := range byPath {
		stat, err := lastCall(ctx, l, AskExists(u.path, false))
		if err == nil && stat.EphemeralOwner == 0 && !u.wanted() {
			_, _ = lastCall(ctx, l, AskDelete(u.path, stat.Version))
		}
	}
	for dir, wanted := range ids {
		list, err := lastCall(ctx, l, AskChildren(dir, false))
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			s.core.cfg.Log.Warn("nodes may stay behind", "dir", dir, "count", len(wanted), "reason", err)
		}
		for _, name := range list.Value {
			if _, id := Unprotected(name); wanted[id] {
				_, _ = lastCall(ctx, l, AskDelete(Join(dir, name), -1))
			}
		}
	}
}

// freshChildren lists dir with all that was committed before. After a reconnect the server may lag behind the one that got our
// request. A sync would not do: a leader that was replaced answers it alone. A missing dir has no children.
func (c *core) freshChildren(ctx context.Context, l *Connection, dir string) ([]string, error) {
	if err := l.CaughtUp(ctx); err != nil {
		return nil, err
	}
	r, err := Call(ctx, l, AskChildren(dir, false))
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return r.Value, err
}
