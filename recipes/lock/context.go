package lock

import (
	"context"
	"reflect"
	"sync"
	"unique"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
)

// A context carries the holds that it comes from, by their places. That is how Acquire finds that
// its caller would wait for itself.
//
//	what                       carries
//	Hold.Context               the hold, and what Acquire's context carried
//	Group.Context              the holds of the group, and what the context of the acquire carried
//	the context inside Do      what the holder's context carries, then what the context of Do does
//	Outside                    nothing
//	without                    no hold at one place

// place is what makes two Queues one for a caller: the same nodes of the same client. Queues of
// several clients at one path are several locks for a caller, as for the servers. So are Queues
// with several names, such as a mutex and a read/write lock.
type place struct {
	client *sync.Map // the values of the client, which it shares with its views
	path   string    // of the real tree
	name   string
}

// placeKey is the key of a hold in a context.
type placeKey = unique.Handle[place]

func newPlace(client *framework.Client, path, name string) placeKey {
	e := engine.Of(client)
	return unique.Make(place{e.Values(), e.Real(path), name})
}

func isPlace(key any) bool {
	_, ok := key.(placeKey)
	return ok
}

// heldContext carries a hold.
type heldContext struct {
	context.Context
	hold *Hold
}

func (c *heldContext) Value(key any) any {
	if p, ok := key.(placeKey); ok && p == c.hold.term.node.queue.place {
		return c.hold
	}
	return c.Context.Value(key)
}

// doContext is the parent of the context inside Do. Its values are the holds that held carries,
// then the values of the caller's context, then the other values of held.
type doContext struct {
	context.Context // a cancel context, which answers when package context looks for one
	held            context.Context
}

func (c *doContext) Value(key any) any {
	if isPlace(key) {
		if h := c.held.Value(key); h != nil {
			return h
		}
	}
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.held.Value(key)
}

// Outside returns ctx without the holds from which it derives: Acquire with it queues, as from
// outside of all locks. Its deadline, its cancellation and its other values are the same.
//
// It is for work that is started inside a hold and outlives it, such as a goroutine that acquires
// the same lock later. With context.WithoutCancel(ctx) alone, Acquire returns [ErrHeld] or the
// lock, depending on when the hold ends.
//
//	go next(lock.Outside(context.WithoutCancel(ctx)))
//
// A caller that still holds the lock, and waits for such work, waits for itself.
func Outside(ctx context.Context) context.Context { return outsideContext{ctx} }

type outsideContext struct{ context.Context }

func (c outsideContext) Value(key any) any {
	if isPlace(key) {
		return nil
	}
	return c.Context.Value(key)
}

// without returns ctx without the holds at the place of a Queue.
func without(ctx context.Context, q *Queue) context.Context { return &withoutContext{ctx, q.place} }

type withoutContext struct {
	context.Context
	place placeKey
}

func (c *withoutContext) Value(key any) any {
	if p, ok := key.(placeKey); ok && p == c.place {
		return nil
	}
	return c.Context.Value(key)
}

// same reports whether a and b are one context. A user's type may not be comparable.
func same(a, b context.Context) bool { return reflect.ValueOf(a).Comparable() && a == b }
