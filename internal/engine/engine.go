// Package engine is the client: sessions, attempts, background work. Package framework adds
// options, types and documentation for users. The recipes of this module use it where they need the
// one order of answers and events on a connection.
//
//	link, err := engine.Of(client).Link(ctx)
//	remove := link.Watch("/a", wire.Tree, onEvent, onAnswer) // sent first
//	link.Children("/a", onList)                              // sent second, answered second
//	<-link.Down() // no answer and no event follows
//
// # One order
//
// A server carries out the requests of a connection in the order in which they were sent, and sends
// answers and events in the order of its transactions. Requests that it rejects up front, such as
// unknown operations, are answered out of order. So on one Link:
//
//   - an answer after an event is at least as new as the event;
//   - an event after an answer is newer than the answer;
//   - "no such node" means that nothing existed below that path at that instant.
//
// All functions are called on the connection's goroutine, one at a time, in that order. They must
// not block and must not call a Link: they pass their arguments to another goroutine. A function of
// a request is called exactly once, even if the connection was lost: after Down is closed, or
// inside the call if nothing was sent.
//
// # Two floors
//
//	Client ── core ── Session ── Connection      this package: servers, retries, debts
//	  ╰────── Link ─────────────────╯ │
//	────────────────────────────────  │
//	                              wire.Conn      requests, watches, their order
//	                              conn.Conn      one TCP connection
//
// Package wire does not know this one: [wire.Host] is what it needs of a session. The paths of a
// Client and a Link are in a namespace. The paths of core, Session and everything below are the
// servers'.
package engine

import (
	"log/slog"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/retry"
)

// Client is the internal API of a framework.Client for recipes. All views of a client share one
// core. All methods are safe for concurrent use.
type Client struct {
	*core
	namespace string
	session   *Session // operations run in it or fail; nil: in any session
	once      bool     // see Once
	plain     bool     // see Uncompressed
	sent      *func()  // see Sent; nil: none
	owing     **Debt   // see Owing; nil: nowhere
}

// Package framework sets these functions in its init. So recipes of this module reach the Client
// inside a *framework.Client, and no exported name of package framework has an internal type.
var (
	// Inner returns the Client inside a *framework.Client.
	Inner func(client any) Client

	// Outer returns a new *framework.Client around a Client.
	Outer func(c Client) any

	// CreationOf returns what a []framework.CreateOption asks for, or why it is invalid.
	CreationOf func(opts any) (Creation, error)

	// CheckOp returns why Multi of a *framework.Client would refuse an operation.
	CheckOp func(client, op any) error
)

// Of returns the [Client] inside a *framework.Client. It panics for any other type.
func Of(client any) Client { return Inner(client) }

// Below returns the client with another namespace, which must be valid.
func (c Client) Below(namespace string) Client {
	c.namespace = namespace
	return c
}

// In returns a view whose operations run in session s or fail. If s is nil or another client's,
// they fail with opt.ErrBadArgument.
func (c Client) In(s *Session) Client {
	if c.session = s; s == nil {
		c.session = new(Session)
	}
	return c
}

// Once returns a view of a *framework.Client whose operations are sent once, whatever the retry
// policy: an operation of unknown outcome is not retried.
func Once[P any](client P) P {
	return viewOf(client, func(c *Client) { c.once = true })
}

// Uncompressed returns a view of a *framework.Client that does not compress data. It is for nodes
// of a protocol, which clients with and without compression read.
func Uncompressed[P any](client P) P {
	return viewOf(client, func(c *Client) { c.plain = true })
}

// Sent returns a view of a *framework.Client that calls f when a create has been written to the
// network, before its answer, and again if the request is repeated. f can send a request that
// follows at once, since ZooKeeper answers the requests of a session in order. f must not block.
func Sent[P any](client P, f func()) P {
	return viewOf(client, func(c *Client) { c.sent = &f })
}

// Owing returns a view of a *framework.Client whose protected creates write the debt of the created
// node to d. Close deletes the node until the caller calls [Debt.Settle]. A second create settles
// the debt of the first.
func Owing[P any](client P, d **Debt) P {
	return viewOf(client, func(c *Client) { c.owing = d })
}

// viewOf returns a copy of a client whose engine is changed.
func viewOf[P any](client P, change func(*Client)) P {
	c := Inner(client)
	change(&c)
	return Outer(c).(P)
}

// Real returns the path on the server, namespace included.
func (c Client) Real(path string) string {
	if c.namespace == "" {
		return path
	}
	if path == "/" {
		return "/" + c.namespace
	}
	return "/" + c.namespace + path
}

// RealNew returns the server's path of a node to be created. It maps "/", a sequential node without
// a name, to a path inside the namespace.
func (c Client) RealNew(path string) string {
	if path == "/" && c.namespace != "" {
		return "/" + c.namespace + "/"
	}
	return c.Real(path)
}

// Unreal converts a server's path to the caller's. It is the inverse of [Client.Real]. A path
// outside the namespace is returned unchanged.
func (c Client) Unreal(path string) string {
	if c.namespace == "" {
		return path
	}
	rest, found := strings.CutPrefix(path, "/"+c.namespace)
	switch {
	case found && rest == "":
		return "/"
	case found && rest[0] == '/':
		return rest
	}
	return path
}

// ACL returns the ACL of a node that is created at path without an ACL.
func (c Client) ACL(path string) []zk.ACL { return c.ACLAt(c.Real(path)) }

// Values returns the store for values that recipes keep for each client. All views of a client
// share it.
func (c Client) Values() *sync.Map { return &c.values }

// Logger returns the logger of the client and its recipes.
func (c Client) Logger() *slog.Logger { return c.cfg.Log }

// ErrorPolicy returns the policy of recipes for which no other policy was set.
func (c Client) ErrorPolicy() connstate.ErrorPolicy { return c.cfg.ErrorPolicy }

// Pauses returns the pauses of one operation, by the client's retry policy. They are not safe for
// concurrent use.
func (c Client) Pauses() retry.BackOff {
	pauses := c.cfg.Policy()
	if pauses == nil {
		return retry.Never()()
	}
	pauses.Reset() // a literal of backoff.ExponentialBackOff has no interval before
	return pauses
}

// DefaultData returns the data of recipes' nodes without other data. It is not nil. The caller must
// not change it.
func (c Client) DefaultData() []byte { return c.cfg.Data }

// Setting returns the value that an option of a recipe has set, or nil: see [Config].
func (c Client) Setting(key any) any { return c.cfg.Settings[key] }

// Done returns a channel that is closed when the client is closed.
func (c Client) Done() <-chan struct{} { return c.ctx.Done() }
