package framework

import (
	"context"
	"fmt"
	"net"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/nocopy"
	"github.com/gocurator/curator/internal/opt"
)

// Client is a client of a ZooKeeper ensemble. It is Curator's CuratorFramework. All methods are
// safe for concurrent use.
//
// An operation waits until the client is connected. If the connection is lost or the server refuses
// temporarily, the client retries the operation under its policy. The operation returns at once
// when ctx is done or the client is closed.
//
// The error of an operation is an [*OpError], which wraps the errors that the operation lists. The
// package comment describes retries, and writes whose reply was lost.
type Client struct {
	_ nocopy.Mark

	engine engine.Client
	own    bool // the client is from New; false: a view, which cannot be closed
}

func init() {
	engine.Inner = func(client any) engine.Client { return client.(*Client).engine }
	engine.Outer = func(c engine.Client) any { return &Client{engine: c} }
	engine.CheckOp = func(client, op any) error { _, err := client.(*Client).step(op); return err }
	engine.CreationOf = func(opts any) (engine.Creation, error) { return newCreation("/node", opts.([]CreateOption)) }
}

// New creates a client of the ensemble and connects in the background: see [Client.WaitConnected].
// The caller must call [Client.Close].
//
// Each server is host:port, or host for port 2181. For a connect string see [ParseConnectString].
//
// Errors are
//   - [ErrBadPath] if ZooKeeper does not allow the namespace as a path;
//   - [ErrBadArgument] if a server or another option is invalid, or if there are no servers.
func New(servers []string, opts ...Option) (*Client, error) {
	cfg := defaults()
	if err := opt.Apply(&cfg, opts); err != nil {
		return nil, err
	}
	switch {
	case len(servers) > 0 && cfg.Servers != nil:
		return nil, fmt.Errorf("%w: servers and WithServerList cannot be combined", ErrBadArgument)
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
	return &Client{engine: c.Below(cfg.namespace), own: true}, nil
}

// Close closes the session and waits for all goroutines of the client except state listeners. If
// the client can reach a server, its ephemeral nodes are deleted at once. Operations return
// [ErrClosed].
//
// The contexts of holds are cancelled with the cause ErrClosed. The paths of holds that were not
// released are logged. Close may be called several times, and a listener may call it.
//
// The only error is [ErrBadArgument] for a view ([Client.Namespace], [Client.In]), which stays
// open.
func (c *Client) Close() error {
	if err := c.closable(); err != nil {
		return opError("close", "/", err)
	}
	c.engine.Close()
	return nil
}

// closable returns why the client cannot be closed: views share their client's session.
func (c *Client) closable() error {
	if !c.own {
		return fmt.Errorf("%w: a view of a client, close the client itself", ErrBadArgument)
	}
	return nil
}

// Namespace returns a view of the client with another namespace, on the same session. The empty
// namespace is the root of the servers. [Client.Close] and [Client.Shutdown] refuse a view.
//
// Errors are
//   - [ErrBadArgument] if ns begins with a slash;
//   - [ErrBadPath] if ZooKeeper does not allow one of its elements.
func (c *Client) Namespace(ns string) (*Client, error) {
	if err := validateNamespace(ns); err != nil {
		return nil, err
	}
	return &Client{engine: c.engine.Below(ns)}, nil
}

// In returns a view of the client whose operations run in session s. After s has expired, they fail
// with [ErrSessionLost], and so do recipes of the view, which wait for no other session.
//
// Ephemeral nodes that the view creates belong to s. If s is nil or another client's, each
// operation fails with [ErrBadArgument].
func (c *Client) In(s *Session) *Client {
	return &Client{engine: c.engine.In(s.engine())}
}

// State returns the state of the connection: see package connstate. It returns zero before the
// first connection and after Close.
func (c *Client) State() connstate.State { return c.engine.State() }

// Listen calls f with every new state, in order, on a goroutine of the client, until remove is
// called. f is not called with the current state.
//
// Calls of one listener never overlap. f may block and may call the client. A listener that blocks
// or panics delays no other listener. A panic is logged. If states pile up, some are skipped, but
// never [connstate.Lost] or the latest state.
//
// Errors are
//   - [ErrBadArgument] if f is nil;
//   - [ErrClosed] if the client is closed.
func (c *Client) Listen(f func(connstate.State)) (remove func(), err error) {
	remove, err = c.engine.Listen(f)
	return remove, opError("listen", "/", err)
}

// WaitConnected blocks until the client has a connection. It is Curator's blockUntilConnected.
//
// Errors are
//   - the error of ctx if ctx is done, wrapped with zk.ErrNoServer if WaitConnected had to wait;
//   - [ErrClosed] if the client is closed;
//   - [ErrSessionLost] if the client is a view of a lost session: see [Client.In];
//   - zk.ErrAuthFailed if a server refuses the client's credentials;
//   - [ErrAuthRequired] if a server requires credentials that the client does not have.
func (c *Client) WaitConnected(ctx context.Context) error {
	return opError("connect", "/", c.engine.WaitConnected(ctx))
}
