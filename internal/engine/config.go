package engine

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/retry"
)

// Config configures a client. The options of package framework set it. All functions must be safe
// for concurrent use, and return when their context is done.
type Config struct {
	Connecting
	Events

	SessionTimeout    time.Duration
	ConnectionTimeout time.Duration // how long each attempt of an operation waits for a connection
	AwaitHandshake    bool          // after ConnectionTimeout, also wait for a handshake in progress
	ExpirationPercent int
	Policy            retry.Policy
	ErrorPolicy       connstate.ErrorPolicy // policy of recipes for which no other policy was set
	Data              []byte                // data of nodes that are created with nil data; read-only
	Containers        bool                  // parents may be containers
	Compress          bool                  // all data of callers are compressed
	MaxDecoded        int                   // bytes of decompressed data
	Log               *slog.Logger

	ACL func(path string) []zk.ACL // nil: no restriction; path is the path on the server
	// Operation observes each completed operation; nil: no observer.
	Operation  func(ctx context.Context, op Operation)
	Changed    func(from, to connstate.State) // see [session.Machine.Observe]; nil: no observer
	Nudges     bool                           // send nudges (see package conn); false only for measurements
	MaxRequest int                            // bytes

	Settings map[any]any // values of recipes' own options; keys have types of the recipes
}

// Connecting configures how servers are found, and how connections to them are opened.
type Connecting struct {
	Servers  func(ctx context.Context) ([]string, error)
	Tracking bool // follow the ensemble's configuration
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
	Resolve  func(ctx context.Context, host string) ([]string, error)   // nil: Dial resolves names
	TLS      func(host string) *tls.Config                              // nil: no TLS
	SASL     func(ctx context.Context, host string) (*conn.SASL, error) // begins an exchange; nil: none
	Auths    []conn.Auth
}

// Events are functions that are called with each event of a client, in order. They must neither
// block nor call the client.
type Events struct {
	// State is called with each step of a connection, as a state of go-zookeeper:
	// zk.StateConnecting before a server is dialed, StateConnected when it has accepted the
	// connection, StateHasSession when it has granted the session and before operations use it,
	// StateDisconnected when the connection was lost, and StateExpired when the session has
	// expired. session is the session's id with StateHasSession.
	State func(state zk.State, server string, session int64)
	// Node is called with each event that a server sends, before its watches fire.
	Node func(zk.Event)
}

// Operation is a completed operation: a framework.OperationEvent.
type Operation struct {
	Op       string
	Path     string
	Began    time.Time
	Duration time.Duration
	Attempts int
	Err      error
}

// Engine returns c. [Configure] finds the Config by this method.
func (c *Config) Engine() *Config { return c }

// Configure returns a framework.Option that changes the Config, for settings without a public
// option:
//
//	calm := engine.Configure[framework.Option](func(c *engine.Config) { c.Nudges = false })
//	framework.New(servers, calm)
func Configure[O ~func(C) error, C interface{ Engine() *Config }](change func(*Config)) O {
	return func(c C) error {
		change(c.Engine())
		return nil
	}
}
