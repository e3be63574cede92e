package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
)

// WithAuth presents credentials on every connection before anything else is
// sent, for example WithAuth("digest", []byte("user:password")). Given several
// times, all of them are presented. A server that refuses them is not used;
// calls then fail with [zk.ErrAuthFailed]. [Client.AddAuth] adds credentials later.
func WithAuth(scheme string, cred []byte) Option {
	return func(c *config) error {
		auth, err := newAuth(scheme, cred)
		c.auths = append(c.auths, auth)
		return err
	}
}

// AddAuth presents credentials on the present connection, and on every later one of the client and of all its namespace views.
// Operations that begin after AddAuth has returned have the rights that the credentials give. It is ZooKeeper's addAuthInfo.
//
// A server that refuses them ends the connection, and so holds under [connstate.Standard]. The error is zk.ErrAuthFailed, the
// credentials are not presented again, and the session goes on over another connection. If [retry.Unknown] is true of another error, a server may have accepted them,
// and they may be presented from now on. An empty scheme is [ErrBadArgument].
func (c *Client) AddAuth(ctx context.Context, scheme string, cred []byte) error {
	const op, path = "addAuth", "/"
	auth, err := newAuth(scheme, cred)
	if err != nil {
		return opError(op, path, err)
	}
	err = c.core.do(ctx, op, path, func(l *link) error {
		q := askAuth(auth)
		// On the connection's goroutine, which has ended when the client makes the next connection.
		q.done = func(_ nothing, err error) {
			if err == nil {
				c.core.auths.add(auth)
			}
		}
		_, err := ask(ctx, l, q)
		if errors.Is(err, zk.ErrAuthFailed) {
			err = fmt.Errorf("auth scheme %q: %w", scheme, err)
		}
		return err
	})
	return opError(op, path, err)
}

func newAuth(scheme string, cred []byte) (conn.Auth, error) {
	if scheme == "" {
		return conn.Auth{}, fmt.Errorf("%w: empty auth scheme", ErrBadArgument)
	}
	return conn.Auth{Scheme: scheme, Cred: slices.Clone(cred)}, nil
}

// auths are the credentials for each connection.
type auths struct {
	mu   sync.Mutex // guards list
	list []conn.Auth
}

// add adds what is not there yet.
func (a *auths) add(auth conn.Auth) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.ContainsFunc(a.list, func(b conn.Auth) bool { return b.Scheme == auth.Scheme && bytes.Equal(b.Cred, auth.Cred) }) {
		a.list = append(a.list, auth)
	}
}

func (a *auths) all() []conn.Auth {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.list)
}

// askAuth presents credentials.
func askAuth(auth conn.Auth) question[nothing] {
	r := proto.AuthRequest{Scheme: auth.Scheme, Cred: auth.Cred}
	return question[nothing]{op: proto.OpAuth, frame: r.Append(conn.Begin(64)), parse: parseNothing}
}
