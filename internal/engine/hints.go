package engine

import "context"

// Hints are how a single operation is to be carried out.
type Hints struct {
	// Sent is called when a create has been written to the network, before its answer, and again if the
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
