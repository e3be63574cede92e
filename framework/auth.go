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

// WithAuth presents credentials on every connection before any other request, for example
// WithAuth("digest", []byte("user:password")). It may be passed several times, once for each
// credential. The client does not use a server that refuses the credentials, and operations fail
// with zk.ErrAuthFailed.
func WithAuth(scheme string, cred []byte) Option {
	return func(c *config) error {
		auth, err := newAuth(scheme, cred)
		c.Auths = append(c.Auths, auth)
		return err
	}
}

// AddAuth presents credentials on the current connection and on every later connection, for the
// client and all its views. Operations that start after AddAuth has returned have the rights of the
// credentials. It is ZooKeeper's addAuthInfo.
//
// A server that refuses the credentials closes the connection, which cancels holds under
// [connstate.SuspendedEndsHold]. The credentials are not presented again. After another error for
// which [retry.Unknown] reports true, they may still be presented on later connections.
//
// Errors are
//   - zk.ErrAuthFailed if the server refuses these credentials, or the client's earlier
//     credentials;
//   - [ErrBadArgument] if scheme is empty;
//   - [ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [ErrSessionLost] if the client is a view of a lost session: see [Client.In];
//   - another of the server's errors, such as [ErrAuthRequired].
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
