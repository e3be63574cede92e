package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/wait"
)

const (
	// youth is how long a connection must have lasted for the next connection to be opened without
	// a pause.
	youth = time.Second

	// remembered is for how long a server that failed is tried after the others.
	remembered = 30 * time.Second
)

// connector finds a server and a session. It belongs to the goroutine of run.
type connector struct {
	core   *core
	rounds wait.Pauses          // pauses between rounds in which no server could be used
	young  wait.Pauses          // pauses after connections that ended young
	failed map[string]time.Time // servers and addresses, and when they failed last
}

// connect tries one server after another until a connection has a session: the current session if
// it lives, otherwise a new session. It returns nil when the client is closed.
func (f *connector) connect() *Connection {
	c := f.core
	for c.ctx.Err() == nil {
		// Whatever is waited for here, the end of the session must not wait as well.
		ctx, _ := c.living()
		servers, err := c.cfg.Servers(ctx)
		if ctx.Err() != nil {
			continue // the error is ctx's
		}
		if err == nil && len(servers) == 0 {
			err = errors.New("the list is empty")
		}
		if err != nil {
			c.because(fmt.Errorf("server list: %w", err))
			c.cfg.Log.Warn("cannot read the server list", "reason", err)
		}
		if l := f.round(f.ordered(servers)); l != nil {
			f.rounds.Reset()
			return l
		}
		_ = wait.Sleep(ctx, f.rounds.Next())
	}
	return nil
}

// round tries each address of each server once. It returns nil if none can be used, or the client
// is closed.
func (f *connector) round(servers []string) *Connection {
	c := f.core
	for i, server := range servers {
		l, err := f.connectTo(server, len(servers)-i)
		if err == nil {
			delete(f.failed, server)
			return l
		}
		if c.ctx.Err() != nil {
			return nil
		}
		f.failed[server] = time.Now()
		c.cfg.Log.Debug("cannot use server", "server", server, "reason", err)
		c.now.Set(func(n *inUse) {
			n.why, n.authErr = fmt.Errorf("%s: %w", server, err), nil
			if errors.Is(err, zk.ErrAuthFailed) {
				n.authErr = err // credentials are why the last server could not be used
			}
		})
	}
	return nil
}

// ordered puts servers in random order, the ones that failed recently last.
func (f *connector) ordered(servers []string) []string {
	for server, at := range f.failed {
		if time.Since(at) > remembered {
			delete(f.failed, server)
		}
	}
	servers = slices.Clone(servers)
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	slices.SortStableFunc(servers, func(a, b string) int { return f.failed[a].Compare(f.failed[b]) })
	return servers
}

// ended looks at a connection that has ended, and pauses if it was young: a server that grants
// sessions and hangs up must not be asked hundreds of times a second. The pauses grow while no
// connection can be used.
func (f *connector) ended(l *Connection) {
	if err := l.Err(); errors.Is(err, conn.ErrSilent) || errors.Is(err, conn.ErrStuck) {
		now := time.Now()
		f.failed[l.target.server], f.failed[l.target.address] = now, now
	}
	young := time.Since(l.began) < youth
	if !young || l.useful.Load() {
		f.young.Reset()
	}
	if !young {
		return
	}
	ctx, _ := f.core.living()
	_ = wait.Sleep(ctx, f.young.Next())
}

// living returns the session to go on with, or nil, and a context that ends with it and with the
// client. If the session is lost, that becomes known.
func (c *core) living() (context.Context, *Session) {
	if session := c.current().session; session != nil && !c.dropIfOver(session) {
		return session.Context(), session
	}
	return c.ctx, nil
}

// dropIfOver reports the loss of a session. A session that Close has ended is not lost: finish
// closes it on a server.
func (c *core) dropIfOver(s *Session) bool {
	if s.Err() == nil || errors.Is(s.Err(), ErrClosed) {
		return false
	}
	<-s.notified // dependents before listeners
	c.now.Set(func(n *inUse) { n.session = nil })
	c.cfg.Events.State(zk.StateExpired, "", 0)
	lost := []any{"session", sessionText(s.ID()), "reason", s.Err()}
	if now := c.current(); now.link == nil && now.why != nil {
		lost = append(lost, "for", time.Since(now.since).Round(time.Millisecond), "unreachable", now.why)
	}
	c.cfg.Log.Warn("session lost", lost...)
	c.states.Set(connstate.Lost)
	return true
}

// because notes why there is no connection.
func (c *core) because(why error) {
	c.now.Set(func(n *inUse) { n.why = why })
}

// Limits of how long one server may take to grant a session.
const (
	minServerTime = 100 * time.Millisecond
	maxServerTime = 10 * time.Second // while there are others
	maxLookupTime = 10 * time.Second // to find a server's addresses
)

// timeFor is how long one server may take when n are left to be tried: its part of what the session
// leaves, so that each of them gets its chance before the session is lost. The last one may take
// all of it, since nothing is gained by leaving it.
func (c *core) timeFor(session *Session, n int) time.Duration {
	left, atLeast := c.cfg.SessionTimeout, time.Second
	if session != nil {
		left, atLeast = session.remaining(), minServerTime
	}
	limit := max(left/time.Duration(n), atLeast)
	if n > 1 {
		limit = min(limit, maxServerTime)
	}
	return limit
}

// dialTime returns the limit for the dial, which is part of the limit for a server. The handshake
// has the rest. After the network has recovered, a new dial succeeds sooner than one that has
// waited for long.
func dialTime(limit time.Duration) time.Duration { return min(limit, max(maxServerTime, limit/2)) }

// connectTo asks a server for a session, at one of its addresses after the other, when n servers
// are left to be tried.
func (f *connector) connectTo(server string, n int) (*Connection, error) {
	c := f.core
	ctx, session := c.living()
	targets, err := f.targets(ctx, server, min(c.timeFor(session, n), maxLookupTime))
	for i, t := range targets {
		var l *Connection
		if l, err = f.connectAt(t, n+len(targets)-i-1); err == nil {
			delete(f.failed, t.address)
			return l, nil
		}
		if c.ctx.Err() != nil {
			break
		}
		f.failed[t.address] = time.Now()
		if len(targets) > 1 {
			err = fmt.Errorf("at %s: %w", t.address, err)
			c.cfg.Log.Debug("cannot use address", "server", t.server, "reason", err)
		}
	}
	return nil, err
}

// targets returns the addresses of a server, the ones that failed recently last. limit bounds the
// lookup.
func (f *connector) targets(ctx context.Context, server string, limit time.Duration) ([]target, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	targets, err := resolve(ctx, f.core.cfg.Resolve, server)
	slices.SortStableFunc(targets, func(a, b target) int { return f.failed[a.address].Compare(f.failed[b.address]) })
	return targets, err
}

// connectAt asks at one address for a session, when n servers and addresses are left to be tried.
func (f *connector) connectAt(t target, n int) (*Connection, error) {
	c := f.core
	ctx, session := c.living()
	opened, err := c.open(ctx, t, session, c.timeFor(session, n))
	if session != nil && (errors.Is(err, conn.ErrExpired) || err == nil && opened.Grant.Session != session.ID()) {
		session.over(fmt.Errorf("%w: %w", ErrSessionLost, zk.ErrSessionExpired))
		c.dropIfOver(session)
		session = nil
		// ZooKeeper closes the connection. A ClickHouse Keeper not yet known as one has granted a
		// new session, which is used.
		if err != nil {
			c.cfg.Events.State(zk.StateDisconnected, t.address, 0)
			opened, err = c.open(c.ctx, t, nil, c.timeFor(nil, n))
		} else if _, failed := f.failed[t.address]; failed {
			err = errors.New("the server failed before, and has granted another session")
			opened.Close(err) // the next round tries the others first
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	if session == nil {
		session = newSession(c, opened.Grant, opened.Sent)
		c.now.Set(func(n *inUse) { n.session = session })
		c.wg.Go(session.watch) // ends with the session, which ends with the client
	} else {
		// A new leader gives the session the timeout with which it began, and a server reports what
		// it heard with the timeout that it has granted, even when the session has moved on. So the
		// shortest of all grants counts.
		opened.Grant.Timeout = min(opened.Grant.Timeout, session.Timeout())
		session.attach(opened.Grant, opened.Sent)
	}
	c.granted(session.Timeout(), time.Since(opened.Sent))
	behind := session.progress.begin()
	l := newConnection(session, t, opened, &c.cfg)
	if beat := session.beginBeats(); behind || beat {
		wire.Post(l.Conn, wire.AskNothing()) // see wire.Conn.CatchUp
	}
	return l, nil
}

// reopen opens a connection on which a closed client closes its session. If the client has no
// session, or a server reports that it is over, the connection has a new session, in which the
// remaining debts are deleted. It tries each address of each server once, until ctx is done. It
// returns nil if no server can be used or no connection is needed.
func (f *connector) reopen(ctx context.Context, session *Session) *Connection {
	c := f.core
	servers, _ := c.cfg.Servers(ctx)
	until, _ := ctx.Deadline()
	for i, server := range f.ordered(servers) {
		share := func(n int) time.Duration { return max(time.Until(until)/time.Duration(n), minServerTime) }
		targets, _ := f.targets(ctx, server, share(len(servers)-i))
		for j, t := range targets {
			n := len(servers) - i + len(targets) - j - 1
			opened, err := c.open(ctx, t, session, share(n))
			if errors.Is(err, conn.ErrExpired) && len(c.debts.Sessions()) > 0 {
				opened, err = c.open(ctx, t, nil, share(n))
			}
			switch {
			case err == nil && session != nil && opened.Grant.Session == session.ID():
				return newConnection(session, t, opened, &c.cfg)
			case err == nil: // the session was over
				other := newSession(c, opened.Grant, opened.Sent)
				other.over(ErrClosed)
				return newConnection(other, t, opened, &c.cfg)
			case errors.Is(err, conn.ErrExpired) || ctx.Err() != nil:
				return nil
			}
		}
	}
	return nil
}

// open connects and resumes the session, or requests a new one if session is nil.
func (c *core) open(ctx context.Context, t target, session *Session, limit time.Duration) (*conn.Conn, error) {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	opened, err := c.openWithin(within, t, session, dialTime(limit))
	if isTimeout(err) && ctx.Err() == nil {
		err = fmt.Errorf("no session was granted within %v", limit.Round(time.Millisecond))
	}
	return opened, err
}

// isTimeout reports whether an attempt to connect was ended by its own time limit.
func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

func (c *core) openWithin(ctx context.Context, t target, session *Session, dialLimit time.Duration) (*conn.Conn, error) {
	hello := conn.Hello{}
	if session != nil {
		hello = session.ask()
	}
	hello.Timeout, hello.Numbers = c.cfg.SessionTimeout, &c.numbers
	hello.Auths, _ = c.auths.Get()
	var err error
	if c.cfg.SASL != nil {
		if hello.SASL, err = c.cfg.SASL(ctx, t.host); err != nil {
			return nil, err
		}
	}
	c.cfg.Events.State(zk.StateConnecting, t.address, 0)
	dialing, cancel := context.WithTimeout(ctx, dialLimit)
	nc, err := c.cfg.Dial(dialing, "tcp", t.address)
	if isTimeout(err) && isTimeout(dialing.Err()) {
		err = fmt.Errorf("no connection was accepted within %v", dialLimit.Round(time.Millisecond))
	}
	cancel()
	if err == nil {
		nc, err = c.secure(ctx, t, nc)
	}
	if err != nil {
		return nil, err
	}
	c.cfg.Events.State(zk.StateConnected, t.address, 0)
	c.now.Set(func(n *inUse) { n.opening = true })
	opened, err := conn.Open(ctx, nc, hello)
	if err != nil {
		c.now.Set(func(n *inUse) { n.opening = false }) // otherwise when the connection is in use
	}
	if err != nil && !errors.Is(err, conn.ErrExpired) { // that is known as StateExpired first
		c.cfg.Events.State(zk.StateDisconnected, t.address, 0)
	}
	return opened, err
}

// secure puts TLS on a connection if it was asked for.
func (c *core) secure(ctx context.Context, t target, nc net.Conn) (net.Conn, error) {
	if c.cfg.TLS == nil {
		return nc, nil
	}
	secure := tls.Client(nc, c.cfg.TLS(t.host))
	if err := secure.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, tlsError(err)
	}
	return secure, nil
}

// tlsError is the error of a TLS handshake. A ZooKeeper server hangs up on one at a port without
// TLS.
func tlsError(err error) error {
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &record):
		return fmt.Errorf("TLS handshake: the server does not speak TLS on this port: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("TLS handshake: the server hung up, as on a port without TLS: %w", err)
	}
	return fmt.Errorf("TLS handshake: %w", err)
}
