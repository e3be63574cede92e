package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/sasl"
)

// WithSASL authenticates each connection by a mechanism of package sasl, before the credentials of
// [WithAuth]. The scheme in ACLs is "sasl".
//
// The client does not use a server that refuses the client, or whose token the mechanism refuses.
// Operations then fail with an error that wraps zk.ErrAuthFailed and contains the mechanism's name.
// A server that closes the connection without an answer counts as unreachable. ClickHouse Keepers
// do that, and old ZooKeepers after a wrong password.
func WithSASL(mechanism sasl.Mechanism) Option {
	start := func(ctx context.Context, host string) (*conn.SASL, error) { return startSASL(ctx, mechanism, host) }
	return opt.Checked(mechanism.Start != nil, func(c *config) { c.SASL = start }, "SASL mechanism %q without Start", mechanism.Name)
}

// startSASL begins an exchange with the server at host.
func startSASL(ctx context.Context, mechanism sasl.Mechanism, host string) (*conn.SASL, error) {
	exchange, err := mechanism.Start(ctx, sasl.Server{Host: host})
	if err == nil && exchange.Next == nil {
		err = errors.New("exchange without Next")
	}
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, zk.ErrNoServer)):
		return nil, fmt.Errorf("SASL %s: %w", mechanism.Name, err)
	case err != nil:
		return nil, fmt.Errorf("SASL %s: %w: %w", mechanism.Name, zk.ErrAuthFailed, err)
	}
	return &conn.SASL{Name: mechanism.Name, First: exchange.First, Next: exchange.Next}, nil
}
