package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine"
)

// WithAuth presents credentials on every connection before anything else is
// sent, for example WithAuth("digest", []byte("user:password")). Given several
// times, all of them are presented. A server that refuses them is not used;
// calls then fail with [zk.ErrAuthFailed]. [Client.AddAuth] adds credentials later.
func WithAuth(scheme string, cred []byte) Option {
	return func(c *config) error {
		auth, err := newAuth(scheme, cred)
		c.Auths = append(c.Auths, auth)
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
	err = c.engine.Do(ctx, op, path, func(l *engine.Connection) error {
		err := c.engine.AddAuth(ctx, l, auth)
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
