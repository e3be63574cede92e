package framework

import (
	"context"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/proto"
)

// Identity is how a server knows a client: User is the address for "ip", and the user, without a password, for "digest".
type Identity struct{ Scheme, User string }

// WhoAmI returns the identities that the client's connection has on its server, by [WithAuth], [Client.AddAuth], a certificate,
// or its address. It is ZooKeeper's whoAmI.
//
// The error is [ErrUnimplemented] if the server cannot say: ZooKeeper before 3.7, and a ClickHouse Keeper, which is not asked.
func (c *Client) WhoAmI(ctx context.Context) ([]Identity, error) {
	return asked(ctx, c, "whoAmI", "/", func(string) engine.Request[[]Identity] {
		return engine.Request[[]Identity]{Op: proto.OpWhoAmI, Frame: conn.Begin(0), Parse: func(d *proto.Decoder) []Identity {
			var r proto.WhoAmIResponse
			r.Decode(d)
			list := make([]Identity, len(r.Identities))
			for i, identity := range r.Identities {
				list[i] = Identity(identity)
			}
			return list
		}}
	})
}
