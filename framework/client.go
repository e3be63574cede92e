package framework

import (
	"context"
	"fmt"
	"net"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/opt"
)

// Client is a client of a ZooKeeper ensemble. It is Curator's CuratorFramework. All methods are
// safe for concurrent use.
//
// An operation waits until the client is connected. After a lost connection or a temporary refusal
// it is retried under the client's policy. It returns at once when ctx is done or the client is
// closed.
//
// Errors of operations are [*OpError] values. They wrap the error of ZooKeeper, the error of ctx,
// [ErrClosed], or [ErrBadPath] for an invalid path. The package comment describes writes whose
// reply was lost.
type Client struct {
	engine engine.Client
}

// Engine is for recipes of this module.
func (c *Client) Engine() *engine.Client { return &c.engine }

// New creates a client of the ensemble and connects in the background: see [Client.WaitConnected].
// The caller must call [Client.Close].
//
// Each server is host:port, or host for port 2181; for a connect string see [ParseConnectString].
// Errors are [ErrBadArgument] and [ErrBadPath].
func New(servers []string, opts ...Option) (*Client, error) {
	cfg := defaults()
	if err := opt.Apply(&cfg, opts); err != nil {
		return nil, err
	}
	switch {
	case len(servers) > 0 && cfg.Servers != nil:
		return nil, fmt.Errorf("%w: servers and WithServerList exclude each other", ErrBadArgument)
	case len(servers) == 0 && cfg.Servers == nil:
		return nil, fmt.Errorf("%w: no servers", ErrBadArgument)
	case cfg.Servers == nil:
		list, err := withPorts(servers)
		if err != nil {
			return nil, err
		}
		cfg.Servers = func(context.Context) ([]string, error) { return list, nil }
	}
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
		if cfg.Resolve == nil {
			cfg.Resolve = net.DefaultResolver.LookupHost
		}
	}
	if cfg.tls != nil {
		cfg.TLS = cfg.tlsConfig
	}
	cfg.Operation, cfg.Changed = operations(cfg.observers), states(cfg.observers)
	c := engine.New(cfg.Config)
	c.Start()
	return &Client{c.Below(cfg.namespace)}, nil
}

// Close closes the session and waits for all goroutines of the client except state listeners. If a
// server can be reached, the ephemeral nodes are deleted at once. Operations return [ErrClosed],
// which is also the cause of the contexts of holds.
//
// Close always returns nil. It may be called several times, and by a listener. Closing a view
// closes its client and all other views.
func (c *Client) Close() error {
	c.engine.Close()
	return nil
}

// Namespace returns a view of the client with another namespace, on the same session. The empty
// namespace is the root of the servers. Errors are [ErrBadArgument] and [ErrBadPath].
func (c *Client) Namespace(ns string) (*Client, error) {
	if err := validateNamespace(ns); err != nil {
		return nil, err
	}
	return &Client{c.engine.Below(ns)}, nil
}

// In returns a view of the client whose operations run in session s, or fail with [ErrSessionLost]
// after it has expired. Ephemeral nodes that the view creates belong to s. If s is nil or another
// client's, each operation fails with [ErrBadArgument].
func (c *Client) In(s *Session) *Client {
	return &Client{c.engine.In(s.engine())}
}

// State returns the state of the connection: see package connstate. It is zero before the first
// connection and after Close.
func (c *Client) State() connstate.State { return c.engine.State() }

// Listen calls f with every new state, in order, on a goroutine of the client, until remove is
// called. f is not called with the current state. Errors are [ErrBadArgument] if f is nil, and
// [ErrClosed].
//
// Calls of one listener never overlap. f may block and may call the client. A listener that blocks
// or panics delays no other; a panic is logged. If states pile up, some are skipped, but never
// [connstate.Lost] or the latest one.
func (c *Client) Listen(f func(connstate.State)) (remove func(), err error) {
	remove, err = c.engine.Listen(f)
	return remove, opError("listen", "/", err)
}

func (c *Client) orDefault(data []byte) []byte {
	if data == nil {
		return c.engine.DefaultData()
	}
	return data
}

// WaitConnected blocks until the client has a connection. It is Curator's blockUntilConnected.
//
// Errors are
//   - the error of ctx, wrapped with zk.ErrNoServer if WaitConnected had to wait,
//   - [ErrClosed] after Close,
//   - zk.ErrAuthFailed if a server refuses the client's credentials.
func (c *Client) WaitConnected(ctx context.Context) error {
	return opError("connect", "/", c.engine.WaitConnected(ctx))
}
