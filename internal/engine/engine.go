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
// the order of its transactions. So, of what is sent on one Link:
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
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
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

// StandardWatches is a cache.Option: the cache takes its servers for ones without persistent watches. It is for tests.
var StandardWatches any

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

// Link returns the connection that there is, and waits for one as operations do: for the connection timeout, without a
// retry. With a context of [InSession] it is one of that session. The error is that of ctx, [ErrClosed],
// [ErrSessionLost], zk.ErrAuthFailed, or wraps zk.ErrNoServer.
func (c Client) Link(ctx context.Context) (Link, error) {
	l, err := c.awaitLink(ctx, c.pinned(ctx), c.cfg.ConnectionTimeout)
	if err != nil {
		return Link{}, err
	}
	return Link{Connection: l, client: c}, nil
}

// Values is a place for what recipes keep for each client. All namespace views of a client share it.
func (c Client) Values() *sync.Map { return &c.values }

// Done is closed when the client is closed.
func (c Client) Done() <-chan struct{} { return c.ctx.Done() }

// GaveUp is the error of a wait that ended with ctx, which must be done: the error and the cause of ctx, then reason,
// unless it is nil, and zk.ErrNoServer if there is no connection.
func (c Client) GaveUp(ctx context.Context, reason error) error {
	err := wait.Err(ctx)
	if reason != nil && !errors.Is(reason, ctx.Err()) {
		err = fmt.Errorf("%w: %w", err, reason)
	}
	if l := c.current().link; l != nil && l.up() || errors.Is(err, zk.ErrNoServer) {
		return err
	}
	return c.unreachable(err)
}

// MayStillCome has a persistent node deleted, in the background: a create was sent in the session of ctx, a context of
// [InSession], and not answered, so the node may be there or be made yet; or it was to be deleted and no server
// could be reached. wanted reports whether somebody keeps a node at path by now: then it stays. Nobody else may need a
// persistent node at path until the session is over for the servers as well, since a node does not say who has made it.
// wanted must not block.
func (c Client) MayStillCome(ctx context.Context, path string, wanted func() bool) {
	c.sweeper.sweep(&unwanted{session: sessionOf(ctx), persistent: true, fixed: c.Real(path), wanted: wanted}, "")
}

// Sleep waits for d, and less long if the client is closed: whatever is asked of it next says so. The error is that of ctx.
func Sleep(ctx context.Context, c Client, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.Done():
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return wait.Err(ctx)
	}
	return nil
}

// Ask sends a request that has no result, and waits for its answer or for ctx.
func Ask(ctx context.Context, send func(done func(error))) error {
	answered := make(chan error, 1)
	send(func(err error) { answered <- err })
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return wait.Err(ctx)
	}
}

// ErrDone is what a read of [Follow] returns to end it.
var ErrDone = errors.New("done")

// Pauses between tries that fail.
const (
	firstPause = RefusedPause
	lastPause  = 3 * time.Second
)

// RefusedPause is how long to wait after an error that may pass before the next try: retries may be without a pause.
const RefusedPause = 100 * time.Millisecond

// Follow calls read on the connection that there is, and again when the channel that it returned is closed, or that connection
// has ended. On another connection than the one before, the server has caught up before read is called, so that read sees
// nothing older. A read that fails with an error that may pass (see [retry.MayPass]) is repeated after a pause.
//
// It returns nil when read returns no channel, or [ErrDone], and otherwise the error with which read failed, or that of [Client.GaveUp] when ctx has ended.
func Follow(ctx context.Context, c Client, read func(ctx context.Context, l Link) (changed <-chan struct{}, err error)) error {
	pauses := wait.Pauses{First: firstPause, Last: lastPause}
	var last Link
	for {
		l, err := c.Link(ctx)
		if err == nil && l != last && last != (Link{}) {
			err = Ask(ctx, l.CatchUp)
		}
		var changed <-chan struct{}
		if err == nil {
			last = l
			changed, err = read(ctx, l)
		}
		switch {
		case err == nil && changed == nil:
			return nil
		case err == nil:
			pauses.Reset()
			select {
			case <-changed:
			case <-l.Down():
			case <-ctx.Done():
			}
		case errors.Is(err, ErrDone):
			return nil
		case ctx.Err() != nil:
		case !retry.MayPass(err):
			return err
		default:
			if Sleep(ctx, c, pauses.Next()) == nil {
				continue
			}
		}
		if ctx.Err() != nil {
			return c.GaveUp(ctx, err)
		}
	}
}
