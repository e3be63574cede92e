// Package engine is the client: sessions, connections, requests, watches, and what is done in the background. Package framework
// gives it options, types and documentation, for users. The recipes of this module use it where they need one connection, on which
// answers and events come in one order.
//
//	link, err := engine.Of(client).Link(ctx)
//	remove := link.Watch("/a", engine.Tree, onEvent, onAnswer) // sent first
//	link.Children("/a", onList)                                // sent second, answered second
//	<-link.Down()                                              // now nothing comes any more
//
// # One order
//
// A server carries out the requests of a connection in the order in which they were sent, and sends answers and events in
// the order of its transactions. What it refuses without that, such as an operation that it does not know, it answers at once. So, of what
// is sent on one Link:
//
//   - an answer that comes after an event is at least as new as the event;
//   - what an event says that comes after an answer is newer than the answer;
//   - "no such node" says that nothing was below that path at that instant.
//
// All functions are called on the connection's goroutine, one at a time, in that order. They must not block, and must not call a
// Link: pass on what they were given to a goroutine of your own. A function of a request is called exactly once, also when the connection has ended: after Down is closed,
// or inside the call if nothing was sent.
//
// # Parts
//
//	Client ── core ── Session ── Connection ── one TCP connection (internal/conn)
//	  ╰────── Link ─────────────────╯             its requests and watches
//
// A Client and a Link have the paths of a namespace. core, Session and Connection have those of the servers.
package engine

import (
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"
)

// Client is a framework.Client as recipes see it: what all its views share, and the namespace of one of them. All methods are safe
// for concurrent use.
type Client struct {
	*core
	namespace string
}

// of is set by package framework.
var of func(client any) Client

// Provide is for package framework, which says what [Of] returns.
func Provide(f func(client any) Client) { of = f }

// Of returns the engine of a *framework.Client.
func Of(client any) Client { return of(client) }

// In returns the client with another namespace, which must be valid.
func (c Client) In(namespace string) Client { return Client{c.core, namespace} }

// Real is the path on the server, namespace included.
func (c Client) Real(path string) string {
	if c.namespace == "" {
		return path
	}
	if path == "/" {
		return "/" + c.namespace
	}
	return "/" + c.namespace + path
}

// RealNew is Real for a node to be created: "/" is then a sequential one without a name, which
// belongs into the namespace and not beside it.
func (c Client) RealNew(path string) string {
	if path == "/" && c.namespace != "" {
		return "/" + c.namespace + "/"
	}
	return c.Real(path)
}

// Unreal turns a server's path into the caller's: the inverse of Real. A path
// outside the namespace stays as it is.
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

// ACL is what a node gets that the client creates at path without an ACL.
func (c Client) ACL(path string) []zk.ACL { return c.ACLAt(c.Real(path)) }

// Values is a place for what recipes keep for each client. All namespace views of a client share it.
func (c Client) Values() *sync.Map { return &c.values }

// Done is closed when the client is closed.
func (c Client) Done() <-chan struct{} { return c.ctx.Done() }
