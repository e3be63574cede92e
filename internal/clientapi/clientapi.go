// Package clientapi is what package framework offers to the recipes of this module and to nobody else.
// Package framework sets the variables. A client is a *framework.Client.
package clientapi

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/retry"
)

// MayPass is [retry.MayPass].
func MayPass(err error) bool { return retry.MayPass(err) }

// RefusedPause is how long to wait after an error that may pass before the next try: retries may be without a pause.
const RefusedPause = 100 * time.Millisecond

// Events are functions that are called with what happens to a client, in its order. They must neither block nor call the client.
type Events struct {
	// State is called with each step of a connection, in go-zookeeper's words: zk.StateConnecting before a server is dialed,
	// StateConnected when it was reached, StateHasSession when it has granted the session and before operations use it,
	// StateDisconnected when the connection has ended, and StateExpired when the session is over. session is the session's id
	// with StateHasSession.
	State func(state zk.State, server string, session int64)
	// Node is called with each event that a server sends, before the watches that it is for fire.
	Node func(zk.Event)
}

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
	// Reconfig is Client.Reconfig with the lists as text, where nil is none, and returns the configuration's stat.
	Reconfig func(ctx context.Context, client any, joining, leaving, members []byte, version int64) (*zk.Stat, error)

	// DeleteSoon is DeleteGuaranteed of a node at a valid path, of the context's session, and does not wait. While the
	// session is connected and the client has no observer, the delete has its place in the connection's order when
	// DeleteSoon returns, and f is called on the connection's goroutine, or within DeleteSoon if the connection has
	// just ended. f is called once, with what DeleteGuaranteed returns, and must not block.
	DeleteSoon func(ctx context.Context, client any, path string, f func(found bool, err error))

	// WithoutNudges is a framework.Option: see "Nudges" in internal/conn. It is for measurements.
	WithoutNudges any

	// WithEvents returns a framework.Option. Both functions must be there.
	WithEvents func(Events) any

	// OnFire calls f, once, when a *framework.Watch fires, or at once if it has fired: on the connection's goroutine before later
	// answers are handed out. f must neither block nor call the client. The path of the event is the server's, and session
	// is the *framework.Session that the watch was set in.
	OnFire func(watch any, f func(event zk.Event, session any))
)
