package engine

import (
	"context"
	"errors"
	"slices"
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
	c.sweeper.sweep(&unwanted{session: sessionOf(ctx), persistent: true, place: place{path: c.Real(path)}, wanted: wanted})
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
	session    *Session // whose request it was
	persistent bool     // it does not go with the session
	place      place
	id         string      // of a protected node
	wanted     func() bool // of another: whether it is wanted now, and stays

	// Guarded by sweeper.mu.
	state sweepState
	since time.Time // of the state
	next  time.Time // when it is looked for; not with createExpected
}

// place is where nodes are looked for, all with one request: the children of a path, which have ids, or the path itself.
type place struct {
	path     string
	children bool
}

// sweepState is what has become of the create of an unwanted node.
type sweepState int

const (
	createExpected sweepState = iota // its answer is waited for, or has come: only Close looks for the node
	createLost                       // it was not answered: the node is looked for, with pauses that grow
	sessionOver                      // so is its session: the node is looked for until it is over for the servers as well
)

const (
	firstSweepPause = 500 * time.Millisecond
	sweepFor        = 17 * time.Minute
)

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
	u.state, u.since = createLost, time.Now()
	s.unwanted[u] = struct{}{}
	s.mu.Unlock()
	s.wake.Raise()
}

// run ends with the client.
func (s *sweeper) run() {
	for c := s.core; c.ctx.Err() == nil; {
		where, next := s.first()
		within, cancel := c.within(c.ctx, time.Until(next))
		select {
		case <-within.Done():
			s.look(where)
		case <-s.wake.C():
		}
		cancel()
	}
}

// first returns where is looked next, and when. If there is nothing to look for, that is long hence.
func (s *sweeper) first() (where place, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	next = now.Add(sweepFor)
	for u := range s.unwanted {
		if u.state == createLost && u.session.Err() != nil {
			u.state, u.since, u.next = sessionOver, now, now
		}
		if u.state != createExpected && u.next.Before(next) {
			where, next = u.place, u.next
		}
	}
	return where, next
}

// look removes what there is at a place of nodes whose create was lost.
func (s *sweeper) look(where place) {
	c, now := s.core, time.Now()
	s.mu.Lock()
	nodes := s.places(func(u *unwanted) bool { return u.place == where && u.state != createExpected })[where]
	s.mu.Unlock()
	if len(nodes) == 0 {
		return
	}
	var session *Session // that was asked
	_, err := c.repeat(c.ctx, true, func(l *Connection) error {
		session = l.session
		if err := l.CaughtUp(c.ctx); err != nil {
			return err
		}
		return s.remove(c.ctx, l, where, nodes, false)
	})
	if c.ctx.Err() != nil {
		return // the rest is for last
	}
	if err != nil {
		c.cfg.Log.Warn("nodes may stay behind", "path", where.path, "count", len(nodes), "reason", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range nodes {
		// A node of a fixed name: what was asked in this session before has been carried out by now, or is not any more.
		if err != nil || !where.children && session == u.session || u.done(now) {
			delete(s.unwanted, u)
		}
	}
}

// done reports whether a look that began at now was the last that is needed, and otherwise sets the next.
func (u *unwanted) done(now time.Time) bool {
	switch {
	case u.state == createLost:
		age := now.Sub(u.since)
		u.next = now.Add(max(firstSweepPause, age))
		return age > sweepFor
	case !u.persistent:
		return true // a session that is over takes its nodes along
	}
	// For us it is over earlier than for the servers. A follower reports after half a tick that it has heard a session, and the leader ends
	// sessions once per tick, which is half a timeout at most.
	u.next = u.since.Add(u.session.Timeout() * 2)
	return !now.Before(u.next)
}

// last removes what it can before the session is closed, which does the same for ephemeral nodes. What the
// connection has sent is answered before these requests, and after Drain nothing else is sent.
func (s *sweeper) last(ctx context.Context, l *Connection) {
	l.conn.Drain()
	s.mu.Lock()
	s.closed = true
	places := s.places(func(u *unwanted) bool { return u.persistent })
	s.mu.Unlock()
	if len(places) > 0 { // the server may know less than the one that was asked for a node: see Connection.CatchUp
		q := askNothing()
		q.last = true
		post(l, q)
	}
	for where, nodes := range places {
		if err := s.remove(ctx, l, where, nodes, true); err != nil {
			s.core.cfg.Log.Warn("nodes may stay behind", "path", where.path, "count", len(nodes), "reason", err)
		}
	}
}

// places returns the nodes that pick picks, by place. s.mu is held.
func (s *sweeper) places(pick func(*unwanted) bool) map[place][]*unwanted {
	places := make(map[place][]*unwanted)
	for u := range s.unwanted {
		if pick(u) {
			places[u.place] = append(places[u.place], u)
		}
	}
	return places
}

// remove deletes what there is of nodes at a place. last is that of a request.
func (s *sweeper) remove(ctx context.Context, l *Connection, where place, nodes []*unwanted, last bool) error {
	paths, version, err := where.find(ctx, l, nodes, last)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	deletes := make([]*exchange[None], len(paths)) // all at once: Close has little time
	for i, path := range paths {
		q := AskDelete(path, version)
		q.last = last
		deletes[i] = send(l, q)
	}
	for i, path := range paths {
		switch _, err := deletes[i].wait(ctx); {
		case err != nil && ctx.Err() != nil, retry.MayPass(err):
			return err
		case errors.Is(err, zk.ErrBadVersion): // somebody has written to it just now
			return s.remove(ctx, l, where, nodes, last)
		case err != nil && !errors.Is(err, zk.ErrNoNode):
			s.core.cfg.Log.Warn("node stays behind", "path", path, "reason", err)
		}
	}
	return nil
}

// find returns the paths of what there is of nodes at p, and the version that is to be deleted.
func (p place) find(ctx context.Context, l *Connection, nodes []*unwanted, last bool) (paths []string, version int32, err error) {
	if !p.children {
		stat, err := lastCall(ctx, l, AskExists(p.path, false), last)
		if err != nil || stat.EphemeralOwner != 0 || slices.ContainsFunc(nodes, func(u *unwanted) bool { return u.wanted() }) {
			return nil, 0, err
		}
		return []string{p.path}, stat.Version, nil
	}
	ids := make(map[string]bool)
	for _, u := range nodes {
		ids[u.id] = true
	}
	list, err := lastCall(ctx, l, AskChildren(p.path, false), last)
	for _, name := range list.Value {
		if _, id := Unprotected(name); ids[id] {
			paths = append(paths, Join(p.path, name))
		}
	}
	return paths, -1, err
}
