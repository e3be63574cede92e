package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/engine/debt"
	"github.com/gocurator/curator/internal/session"
	"github.com/gocurator/curator/internal/wait"
)

// New returns a client. The caller must call Start and Close.
func New(cfg Config) Client {
	c := &core{cfg: cfg, states: session.NewMachine(cfg.Log)}
	if cfg.Changed != nil {
		c.states.Observe(cfg.Changed)
	}
	for _, auth := range cfg.Auths {
		c.addAuth(auth)
	}
	c.debts = debt.New(host{c})
	c.works = works{stopping: make(chan struct{}), left: make(map[Work]chan struct{})}
	c.begin()
	c.now.Set(func(n *inUse) { n.since = time.Now() })
	return Client{core: c}
}

// Start connects in the background.
func (c *core) Start() {
	if c.cfg.Tracking {
		t := &tracker{core: c, given: c.cfg.Servers}
		c.cfg.Servers = t.servers
		c.wg.Go(t.run) // ends with c.ctx
	}
	c.wg.Go(c.run)       // ends with c.ctx
	c.wg.Go(c.debts.Run) // ends with c.ctx
	c.wg.Go(c.outages)   // ends with c.ctx
}

// run keeps the client connected. It is the one goroutine that takes sessions and connections into
// use and out of use: see the table of [Session].
func (c *core) run() {
	servers := &connector{core: c, rounds: connectPauses(), young: connectPauses(), failed: make(map[string]time.Time)}
	for l := servers.connect(); l != nil; l = servers.connect() {
		if c.attach(l) {
			select {
			case <-l.Down():
			case <-l.session.Done():
			case <-c.ctx.Done():
			}
			if c.ctx.Err() != nil {
				break
			}
			c.detach(l)
		} else { // the session ended during the call
			c.now.Set(func(n *inUse) { n.opening = false })
			l.Close()
			c.cfg.Events.State(zk.StateDisconnected, l.target.address, 0)
		}
		servers.ended(l)
	}
	c.finish(servers)
	c.cfg.Events.State(zk.StateDisconnected, "", 0)
}

// remindEvery is how often the log says that there is still no session.
const remindEvery = time.Minute

// outages reports that a client has reached no server yet, and repeats the report while it has
// neither a session nor a connection.
func (c *core) outages() {
	c.absent()
	for c.ctx.Err() == nil {
		_, _ = c.now.Until(c.ctx, inUse.lost)
		within, cancel := c.within(c.ctx, remindEvery)
		now, _ := c.now.Until(within, func(now inUse) bool { return !now.lost() })
		cancel()
		if c.ctx.Err() == nil && now.lost() {
			c.cfg.Log.Warn("no server can be used", "for", time.Since(now.since).Round(time.Second), "reason", c.unreachable(nil))
		}
	}
}

// absent reports that a client has reached no server yet.
func (c *core) absent() {
	for _, step := range []struct {
		after time.Duration
		to    connstate.State
	}{
		{c.cfg.ConnectionTimeout, connstate.Suspended},
		{max(c.cfg.SessionTimeout-c.cfg.ConnectionTimeout, 0), connstate.Lost},
	} {
		within, cancel := c.within(c.ctx, step.after)
		_, _ = c.now.Until(within, func(now inUse) bool { return now.link != nil })
		cancel()
		if c.ctx.Err() != nil || !c.states.Absent(step.to) {
			return
		}
		if step.after > 0 { // otherwise it was said at this moment
			c.cfg.Log.Warn("no server reached yet", "reason", c.unreachable(nil))
		}
	}
}

// attach sets l as the connection in use.
func (c *core) attach(l *Connection) bool {
	if !l.session.resume() {
		return false
	}
	c.cfg.Log.Info("connected", "server", l.target.server, "session", sessionText(l.session.ID()), "timeout", l.session.Timeout())
	// Before the link is published: a caller that waited for it sees the matching state.
	c.states.Set(connstate.Connected)
	c.cfg.Events.State(zk.StateHasSession, l.target.address, l.session.ID())
	c.debts.Attach(l.Conn, l.session)
	c.now.Set(func(n *inUse) { n.link, n.authErr, n.why, n.opening = l, nil, nil, false })
	l.session.kick.Raise() // it may have gained a dependent since l began
	return true
}

// detach takes l out of use: because it broke, or because its session is over.
func (c *core) detach(l *Connection) {
	c.now.Set(func(n *inUse) { n.link, n.since = nil, time.Now() })
	c.debts.Detach()
	// Holders first: what follows may take its time.
	l.session.suspend()
	if wait.Closed(l.Down()) {
		<-l.notified // its goroutine may be notifying holders at this moment
	}
	if l.session.Err() == nil {
		c.because(fmt.Errorf("%s: %w", l.target.server, l.Err()))
		c.cfg.Log.Info("connection suspended", "server", l.target.server, "session", sessionText(l.session.ID()), "reason", l.Err())
	}
	c.states.Set(connstate.Suspended)
	c.cfg.Events.State(zk.StateDisconnected, l.target.address, 0)
	c.dropIfOver(l.session)
	l.Close()
}

// Close closes the session, and waits until every goroutine of the client has exited. It may be
// called several times; each call waits. Holds that were not released are logged: Shutdown returns
// them instead.
func (c *core) Close() {
	held := c.works.paths(true)
	if c.close() && len(held) > 0 {
		c.cfg.Log.Warn("client closed before holds were released", "paths", held)
	}
}

// close closes the client, and reports whether this call has.
func (c *core) close() (first bool) {
	if first = c.end(); first {
		if session := c.current().session; session != nil {
			session.over(ErrClosed) // holders notice before the servers do
		}
		c.wg.Wait()
		close(c.ended)
	}
	<-c.ended
	c.states.Close() // it may call an observer, which may call Close
	return first
}

// closeTimeout is how long a server may take to answer that it has ended the session.
const closeTimeout = time.Second

// finish is the end of run. It ends the session on the server, so that its nodes go at once.
func (c *core) finish(servers *connector) {
	now := c.current()
	l, session := now.link, now.session
	c.now.Set(func(n *inUse) { n.link, n.session = nil, nil })
	if session != nil {
		session.over(ErrClosed)
		<-session.notified // close may be notifying dependents at this moment
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	// end ends the session of a connection, which may replace the session of. After that, the
	// server cannot carry out any request of either session.
	end := func(ctx context.Context, l *Connection, of *Session) (answered bool) {
		defer l.Close()
		c.debts.DeleteRest(ctx, l.Conn, l.session, ledgered(of))
		return l.CloseSession(ctx)
	}
	// endWithout ends a session that has no connection. A server may cut the next connection as
	// well, because of a connection that was being opened. The pauses are short again: the
	// connector's pauses may have grown to a second, which is all the time that Close has.
	pauses := connectPauses()
	endWithout := func(session *Session) {
		for ctx.Err() == nil {
			if l := servers.reopen(ctx, session); l == nil || end(ctx, l, session) {
				return
			}
			_ = wait.Sleep(ctx, pauses.Next())
		}
	}
	c.debts.Close()
	answered := false
	switch {
	case l == nil:
	case !errors.Is(l.session.Err(), ErrClosed): // lost before, perhaps because this server stands still
		l.Close()
	case len(c.debts.Sessions()) > 0: // another connection may be needed
		half, cancel := context.WithTimeout(ctx, closeTimeout/2)
		answered = end(half, l, session)
		cancel()
	default:
		answered = end(ctx, l, session)
	}
	if !answered && session != nil && errors.Is(session.Err(), ErrClosed) {
		endWithout(session) // the connection was lost, perhaps just now, while the session lives on
	}
	// A session that is lost to the client may live for the servers, and so may its requests: it is
	// looked for in that session.
	for _, of := range c.debts.Sessions() {
		session, _ := of.(*Session)
		endWithout(session)
	}
	c.debts.Report()
}
