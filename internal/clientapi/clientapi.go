// Package clientapi is what package framework offers to the recipes of this module and to nobody else.
// Package framework sets the variables. A client is a *framework.Client.
package clientapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/retry"
)

// ChildrenWatch are the functions of a watch on the children of a node. They are called on the
// connection's goroutine, in the order of the connection, and must not block.
type ChildrenWatch struct {
	// List is called once, with the answer to the list that follows the watch. Events that came before it are
	// contained in it, and all later ones are not.
	List func(names []string, stat *zk.Stat, err error)

	// Event is called with every event about the node and all nodes below it.
	Event func(zk.Event)

	// End is called once, when the connection has ended, unless the watch was removed before.
	End func()
}

// MayPass reports whether an operation that failed with err may succeed later in a session that lives. So it may after
// zk.ErrAuthFailed, which retry.Retryable does not count: the next server, or the same later, may take the credentials. Until
// then operations fail at once, and nothing is sent: pause.
func MayPass(err error) bool { return retry.Retryable(err) || errors.Is(err, zk.ErrAuthFailed) }

// RefusedPause is how long to wait after an error that may pass before the next try: retries may be without a pause.
const RefusedPause = 100 * time.Millisecond

// Hints are how a single operation is to be carried out.
type Hints struct {
	// Sent is called when a create or delete has been written to the network, before its answer, and again if the
	// request is repeated: for a request that is to follow at once. ZooKeeper answers the requests of a
	// session in order. It must not block.
	Sent func()

	// Once has a Multi, a Set or a Delete sent once only: it is not repeated when its outcome is unknown.
	Once bool

	// Certain has DeleteGuaranteed return that it found the node only if it has removed it for certain: not if the node
	// is missing after a try that was not answered.
	Certain bool

	// Replaces is the path of a node that a protected create deletes in the same transaction. If it does not exist the
	// create fails with zk.ErrNoNode.
	Replaces string
}

type hintsKey struct{}

// WithHints returns a context with which operations are carried out as hints say.
func WithHints(ctx context.Context, hints Hints) context.Context {
	return context.WithValue(ctx, hintsKey{}, hints)
}

// HintsOf returns the hints of a context.
func HintsOf(ctx context.Context) Hints {
	hints, _ := ctx.Value(hintsKey{}).(Hints)
	return hints
}

var (
	// WatchChildren sets a recursive persistent watch on path and lists the children of path, both on the
	// same connection. It makes one try and returns when the list has been answered; a missing path is
	// no error of WatchChildren. remove ends the watch and does not wait.
	WatchChildren func(ctx context.Context, client any, path string, w ChildrenWatch) (remove func(), err error)

	// Read asks for the data and the stat of the node at a valid path, and does not wait. f is called once. While the client
	// is connected and has no observer it is asked once, and f is called on the connection's goroutine, or within Read if
	// the connection has just ended. It must not block. Otherwise Read is Get with ctx, on another goroutine.
	Read func(ctx context.Context, client any, path string, f func(data []byte, stat *zk.Stat, err error))

	// DeleteSoon is DeleteGuaranteed of a node at a valid path, of the context's session, and does not wait. While the
	// session is connected and the client has no observer, the delete has its place in the connection's order when
	// DeleteSoon returns, and f is called on the connection's goroutine, or within DeleteSoon if the connection has
	// just ended. f is called once, with what DeleteGuaranteed returns, and must not block.
	DeleteSoon func(ctx context.Context, client any, path string, f func(found bool, err error))

	// Sleep waits for d, and less long if the client is closed: whatever is asked of it next says so. The error is that of ctx.
	Sleep func(ctx context.Context, client any, d time.Duration) error

	// Values is a place for what recipes keep per client. All views of a client with other namespaces share it.
	Values func(client any) *sync.Map

	// WithoutNudges is a framework.Option: see "Nudges" in internal/conn. It is for measurements.
	WithoutNudges any

	// RealPath is the path on the server, namespace included.
	RealPath func(client any, path string) string

	// DefaultACL is the ACL that the client gives to a node that it creates at path.
	DefaultACL func(client any, path string) []zk.ACL
)
