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
