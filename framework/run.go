package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/session"
)

// New makes a client of the ensemble that servers belong to, and begins to connect. Each server is host:port, or
// host for port 2181; for a connect string see [ParseConnectString]. New does not wait for a connection: see
// [Client.WaitConnected]. Errors are [ErrBadArgument] and [ErrBadPath]; nothing was sent then.
//
// Whoever makes a client must [Client.Close] it.
func New(servers []string, opts ...Option) (*Client, error) {
	cfg := defaults()
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("%w: nil option", ErrBadArgument)
		}
		if err := opt(&cfg); err != nil {
			return nil, err
		}
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
	c := &core{
		cfg:     cfg,
		states:  session.NewMachine(cfg.log),
		closed:  make(chan struct{}),
		reached: make(chan struct{}),
		changed: make(chan struct{}),
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
// [ErrClosed], holds of locks end with the same cause, and Close waits for every goroutine of the client. It may
// be called any number of times; it always returns nil. Called from a state listener it does not wait for that
// listener.
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
	c.cfg.log.Info("connected", "server", l.server, "session", sessionText(l.session.ID()), "timeout", l.session.Timeout())
	// Before the link is there for all: whoever has waited for it finds the state
	// that goes with it.
	c.states.Set(connstate.Connected)
	select {
	case <-c.reached:
	default:
		close(c.reached)
	}
	c.set(func() { c.link, c.authErr, c.why = l, nil, nil })
	return true
}

// detach takes l out of use: because it broke, or because its session is over.
func (c *core) detach(l *link) {
	c.set(func() { c.link = nil })
	// Holders first: what follows may take its time.
	l.session.suspend()
	select {
	case <-l.down:
		<-l.told // its goroutine may be telling holders at this moment
	default:
	}
	if l.session.Err() == nil {
		c.because(fmt.Errorf("%s: %w", l.server, l.conn.Err()))
		c.cfg.log.Info("connection suspended", "server", l.server, "session", sessionText(l.session.ID()), "reason", l.conn.Err())
	}
	c.states.Set(connstate.Suspended)
	c.dropIfOver(l.session)
	l.close()
}

func (c *core) close() {
	c.mu.Lock()
	first := !c.closing
	c.closing = true
	session := c.session
	c.mu.Unlock()
	if !first {
		<-c.closed
		c.states.Close() // waits for the listeners, too
		return
	}
	c.stop(ErrClosed)
	if session != nil {
		session.over(ErrClosed) // holders hear of it before the servers do
	}
	c.wg.Wait()
	close(c.closed) // before the listeners are waited for: one of them may wait for this
	c.states.Close()
	if c.reporter != nil {
		c.reporter.to(0)
	}
}

// finish is the end of run.
func (c *core) finish(servers *connector) {
	c.mu.Lock()
	l, session := c.link, c.session
	c.mu.Unlock()
	c.set(func() { c.link, c.session = nil, nil })
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
