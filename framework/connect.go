package framework

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
)

// Pauses between rounds over all servers in which none could be used, and after connections that
// ended young.
const (
	minConnectPause = 50 * time.Millisecond
	maxConnectPause = time.Second
)

const (
	// settled is how long a connection must have lasted for the next to be made without a pause.
	settled = time.Second

	// remembered is for how long a server that failed is tried after the others.
	remembered = 30 * time.Second
)

// connector finds a server and a session. It belongs to the goroutine of run.
type connector struct {
	core   *core
	rounds backoff.BackOff      // pauses between rounds in which no server could be used
	young  backoff.BackOff      // pauses after connections that ended young
	failed map[string]time.Time // servers, and when they failed last
}

func newConnector(c *core) *connector {
	return &connector{core: c, rounds: connectPauses(), young: connectPauses(), failed: make(map[string]time.Time)}
}

func connectPauses() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(minConnectPause),
		backoff.WithMaxInterval(maxConnectPause),
		backoff.WithMaxElapsedTime(0)) // for ever
}

// connect tries one server after another until a connection has a session: the
// current one if it lives, otherwise a new one. It fails only when the client is closed.
func (f *connector) connect() (*link, error) {
	c := f.core
	for {
		// Whatever is waited for here, the end of the session must not wait as well.
		ctx := c.ctx
		if session := c.living(); session != nil {
			ctx = session.Context() // ends with the client, too
		}
		servers, err := c.cfg.servers(ctx)
		if c.ctx.Err() != nil {
			return nil, ErrClosed
		}
		if ctx.Err() != nil {
			continue // the error is that of ctx
		}
		if err == nil && len(servers) == 0 {
			err = errors.New("it is empty")
		}
		if err != nil {
			c.because(fmt.Errorf("server list: %w", err))
			c.cfg.log.Warn("no server list", "reason", err)
		}
		if l, err := f.round(f.ordered(servers)); l != nil || err != nil {
			f.rounds.Reset()
			return l, err
		}
		pause(ctx, f.rounds.NextBackOff())
	}
}

// round tries each server once. It returns neither if none can be used.
func (f *connector) round(servers []string) (*link, error) {
	c := f.core
	for i, server := range servers {
		l, err := f.connectTo(server, len(servers)-i)
		if err == nil {
			delete(f.failed, server)
			return l, nil
		}
		if c.ctx.Err() != nil {
			return nil, ErrClosed
		}
		f.failed[server] = time.Now()
		c.because(fmt.Errorf("%s: %w", server, err))
		c.cfg.log.Debug("cannot use server", "server", server, "reason", err)
		if !errors.Is(err, zk.ErrAuthFailed) {
			err = nil // credentials are not why the last server could not be used
		}
		c.set(func() { c.authErr = err })
	}
	return nil, nil
}

// ordered puts servers in random order, those that failed not long ago last.
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
// sessions and hangs up must not be asked hundreds of times a second. The pauses grow while
// connections are of no use at all.
func (f *connector) ended(l *link) {
	if errors.Is(l.conn.Err(), conn.ErrSilent) {
		f.failed[l.server] = time.Now()
	}
	young := time.Since(l.began) < settled
	if !young || l.useful.Load() {
		f.young.Reset()
	}
	if !young {
		return
	}
	ctx := f.core.ctx
	if session := f.core.living(); session != nil {
		ctx = session.Context()
	}
	pause(ctx, f.young.NextBackOff())
}

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// living returns the session to go on with, if there is one. If it is lost, that becomes known.
func (c *core) living() *Session {
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	if session != nil && c.dropIfOver(session) {
		return nil
	}
	return session
}

// dropIfOver makes the loss of a session known. A session that Close has ended is not lost: finish tells a server.
func (c *core) dropIfOver(s *Session) bool {
	if s.Err() == nil || errors.Is(s.Err(), ErrClosed) {
		return false
	}
	<-s.told // dependents before listeners
	c.set(func() { c.session = nil })
	c.cfg.log.Warn("session lost", "session", sessionText(s.ID()), "reason", s.Err())
	c.states.Set(connstate.Lost)
	return true
}

// because notes why there is no connection.
func (c *core) because(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.why = why
}

// Limits of how long one server may take to grant a session.
const (
	minServerTime = 100 * time.Millisecond
	maxServerTime = 10 * time.Second
)

// timeFor is how long one server may take when n are left to be tried. While there is a session
// every one of them gets its chance before the session's time is up.
func (c *core) timeFor(session *Session, n int) time.Duration {
	if session == nil {
		return min(max(c.cfg.sessionTimeout/time.Duration(n+1), time.Second), maxServerTime)
	}
	return min(max(session.left()/time.Duration(n+1), minServerTime), maxServerTime)
}

// connectTo asks a server for a session, when n are left to be tried.
func (f *connector) connectTo(server string, n int) (*link, error) {
	c := f.core
	address, err := withPort(server)
	if err != nil {
		return nil, err
	}
	session := c.living()
	ctx := c.ctx
	if session != nil {
		ctx = session.Context()
	}
	opened, err := c.open(ctx, address, session, c.timeFor(session, n))
	if session != nil && (errors.Is(err, conn.ErrExpired) || err == nil && opened.Grant.Session != session.ID()) {
		session.over(fmt.Errorf("%w: %w", ErrSessionLost, zk.ErrSessionExpired))
		c.dropIfOver(session)
		session = nil
		// ZooKeeper hangs up. ClickHouse Keeper has made a new session, which will do.
		if err != nil {
			opened, err = c.open(c.ctx, address, nil, c.timeFor(nil, n))
		}
	}
	if err != nil {
		return nil, err
	}
	if session == nil {
		session = newSession(c, opened.Grant, opened.Sent)
		c.set(func() { c.session = session })
		c.wg.Go(session.watch) // ends with the session, which ends with the client
	} else {
		session.attach(opened.Grant, opened.Sent)
	}
	session.behind.Store(session.unplaced.Load())
	l := newLink(session, server, opened, c.cfg.nudges)
	switch {
	case session.behind.Load():
		l.catchUp() // the leader's answer proves as much as that to a sync
	case session.depended():
		send(l, askSync("/")) // without it the connect request proves nothing, see session.Deadline
	}
	return l, nil
}

// catchUp has the server apply everything that the session was told of by events, before it answers what is asked from now on. An
// event does not say which transaction it is about, so that the server may know less than the last one did. Then a holder
// that was woken by an event could read what was true before its predecessor wrote. It is a write that changes nothing,
// and nobody waits for it: a server answers a session in order.
func (l *link) catchUp() {
	check := proto.MultiRequest{Ops: []proto.MultiOp{{Op: proto.OpCheck, Body: &proto.VersionRequest{Path: "/", Version: -1}}}}
	send(l, question[nothing]{op: proto.OpMulti, frame: check.Append(conn.Begin(64)), parse: parseNothing})
}

// last makes a connection for the end of a session of a client that is closed. It tries each server once, until ctx is done, and
// returns nil if none can be used.
func (f *connector) last(ctx context.Context, session *Session) *link {
	c := f.core
	servers, _ := c.cfg.servers(ctx)
	for i, server := range f.ordered(servers) {
		address, err := withPort(server)
		if err != nil {
			continue
		}
		until, _ := ctx.Deadline()
		opened, err := c.open(ctx, address, session, max(time.Until(until)/time.Duration(len(servers)-i), minServerTime))
		switch {
		case err == nil && opened.Grant.Session == session.ID():
			return newLink(session, server, opened, c.cfg.nudges)
		case err == nil:
			opened.Close(errLeft)
			return nil // the session was over
		case errors.Is(err, conn.ErrExpired) || ctx.Err() != nil:
			return nil
		}
	}
	return nil
}

// open makes a connection with a session, which is a new one if session is nil.
func (c *core) open(ctx context.Context, address string, session *Session, limit time.Duration) (*conn.Conn, error) {
	hello := conn.Hello{}
	if session != nil {
		hello = session.ask()
	}
	hello.Timeout, hello.Auths = c.cfg.sessionTimeout, c.cfg.auths
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	nc, err := c.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return conn.Open(ctx, nc, hello)
}

// dial opens a connection, with TLS if it was asked for.
func (c *core) dial(ctx context.Context, server string) (net.Conn, error) {
	nc, err := c.cfg.dial(ctx, "tcp", server)
	if err != nil || c.cfg.tls == nil {
		return nc, err
	}
	conf := c.cfg.tls.Clone()
	if conf.ServerName == "" {
		conf.ServerName, _, _ = net.SplitHostPort(server)
	}
	secure := tls.Client(nc, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return secure, nil
}
