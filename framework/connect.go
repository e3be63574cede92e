package framework

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
)

// Pauses between rounds over all servers in which none could be used.
const (
	minConnectPause = 50 * time.Millisecond
	maxConnectPause = time.Second
)

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
	hello := conn.Hello{}
	parent, timeout := c.ctx, c.cfg.sessionTimeout
	if session != nil {
		hello = session.ask()
		parent, timeout = session.Context(), session.Timeout()
	}
	hello.Timeout, hello.Auths = c.cfg.sessionTimeout, c.cfg.auths
	// Every server gets its chance before the session's time is up, as in the
	// Java client; and none can hold us for long.
	ctx, cancel := context.WithTimeout(parent, min(max(timeout/time.Duration(n+1), time.Second), 10*time.Second))
	defer cancel()

	nc, err := c.dial(ctx, server)
	if err != nil {
		return nil, err
	}
	opened, err := conn.Open(ctx, nc, hello)
	if err == nil && session != nil && opened.Grant.Session != hello.Session {
		opened.Close(errLeft)
		err = conn.ErrExpired
	}
	if err != nil {
		if session != nil && errors.Is(err, conn.ErrExpired) {
			session.over(fmt.Errorf("%w: %w", ErrSessionLost, zk.ErrSessionExpired))
			c.dropIfOver(session)
		}
		return nil, err
	}
	if session == nil {
		session = newSession(c, opened.Grant, opened.Sent)
		c.set(func() { c.session = session })
		c.wg.Go(session.watch) // ends with the session, which ends with the client
	} else {
		session.attach(opened.Grant, opened.Sent)
	}
	return newLink(session, server, opened), nil
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
