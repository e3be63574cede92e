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

// sweeper removes the nodes of creates that nobody wants any more, because their outcome was not learned: of protected
// creates, and persistent nodes of a fixed name. There is one per client, and it runs only while there is something to do.
//
// Such a node may be made yet: a server that stands still can carry a request out long after its
// connection is gone. So the sweeper looks again and again, with pauses that grow, until nothing can be
// on its way any more: after the session whose request it was has ended, or after sweepFor.
type sweeper struct {
	core *core
	wake wait.Signal // to look at the clock and the sessions again

	mu       sync.Mutex // guards what follows
	unwanted map[*unwanted]struct{}
	running  bool
	closed   bool // what was left has been taken by last
}

// unwanted is a node that a create may have made, or may make yet. Guarded by sweeper.mu.
type unwanted struct {
	session    *Session    // whose request it was
	dir, id    string      // of a protected node
	fixed      string      // the path of another, or empty
	wanted     func() bool // whether a node at fixed is wanted now
	persistent bool        // it does not go with the session
	path       string      // of the node, if it is known to be there
	open       bool        // the create is still waited for
	began      time.Time   // to be unwanted
	over       time.Time   // when the session was first seen to be over
	next       time.Time   // look
}

const (
	firstSweepPause = 500 * time.Millisecond
	sweepFor        = 17 * time.Minute
)

func newSweeper(c *core) *sweeper {
	return &sweeper{core: c, unwanted: make(map[*unwanted]struct{})}
}

// expect notes a create that is about to be sent. Close removes its node unless forget is called
// before.
func (s *sweeper) expect(u *unwanted) {
	u.open = true
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwanted[u] = struct{}{}
}

// forget says that u is wanted, or was not made. It reports false if Close has taken it already.
func (s *sweeper) forget(u *unwanted) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unwanted, u)
	return !s.closed
}

// sweep removes u from now on. path is its path if it is known to be there, and otherwise empty.
func (s *sweeper) sweep(u *unwanted, path string) {
	s.mu.Lock()
	u.open, u.path, u.began = false, path, time.Now()
	s.unwanted[u] = struct{}{}
	start := !s.running
	if start {
		s.running = true
	}
	s.mu.Unlock()
	if start && !s.core.background(s.run) { // ends with the client, or when all is done
		s.mu.Lock()
		s.running = false
		s.mu.Unlock()
	}
	s.wake.Raise()
}

func (s *sweeper) run() {
	for s.core.ctx.Err() == nil {
		u, next := s.first()
		if u == nil && next.IsZero() {
			return
		}
		if u == nil {
			timer := time.NewTimer(time.Until(next))
			select {
			case <-timer.C:
			case <-s.wake.C():
			case <-s.core.ctx.Done():
			}
			timer.Stop()
			continue
		}
		if u.path != "" {
			s.remove(u.path)
			if s.core.ctx.Err() == nil { // otherwise it is for last
				s.forget(u)
			}
			continue
		}
		if u.fixed != "" {
			s.lookAt(u)
		} else {
			s.look(u.dir)
		}
	}
}

// first returns one that is due, or when the next will be. If there are none, the sweeper is
// no longer running.
func (s *sweeper) first() (due *unwanted, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for u := range s.unwanted {
		ended := u.over.IsZero() && u.session.Err() != nil
		switch {
		case u.open:
		case ended || !now.Before(u.next):
			return u, time.Time{}
		case next.IsZero() || u.next.Before(next):
			next = u.next
		}
	}
	s.running = !next.IsZero()
	return nil, next
}

// look removes what there is below dir. One list serves all that were unwanted before.
func (s *sweeper) look(dir string) {
	s.mu.Lock()
	now := time.Now()
	ids := make(map[string]*unwanted)
	for u := range s.unwanted {
		if u.fixed == "" && u.dir == dir && !u.open && u.path == "" {
			ids[u.id] = u
			if u.over.IsZero() && u.session.Err() != nil {
				u.over = now
			}
		}
	}
	s.mu.Unlock()
	c := s.core
	var names []string
	err := c.persist(c.ctx, func(l *Connection) error {
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
			s.remove(Join(dir, name))
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
	err := c.persist(c.ctx, func(l *Connection) error {
		session = l.session
		// What was asked in this session before has been carried out by now, or is not any more.
		if _, err := Call(c.ctx, l, askNothing()); retry.MayPass(err) {
			return err
		}
		stat, err := Call(c.ctx, l, AskExists(u.fixed, false))
		if err != nil || stat.EphemeralOwner != 0 || u.wanted() {
			return err
		}
		_, err = Call(c.ctx, l, askDelete(u.fixed, stat.Version))
		return err
	})
	if c.ctx.Err() != nil {
		return // it is for last
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.over.IsZero() && session != u.session {
		u.over = began
	}
	switch {
	case errors.Is(err, zk.ErrBadVersion): // somebody has written to it just now
		u.next = began.Add(firstSweepPause)
		return
	case err != nil && !errors.Is(err, zk.ErrNoNode):
		c.cfg.Log.Warn("node stays behind", "path", u.fixed, "reason", err)
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

func (s *sweeper) remove(path string) {
	c := s.core
	if _, err := c.remove(c.ctx, path, nil); err != nil && c.ctx.Err() == nil {
		c.cfg.Log.Warn("node stays behind", "path", path, "reason", err)
	}
}

// last removes what it can before the session is closed, which does the same for ephemeral nodes. What the
// connection has sent is answered before these requests, and after Drain nothing else is sent.
func (s *sweeper) last(ctx context.Context, l *Connection) {
	l.conn.Drain()
	s.mu.Lock()
	s.closed = true
	ids := make(map[string]map[string]bool) // by dir
	var fixed []*unwanted
	for u := range s.unwanted {
		if u.fixed != "" {
			fixed = append(fixed, u)
		} else if u.persistent {
			if ids[u.dir] == nil {
				ids[u.dir] = make(map[string]bool)
			}
			ids[u.dir][u.id] = true
		}
	}
	s.mu.Unlock()
	for _, u := range fixed {
		stat, err := lastCall(ctx, l, AskExists(u.fixed, false))
		if err == nil && stat.EphemeralOwner == 0 && !u.wanted() {
			_, _ = lastCall(ctx, l, askDelete(u.fixed, stat.Version))
		}
	}
	for dir, wanted := range ids {
		list, err := lastCall(ctx, l, AskChildren(dir, false))
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			s.core.cfg.Log.Warn("nodes may stay behind", "dir", dir, "count", len(wanted), "reason", err)
		}
		for _, name := range list.Value {
			if _, id := Unprotected(name); wanted[id] {
				_, _ = lastCall(ctx, l, askDelete(Join(dir, name), -1))
			}
		}
	}
}

// freshChildren lists dir as the leader knows it: after a reconnect the server may
// lag behind the one that got our request. A missing dir has no children.
func (c *core) freshChildren(ctx context.Context, l *Connection, dir string) ([]string, error) {
	if _, err := Call(ctx, l, AskSync(dir)); err != nil {
		return nil, err
	}
	r, err := Call(ctx, l, AskChildren(dir, false))
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return r.Value, err
}
