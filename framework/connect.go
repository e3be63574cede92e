package framework

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/ctxerr"
)

// Pauses between rounds over all servers in which none could be used.
const (
	minConnectPause = 50 * time.Millisecond
	maxConnectPause = time.Second
)

// errSessionOver is a server's word that the session that was asked for is over.
var errSessionOver = errors.New("session expired")

// connect tries one server after another until a connection has a session: the
// current one if it lives, otherwise a new one. It fails only when the client is closed.
func (c *core) connect() (*link, error) {
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(minConnectPause),
		backoff.WithMaxInterval(maxConnectPause),
		backoff.WithMaxElapsedTime(0)) // for ever
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
		if err != nil {
			c.cfg.log.Warn("no server list", "reason", err)
		}
		for _, i := range rand.Perm(len(servers)) {
			l, err := c.connectTo(servers[i], len(servers))
			if err == nil {
				return l, nil
			}
			if c.ctx.Err() != nil {
				return nil, ErrClosed
			}
			c.cfg.log.Debug("cannot use server", "server", servers[i], "reason", err)
			if errors.Is(err, zk.ErrAuthFailed) {
				c.set(func() { c.authErr = err })
			}
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
			if c.ctx.Err() != nil {
				return nil, ErrClosed
			}
		}
	}
}

// living returns the session to go on with, if there is one. If it is over, that becomes known.
func (c *core) living() *Session {
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	if session != nil && c.dropIfOver(session) {
		return nil
	}
	return session
}

// connectTo asks one of n servers for a session.
func (c *core) connectTo(server string, n int) (*link, error) {
	server, err := withPort(server)
	if err != nil {
		return nil, err
	}
	session := c.living()
	want := grant{timeout: c.cfg.sessionTimeout}
	var lastZxid int64
	parent, timeout := c.ctx, c.cfg.sessionTimeout
	if session != nil {
		want, lastZxid = session.ask()
		want.timeout = c.cfg.sessionTimeout
		parent, timeout = session.Context(), session.Timeout()
	}
	// Every server gets its chance before the session's time is up, as in the
	// Java client; and none can hold us for long.
	ctx, cancel := context.WithTimeout(parent, min(max(timeout/time.Duration(n+1), time.Second), 10*time.Second))
	defer cancel()

	conn, err := c.dial(ctx, server)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	var got grant
	var sent time.Time
	err = within(ctx, conn, func() error {
		var err error
		sent = time.Now()
		if got, err = handshake(duplex{in, conn}, want, lastZxid); err != nil {
			return fmt.Errorf("handshake: %w", err)
		}
		if got.id == 0 || session != nil && got.id != want.id {
			return errSessionOver
		}
		return authenticate(duplex{in, conn}, c.cfg.auths)
	})
	if err != nil {
		conn.Close()
		if session != nil && errors.Is(err, errSessionOver) {
			session.over(fmt.Errorf("%w: %w", ErrSessionLost, zk.ErrSessionExpired))
			c.dropIfOver(session)
		}
		return nil, err
	}
	if session == nil {
		session = newSession(c, got, sent)
		c.set(func() { c.session = session })
		c.wg.Go(session.watch) // ends with the session, which ends with the client
	} else {
		session.attach(got, sent)
	}
	w := newWire(conn, in, got, session.answered)
	l, err := newLink(session, server, w, got, c.cfg.log, &c.wg)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return l, nil
}

// dial opens a connection, with TLS if it was asked for.
func (c *core) dial(ctx context.Context, server string) (net.Conn, error) {
	conn, err := c.cfg.dial(ctx, "tcp", server)
	if err != nil || c.cfg.tls == nil {
		return conn, err
	}
	conf := c.cfg.tls.Clone()
	if conf.ServerName == "" {
		conf.ServerName, _, _ = net.SplitHostPort(server)
	}
	secure := tls.Client(conn, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

// within runs f, which reads and writes on conn, and makes it fail when ctx ends.
func within(ctx context.Context, conn net.Conn, f func() error) error {
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0)) // in the past; if that fails, f ends with conn
	})
	err := f()
	if !stop() {
		return errors.Join(ctxerr.Of(ctx), err)
	}
	return err
}

// duplex reads through a buffer and writes without.
type duplex struct {
	io.Reader
	io.Writer
}
