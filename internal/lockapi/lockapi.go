// Package lockapi is what package lock offers to the recipes of this module and to nobody else.
package lockapi

import "context"

type tokenKey struct{}

// WithToken returns a context with which a driver's Create can give the fencing token of the node by
// [SetToken]: for a node that takes the place of another one of the same holder. token stays
// as it is if it does not.
func WithToken(ctx context.Context, token *int64) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// SetToken gives the fencing token to whoever called Create with ctx. It must be called before Create returns.
func SetToken(ctx context.Context, token int64) {
	if t, ok := ctx.Value(tokenKey{}).(*int64); ok {
		*t = token
	}
}

// ExpectDeletion sets the cause that is told if somebody else deletes a hold's node from now on, in place of
// lock.ErrNodeDeleted, which cause must wrap. It is for recipes whose holders are asked before that is done. hold is a
// *lock.Hold; the cause is set for all holds of the lease. Package lock sets the variable.
var ExpectDeletion func(hold any, cause error)

// Leave gives holds back that nobody needs any more, in this order. Unlike Release it does not wait for servers that are
// out of reach, and for others not long, however many holds there are; what is left to do goes on in the background. Each
// of holds is a *lock.Hold. Package lock sets the variable.
var Leave func(holds ...any)

// Silence has no observer be told of a *lock.Queue that is a detail of a recipe. It must be called before the queue is used.
var Silence func(queue any)

// Observed tells the observer of an acquire of a *lock.Queue, for a recipe that needs several steps for it. obtain returns the
// holds, each a *lock.Hold; what it acquires of this queue with its context is not reported again. The error is that of obtain, or
// why a hold was lost while the observer was told: then all have been given back. Package lock sets the variable.
var Observed func(ctx context.Context, queue any, obtain func(context.Context) ([]any, error)) error

// Name sets what a lease of a *lock.Queue is called in the log, instead of "lock". It must be called before the queue is used.
var Name func(queue any, noun string)
