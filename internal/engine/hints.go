package engine

import "context"

// Hints are how a single operation is to be carried out. They are in a context since they pass through functions of others: Sent
// and Replaces through the Create of a driver, Once through reads that are followed.
type Hints struct {
	// Sent is called when a create has been written to the network, before its answer, and again if the
	// request is repeated: for a request that is to follow at once. ZooKeeper answers the requests of a
	// session in order. It must not block.
	Sent func()

	// Once has an operation tried once, whatever the retry policy is: it is not repeated when its outcome is unknown.
	Once bool

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
