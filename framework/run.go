package framework

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/session"
	"github.com/gocurator/curator/internal/wait"
)

// New makes a client of the ensemble that servers belong to, and begins to connect. Each server is host:port, or
// host for port 2181; for a connect string see [ParseConnectString]. New does not wait for a connection: see
// [Client.WaitConnected]. Errors are [ErrBadArgument] and [ErrBadPath]; nothing was sent then.
//
// Whoever makes a client must [Client.Close] it.
func New(servers []string, opts ...Option) (*Client, error) {
	cfg := defaults()
	if err := opt.Apply(&cfg, opts); err != nil {
		return nil, err
	}
	switch {
	case len(servers) > 0 && cfg.servers != nil:
		return nil, fmt.Errorf("%w: both servers and a server list", ErrBadArgument)
	case len(servers) == 0 && cfg.servers == nil:
		return nil, fmt.Errorf("%w: no servers", ErrBadArgument)
	case cfg.servers == nil:
		var err error
		if cfg.servers, err = fixedServers(servers); err != nil {
			return nil, err
		}
	}
	if cfg.dial == nil {
		cfg.dial = new(net.Dialer).DialContext
		if cfg.resolve == nil {
			cfg.resolve = net.DefaultResolver.LookupHost
		}
	}
	c := &core{
		cfg:     cfg,
		states:  session.NewMachine(cfg.log),
		closed:  make(chan struct{}),
		reached: make(chan struct{}),
	}
	for _, auth := range cfg.auths {
		c.auths.add(auth)
	}
	if err := c.observe(); err != nil {
		return nil, err
	}
	c.sweeper = newSweeper(c)
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	if cfg.tracking {
		t := &tracker{core: c, given: cfg.servers}
		c.cfg.servers = t.servers
		c.wg.Go(t.run) // ends with c.ctx
	}
	c.wg.Go(c.run)    // ends with c.ctx
	c.wg.Go(c.absent) // ends with the first connection, or with c.ctx
	return &Client{core: c, namespace: cfg.namespace}, nil
}

// Close ends the session; if a server can be reached, its ephemeral nodes are deleted at once. Every call returns
// [ErrClosed], holds of locks end with the same cause, and Close waits for every goroutine of the client except for
// those of state listeners: one call of each may be running, or about to begin, when it returns. It may be called any
// number of times, also by a listener; it always returns nil.
//
// Closing a view from [Client.Namespace] closes its client, and all other views.
func (c *Client) Close() error {
	c.core.close()
	return nil
}

// observe has the observer, if there is one, told of states.
func (c *core) observe() error {
	if c.observer = combine(c.cfg.observers); c.observer == nil {
		return nil
	}
	c.reporter = &reporter{tell: c.observer.State}
	if _, err := c.states.Listen(c.reporter.to); err != nil {
		return fmt.Errorf("observer: %w", err)
	}
	return nil
}

// run keeps the client connected. It is the one place where sessions and links begin
// and end.
func (c *core) run() {
	servers := newConnector(c)
	for {
		l, err := servers.connect()
		if err != nil {
			break // closed
		}
		if !c.attach(l) {
			l.close() // the session ended meanwhile
			c.cfg.events.State(zk.StateDisconnected, l.target.address, 0)
			servers.ended(l)
			continue
		}
		select {
		case <-l.down:
		case <-l.session.Done():
		case <-c.ctx.Done():
		}
		if c.ctx.Err() != nil {
			break
		}
		c.detach(l)
		servers.ended(l)
	}
	c.finish(servers)
	c.cfg.events.State(zk.StateDisconnected, "", 0)
}

// absent makes known that a client does not reach any server at first.
func (c *core) absent() {
	for _, step := range []struct {
		after time.Duration
		to    connstate.State
	}{
		{c.cfg.connectionTimeout, connstate.Suspended},
		{max(c.cfg.sessionTimeout-c.cfg.connectionTimeout, 0), connstate.Lost},
	} {
		timer := time.NewTimer(step.after)
		select {
		case <-timer.C:
		case <-c.reached:
		case <-c.ctx.Done():
		}
		timer.Stop()
		if c.ctx.Err() != nil || !c.states.Absent(step.to) {
			return
		}
		c.cfg.log.Warn("no server reached yet", "reason", c.unreachable(nil))
	}
}

// attach makes l the connection in use.
func (c *core) attach(l *link) bool {
	if !l.session.resume() {
		return false
	}
	c.cfg.log.Info("connected", "server", l.target.server, "session", sessionText(l.session.ID()), "timeout", l.session.Timeout())
	// Before the link is there for all: whoever has waited for it finds the state
	// that goes with it.
	c.states.Set(connstate.Connected)
	c.cfg.events.State(zk.StateHasSession, l.target.address, l.session.ID())
	if !wait.Closed(c.reached) {
		close(c.reached)
	}
	c.now.Set(func(n *connection) { n.link, n.authErr, n.why = l, nil, nil })
	return true
}

// detach takes l out of use: because it broke, or because its session is over.
func (c *core) detach(l *link) {
	c.now.Set(func(n *connection) { n.link = nil })
	// Holders first: what follows may take its time.
	l.session.suspend()
	if wait.Closed(l.down) {
		<-l.told // its goroutine may be telling holders at this moment
	}
	if l.session.Err() == nil {
		c.because(fmt.Errorf("%s: %w", l.target.server, l.conn.Err()))
		c.cfg.log.Info("connection suspended", "server", l.target.server, "session", sessionText(l.session.ID()), "reason", l.conn.Err())
	}
	c.states.Set(connstate.Suspended)
	c.cfg.events.State(zk.StateDisconnected, l.target.address, 0)
	c.dropIfOver(l.session)
	l.close()
}

func (c *core) close() {
	c.mu.Lock()
	first := !c.closing
	c.closing = true
	c.mu.Unlock()
	if !first {
		<-c.closed
		return
	}
	c.stop(ErrClosed)
	if session := c.current().session; session != nil {
		session.over(ErrClosed) // holders hear of it before the servers do
	}
	c.wg.Wait()
	c.states.Close()
	close(c.closed) // before the observer is called, which may wait for this
	if c.reporter != nil {
		c.reporter.to(0)
	}
}

// finish is the end of run.
func (c *core) finish(servers *connector) {
	now := c.current()
	l, session := now.link, now.session
	c.now.Set(func(n *connection) { n.link, n.session = nil, nil })
	if session != nil {
		session.over(ErrClosed)
		<-session.told // close may be telling dependents at this moment
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	end := func(l *link) (ended bool) {
		c.sweeper.last(ctx, l)
		return l.closeSession(ctx)
	}
	if l != nil && end(l) || session == nil || !errors.Is(session.Err(), ErrClosed) {
		return
	}
	// The connection was lost, perhaps just now, while the session lives on.
	if l = servers.last(ctx, session); l != nil {
		end(l)
	}
}
