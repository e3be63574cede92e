package engine

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
)

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

// AddAuth presents credentials on a connection, and on every later one if it accepts them.
func (c *core) AddAuth(ctx context.Context, l *Connection, auth conn.Auth) error {
	r := proto.AuthRequest{Scheme: auth.Scheme, Cred: auth.Cred}
	// done is called on the connection's goroutine, which has ended when the client makes the next connection.
	_, err := Call(ctx, l, Request[None]{Op: proto.OpAuth, Frame: r.Append(conn.Begin(64)), Parse: parseNone, done: func(_ None, err error) {
		if err == nil {
			c.auths.add(auth)
		}
	}})
	return err
}
