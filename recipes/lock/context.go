package lock

import (
	"context"
	"reflect"
)

// heldContext is a context whose value of a Queue is a hold: see heldIn.
type heldContext struct {
	context.Context
	hold *Hold
}

func (c *heldContext) Value(key any) any {
	if q, ok := key.(*Queue); ok && q == c.hold.term.node.queue {
		return c.hold
	}
	return c.Context.Value(key)
}

// doContext is the parent of the context inside Do. Its values are the holds that held has, then
// the values of the caller's context, then the other values of held.
type doContext struct {
	context.Context // a cancel context, which answers when package context looks for one
	held            context.Context
}

func (c *doContext) Value(key any) any {
	if isHoldKey(key) {
		if h := c.held.Value(key); h != nil {
			return h
		}
	}
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.held.Value(key)
}

func isHoldKey(key any) bool {
	_, ok := key.(*Queue)
	return ok
}

// same reports whether a and b are one context. A user's type may not be comparable.
func same(a, b context.Context) bool { return reflect.ValueOf(a).Comparable() && a == b }
