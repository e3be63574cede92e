package framework

import (
	"context"
	"fmt"
	"time"

	"github.com/gocurator/curator/connstate"
)

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
	c.finish()
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
	if l.session.Err() == nil {
		c.because(fmt.Errorf("%s: %w", l.server, l.conn.Err()))
		c.cfg.log.Info("connection suspended", "server", l.server, "session", sessionText(l.session.ID()), "reason", l.conn.Err())
	}
	c.states.Set(connstate.Suspended)
	c.dropIfOver(l.session)
	l.close()
}

// dropIfOver makes the loss of a session known.
func (c *core) dropIfOver(s *Session) bool {
	if s.Err() == nil {
		return false
	}
	<-s.told // dependents before listeners
	c.set(func() { c.session = nil })
	c.cfg.log.Warn("session lost", "session", sessionText(s.ID()), "reason", s.Err())
	c.states.Set(connstate.Lost)
	return true
}

// set changes what waiters look at, and wakes them.
func (c *core) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *core) close() {
	c.mu.Lock()
	first := !c.closing
	c.closing = true
	session := c.session
	c.mu.Unlock()
	if !first {
		<-c.closed
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
func (c *core) finish() {
	c.mu.Lock()
	l, session := c.link, c.session
	c.mu.Unlock()
	c.set(func() { c.link, c.session = nil, nil })
	if session != nil {
		session.over(ErrClosed)
	}
	if l != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		c.sweeper.last(ctx, l)
		l.closeSession(ctx)
	}
}

// confirm has the leader answer for the session. It does not wait: what counts is that it is
// answered, and the connection notes when. If it is not, the deadline says so.
func (c *core) confirm(s *Session) {
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l == nil || l.session != s {
		return
	}
	if !l.beating.Swap(true) { // the last has been answered
		q := askSync("/")
		q.settle = func(error) { l.beating.Store(false) }
		send(l, q)
	}
}

// background runs f on a goroutine that Close waits for; f must end with c.ctx.
// It reports whether it could.
func (c *core) background(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.wg.Go(f)
	return true
}
