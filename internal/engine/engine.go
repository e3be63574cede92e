// Package engine is what the recipes of this module are written on, and nobody else: one connection, on which answers and
// events come in one order.
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
// Paths are those of the client's namespace, in requests, answers and events.
package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
)

// Client is a framework.Client as recipes see it. All methods are safe for concurrent use.
type Client interface {
	// Link returns the connection that there is, and waits for one as operations do: for the connection timeout, without a
	// retry. With a context of framework.InSession it is one of that session. The error is that of ctx, framework.ErrClosed,
	// framework.ErrSessionLost, zk.ErrAuthFailed, or wraps zk.ErrNoServer.
	Link(ctx context.Context) (Link, error)

	// Real is the path on the server, namespace included.
	Real(path string) string

	// ACL is what a node gets that the client creates at path without an ACL.
	ACL(path string) []zk.ACL

	// Values is a place for what recipes keep for each client. All namespace views of a client share it.
	Values() *sync.Map

	// GaveUp is the error of a wait that ended with ctx, which must be done: the error and the cause of ctx, then reason,
	// unless it is nil, and zk.ErrNoServer if there is no connection.
	GaveUp(ctx context.Context, reason error) error

	// MayStillCome has a persistent node deleted, in the background: a create was sent in the session of ctx, a context of
	// framework.InSession, and not answered, so the node may be there or be made yet; or it was to be deleted and no server
	// could be reached. wanted reports whether somebody keeps a node at path by now: then it stays. Nobody else may need a
	// persistent node at path until the session is over for the servers as well, since a node does not say who has made it.
	// wanted must not block.
	MayStillCome(ctx context.Context, path string, wanted func() bool)

	// Done is closed when the client is closed.
	Done() <-chan struct{}
}

// Link is one connection of one session. All methods are safe for concurrent use. Two Links are equal if they are the same
// connection.
type Link interface {
	// Session is equal for two links of one session only. Ids are not: a restored ensemble may give one again.
	Session() any

	// Down is closed first of all when the connection ends.
	Down() <-chan struct{}

	// Get, Exists, Children and Delete send one request, once, and do not block. Errors are those of ZooKeeper,
	// zk.ErrNoServer if nothing was sent, and one that wraps zk.ErrConnectionClosed if no answer came.
	Get(path string, done func(data []byte, stat *zk.Stat, err error))
	Exists(path string, done func(stat *zk.Stat, err error))
	Children(path string, done func(names []string, stat *zk.Stat, err error))
	Delete(path string, version int32, done func(err error))

	// CatchUp sends a write that changes nothing. What was committed anywhere before it was sent has been applied by the
	// server, and its events have come, when it is answered. A refusal is an answer, too: err is not nil only if no
	// answer came.
	CatchUp(done func(err error))

	// Watch sets a persistent watch. f is called with each event about the node, or about all nodes below it as well if
	// mode is Tree, until remove is called or the link is down. It may be called before done. err is
	// framework.ErrWatchUnsupported if the server has no such watches.
	Watch(path string, mode Mode, f func(zk.Event), done func(err error)) (remove func())

	// Watched is for servers without persistent watches. It returns a view of the link whose Get, Exists and Children set
	// standard watches, each for one event: a Get or Children that succeeds, and an Exists also of a missing node. f is called with
	// their events, those about lists of children included, until remove is called or the link is down. After an event of type
	// zk.EventNotWatching the node has no watch, as after any other.
	//
	// remove takes the watches from the server, in the background. A ClickHouse Keeper has them until they fire.
	Watched(f func(zk.Event)) (l Link, remove func())
}

// Mode says which nodes a watch covers.
type Mode int32

// The modes of a watch.
const (
	Node Mode = 0 // one node, and the list of its children
	Tree Mode = 1 // a node and all nodes below it; no events about lists
)

// of is set by package framework.
var of func(client any) Client

// Provide is for package framework, which says what [Of] returns.
func Provide(f func(client any) Client) { of = f }

// StandardWatches is a cache.Option: the cache takes its servers for ones without persistent watches. It is for tests.
var StandardWatches any

// Of returns the engine of a *framework.Client.
func Of(client any) Client { return of(client) }

// ErrDone is what a read of [Follow] returns to end it.
var ErrDone = errors.New("done")

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
		if err == nil && l != last && last != nil {
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

// Pauses between tries that fail.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 3 * time.Second
)

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
