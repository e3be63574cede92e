package framework

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/retry"
)

// Client talks to a ZooKeeper ensemble. It is Curator's CuratorFramework.
//
// Operations wait for a connection if there is none, are repeated under the client's policy as long as
// [retry.Retryable] allows, and return at once when ctx is done or the client is closed. A write that was
// carried out and whose reply was lost is sent again, and may then fail because of itself: a Set with a version
// with zk.ErrBadVersion, a Create with zk.ErrNodeExists ([Protected] avoids that), a Multi with either.
//
// Errors of operations have the type [*OpError] and wrap what ZooKeeper said, the error of ctx, or [ErrClosed].
// A path that is not valid is [ErrBadPath]. [retry.Unknown] says whether a write that failed may have been
// carried out; the text says so if it was an earlier attempt.
//
// All methods are safe for concurrent use.
type Client struct {
	engine engine.Client
	config *config // not changed after New
}

func init() { engine.Provide(func(client any) engine.Client { return client.(*Client).engine }) }

// New makes a client of the ensemble that servers belong to, and begins to connect. Each server is host:port, or
// host for port 2181; for a connect string see [ParseConnectString]. New does not wait for a connection: see
// [Client.WaitConnected]. Errors are [ErrBadArgument] and [ErrBadPath]; nothing was sent then.
//
// Whoever makes a client must [Client.Close] it.
func New(servers []string, opts ...Option) (*Client, error) {
	cfg := defaults()
	if err := opt.Apply(&cfg, opts); err != nil {
		return nil, err
	}
	switch {
	case len(servers) > 0 && cfg.Servers != nil:
		return nil, fmt.Errorf("%w: both servers and a server list", ErrBadArgument)
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
	if o := combine(cfg.observers); o != nil {
		cfg.observer = o
		cfg.Operation = func(ctx context.Context, op engine.Operation) { o.Operation(ctx, OperationEvent(op)) }
		cfg.Changed = func(from, to connstate.State) { o.State(StateEvent{From: from, To: to}) }
	}
	c := engine.New(cfg.Config)
	c.Start()
	return &Client{c.In(cfg.namespace), &cfg}, nil
}

// Close ends the session; if a server can be reached, its ephemeral nodes are deleted at once. Every call returns
// [ErrClosed], holds of locks end with the same cause, and Close waits for every goroutine of the client except for
// those of state listeners: one call of each may be running, or about to begin, when it returns. It may be called any
// number of times, also by a listener; it always returns nil.
//
// Closing a view from [Client.Namespace] closes its client, and all other views.
func (c *Client) Close() error {
	c.engine.Close()
	return nil
}

// Namespace returns a view of the client with another namespace, on the same
// session. Empty means the real root. Errors are [ErrBadArgument] and [ErrBadPath].
func (c *Client) Namespace(ns string) (*Client, error) {
	if err := validateNamespace(ns); err != nil {
		return nil, err
	}
	return &Client{c.engine.In(ns), c.config}, nil
}

// State is the state of the connection. The zero State means not connected yet, or closed. A client that
// has never reached a server is Suspended after the connection timeout, and Lost after the session timeout, or at once if that is
// shorter.
func (c *Client) State() connstate.State { return c.engine.State() }

// Listen calls f with every new state, in order, one at a time, on a goroutine of the client, until remove is
// called. It does not call f with the present state. f may block, and may call the client. A listener that is
// slow, blocks or panics delays nobody else; a panic is logged. If states pile up, some are left out, but never
// [connstate.Lost] or the latest. Errors are [ErrBadArgument] if f is nil, and [ErrClosed].
func (c *Client) Listen(f func(connstate.State)) (remove func(), err error) {
	remove, err = c.engine.Listen(f)
	return remove, opError("listen", "/", err)
}

// ErrorPolicy is the policy of recipes that are not given another: see [WithErrorPolicy].
func (c *Client) ErrorPolicy() connstate.ErrorPolicy { return c.config.errorPolicy }

// DefaultData is what nodes hold that are created without data of their own.
func (c *Client) DefaultData() []byte { return slices.Clone(c.config.data) }

func (c *Client) orDefault(data []byte) []byte {
	if data == nil {
		return c.config.data
	}
	return data
}

// RetryPolicy is the policy under which operations are repeated.
func (c *Client) RetryPolicy() retry.Policy { return c.config.Policy }

// Logger is what [WithLogger] set; recipes log there too. It is never nil.
func (c *Client) Logger() *slog.Logger { return c.config.Log }

// Observer combines all observers that [WithObserver] has set. It is nil if there is none. Otherwise none of its
// functions is nil, so a recipe of your own can report as well:
//
//	if o := client.Observer(); o != nil {
//		ctx = o.Acquiring(ctx, framework.AcquiringEvent{Path: path, Name: "lock-"})
//	}
//
// It must not be changed.
func (c *Client) Observer() *Observer { return c.config.observer }

// WaitConnected returns when there is a connection, however long that takes. Errors are that of ctx, which also
// wraps zk.ErrNoServer if it had to wait, [ErrClosed], and zk.ErrAuthFailed if a server refuses our
// credentials. It is Curator's blockUntilConnected.
func (c *Client) WaitConnected(ctx context.Context) error {
	return opError("connect", "/", c.engine.WaitConnected(ctx))
}
