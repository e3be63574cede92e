package engine

import (
	"bytes"
	"context"
	"slices"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
)

// addAuth adds credentials for each connection, unless they are there already.
func (c *core) addAuth(auth conn.Auth) {
	c.auths.Set(func(list *[]conn.Auth) {
		if !slices.ContainsFunc(*list, func(b conn.Auth) bool { return b.Scheme == auth.Scheme && bytes.Equal(b.Cred, auth.Cred) }) {
			*list = append(slices.Clip(*list), auth)
		}
	})
}

// AddAuth presents credentials on a connection, and on every later one if it accepts them.
func (c *core) AddAuth(ctx context.Context, l *Connection, auth conn.Auth) error {
	r := proto.AuthRequest{Scheme: auth.Scheme, Cred: auth.Cred}
	// done is called on the connection's goroutine, which has ended when the client makes the next connection.
	_, err := Call(ctx, l, Request[None]{Op: proto.OpAuth, Frame: r.Append(conn.Begin(64)), Parse: parseNone, done: func(_ None, err error) {
		if err == nil {
			c.addAuth(auth)
		}
	}})
	return err
}
