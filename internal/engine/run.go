package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/session"
	"github.com/gocurator/curator/internal/wait"
)

// New makes a client, which has to be started and closed.
func New(cfg Config) Client {
	c := &core{cfg: cfg, states: session.NewMachine(cfg.Log)}
	if cfg.Changed != nil {
		c.states.Observe(cfg.Changed)
	}
	for _, auth := range cfg.Auths {
		c.addAuth(auth)
	}
	c.sweeper = &sweeper{core: c, unwanted: make(map[*unwanted]struct{})}
	c.begin()
	return Client{core: c}
}

// Start begins to connect.
func (c *core) Start() {
	if c.cfg.Tracking {
		t := &tracker{core: c, given: c.cfg.Servers}
		c.cfg.Servers = t.servers
		c.wg.Go(t.run) // ends with c.ctx
	}
	c.wg.Go(c.run)         // ends with c.ctx
	c.wg.Go(c.sweeper.run) // ends with c.ctx
	c.wg.Go(c.absent)      // ends with the first connection, or with c.ctx
}

// run keeps the client connected. It is the one place where sessions and links begin
// and end.
func (c *core) run() {
	servers := &connector{core: c, rounds: connectPauses(), young: connectPauses(), failed: make(map[string]time.Time)}
	for l := servers.connect(); l != nil; l = servers.connect() {
		if c.attach(l) {
			select {
			case <-l.down:
			case <-l.session.Done():
			case <-c.ctx.Done():
			}
			if c.ctx.Err() != nil {
				break
			}
			c.detach(l)
		} else { // the session ended meanwhile
			l.close()
			c.cfg.Events.State(zk.StateDisconnected, l.target.address, 0)
		}
		servers.ended(l)
	}
	c.finish(servers)
	c.cfg.Events.State(zk.StateDisconnected, "", 0)
}

// absent makes known that a client does not reach any server at first.
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
		c.cfg.Log.Warn("no server reached yet", "reason", c.unreachable(nil))
	}
}

// attach makes l the connection in use.
func (c *core) attach(l *Connection) bool {
	if !l.session.resume() {
		return false
	}
	c.cfg.Log.Info("connected", "server", l.target.server, "session", sessionText(l.session.ID()), "timeout", l.session.Timeout())
	// Before the link is there for all: whoever has waited for it finds the state
	// that goes with it.
	c.states.Set(connstate.Connected)
	c.cfg.Events.State(zk.StateHasSession, l.target.address, l.session.ID())
	c.now.Set(func(n *inUse) { n.link, n.authErr, n.why = l, nil, nil })
	l.session.kick.Raise() // somebody may depend on it who did not when l began
	return true
}

// detach takes l out of use: because it broke, or because its session is over.
func (c *core) detach(l *Connection) {
	c.now.Set(func(n *inUse) { n.link = nil })
	// Holders first: what follows may take its time.
	l.session.suspend()
	if wait.Closed(l.down) {
		<-l.notified // its goroutine may be notifying holders at this moment
	}
	if l.session.Err() == nil {
		c.because(fmt.Errorf("%s: %w", l.target.server, l.conn.Err()))
		c.cfg.Log.Info("connection suspended", "server", l.target.server, "session", sessionText(l.session.ID()), "reason", l.conn.Err())
	}
	c.states.Set(connstate.Suspended)
	c.cfg.Events.State(zk.StateDisconnected, l.target.address, 0)
	c.dropIfOver(l.session)
	l.close()
}

// Close ends the session, and waits for every goroutine of the client. It may be called any number of times; each call waits.
func (c *core) Close() {
	c.close.Do(func() {
		c.end()
		if session := c.current().session; session != nil {
			session.over(ErrClosed) // holders notice before the servers do
		}
		c.wg.Wait()
	})
	c.states.Close() // it may call an observer, who may call Close
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
	end := func(l *Connection) (answered bool) {
		defer l.close()
		c.sweeper.last(ctx, l)
		return l.conn.CloseSession(ctx)
	}
	if l != nil && end(l) || session == nil || !errors.Is(session.Err(), ErrClosed) {
		return
	}
	// The connection was lost, perhaps just now, while the session lives on. A server may cut the next one, too, for one that was being opened.
	for ctx.Err() == nil {
		if l = servers.last(ctx, session); l == nil || end(l) {
			return
		}
		_ = wait.Sleep(ctx, servers.young.Next())
	}
}
