package engine

import (
	"bytes"
	"context"
	"slices"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine/wire"
)

// addAuth adds credentials for each connection, unless the client has them already.
func (c *core) addAuth(auth conn.Auth) {
	c.auths.Set(func(list *[]conn.Auth) {
		if !slices.ContainsFunc(*list, func(b conn.Auth) bool { return b.Scheme == auth.Scheme && bytes.Equal(b.Cred, auth.Cred) }) {
			*list = append(slices.Clip(*list), auth)
		}
	})
}

// AddAuth presents credentials on a connection. If the server accepts them, the client also
// presents them on every later connection.
func (c *core) AddAuth(ctx context.Context, l *Connection, auth conn.Auth) error {
	q := wire.AskAuth(auth.Scheme, auth.Cred)
	// It runs on the connection's goroutine, which has exited before the client opens the next
	// connection.
	q.Done = func(_ wire.None, err error) {
		if err == nil {
			c.addAuth(auth)
		}
	}
	_, err := wire.Call(ctx, l.Conn, q)
	return err
}
