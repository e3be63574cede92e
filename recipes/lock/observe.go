package lock

import (
	"cmp"
	"context"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
)

// Observer is a set of functions that the locks of a client call, for metrics, traces and logs: see
// [WithObserver]. Any of them may be nil, and later versions may add more.
//
// The functions are called on the goroutine that does the work, which waits for them, and on many
// goroutines at a time: they must be quick and safe for concurrent use. They may call the client,
// but locks that they acquire are observed as well. [framework.Client.Close] may wait for them, so
// they must not call it.
//
// A panic is not caught. If the caller of a lock recovers from one, no lock is held, and no node of
// a lock remains.
//
// Each function gets the context of its acquire or hold, with its values. The context may be done.
//
// Packages observe/promobserve and observe/otelobserve provide observers.
type Observer struct {
	// Acquiring is called when an acquire starts. The acquire continues with the returned context,
	// which is passed to Joined, Acquired and NotAcquired. It must be ctx or derived from ctx; nil
	// stands for ctx.
	Acquiring func(ctx context.Context, e AcquiringEvent) context.Context

	// Joined is called when the acquire has a node in the queue: a new one, or with [WithRetention]
	// a kept one. One acquire can have several, since a waiter that loses its session queues again,
	// or none.
	Joined func(ctx context.Context, e JoinedEvent)

	// Acquired is called when a lock was acquired, but not on re-entry. The hold's context and the
	// context of Ended have the values of the returned context, which must be ctx or derived from
	// ctx; nil stands for ctx.
	Acquired func(ctx context.Context, e AcquiredEvent) context.Context

	// NotAcquired is called when an acquire failed. Each call of Acquiring is followed by one of
	// either Acquired or NotAcquired.
	NotAcquired func(ctx context.Context, e NotAcquiredEvent)

	// Ended is called once for each call of Acquired: after the hold's context is cancelled, and
	// before a release is sent to the server. After a loss it is called on a separate goroutine,
	// for which neither another holder nor Client.Close waits.
	Ended func(ctx context.Context, e EndedEvent)
}

// AcquiringEvent is the start of an acquire. A recipe of several locks reports each of them.
//
// A semaphore reports each lease, at <path>/leases, with the whole wait for it. Its queue is not
// reported. An AcquireN that fails is reported as one event.
type AcquiringEvent struct {
	Path string // path of the lock, as the caller wrote it
	Name string // name of the lock's nodes, such as "lock-", which differs between kinds of locks on one path
}

// JoinedEvent describes a node of an acquire in a lock's queue.
type JoinedEvent struct {
	Path, Name string // see AcquiringEvent
	Ahead      int    // nodes ahead of the new one; -1 if it is not known
}

// AcquiredEvent describes an acquire that succeeded.
type AcquiredEvent struct {
	Path, Name string        // see AcquiringEvent
	Node       string        // path of the node
	Waited     time.Duration // time since Acquiring
}

// NotAcquiredEvent describes an acquire that failed.
type NotAcquiredEvent struct {
	Path, Name string        // see AcquiringEvent
	Waited     time.Duration // time since Acquiring
	Err        error         // such as ErrNotAcquired or the error of a context; the caller's wraps it
}

// EndedEvent describes a hold that was released or lost.
type EndedEvent struct {
	Path, Name string        // see AcquiringEvent
	Node       string        // path of the node
	Held       time.Duration // time since the lock was acquired
	Cause      error         // the cause of the hold's context: ErrReleased, or why it was lost
}

// WithObserver is an option of [framework.New]. It reports to o the events of all locks of the
// client, including the locks in elections, semaphores and other recipes. Several observers are
// called in the order of the options.
func WithObserver(o Observer) framework.Option {
	return engine.Configure[framework.Option](func(c *engine.Config) {
		if c.Settings == nil {
			c.Settings = make(map[any]any)
		}
		before, _ := c.Settings[observerKey{}].(*Observer)
		c.Settings[observerKey{}] = before.and(o)
	})
}

type observerKey struct{} // for an *Observer of which no function is nil

// observerOf returns the observer of a client, or nil if there is none.
func observerOf(client *framework.Client) *Observer {
	o, _ := engine.Of(client).Setting(observerKey{}).(*Observer)
	return o
}

// and returns an Observer that calls o, if there is one, and then next. None of its functions is
// nil.
func (o *Observer) and(next Observer) *Observer {
	if o == nil {
		o = new(Observer)
	}
	return &Observer{
		Acquiring:   through(o.Acquiring, next.Acquiring),
		Joined:      both(o.Joined, next.Joined),
		Acquired:    through(o.Acquired, next.Acquired),
		NotAcquired: both(o.NotAcquired, next.NotAcquired),
		Ended:       both(o.Ended, next.Ended),
	}
}

// both returns a function that calls functions one after the other, with the same context.
func both[E any](functions ...func(context.Context, E)) func(context.Context, E) {
	return func(ctx context.Context, e E) {
		for _, f := range functions {
			if f != nil {
				f(ctx, e)
			}
		}
	}
}

// through returns a function that calls functions one after the other. Each is called with the
// context that the one before has returned.
func through[E any](functions ...func(context.Context, E) context.Context) func(context.Context, E) context.Context {
	return func(ctx context.Context, e E) context.Context {
		for _, f := range functions {
			if f == nil {
				continue
			}
			if next := f(ctx, e); next != nil {
				ctx = next
			}
		}
		return ctx
	}
}

// observe notifies the observer, if there is one, of an acquire of q: see locking.Lock.
func observe(ctx context.Context, q *Queue) (observed context.Context, done func(err error, holds ...*Hold) error) {
	o := q.observer
	if o == nil || q.cfg.recipe.Unobserved {
		return ctx, func(err error, holds ...*Hold) error {
			for _, h := range holds {
				if h != nil {
					h.asked = ctx
				}
			}
			return err
		}
	}
	began, e := time.Now(), AcquiringEvent{Path: q.path, Name: q.name}
	first := o.Acquiring(ctx, e)
	return first, func(err error, holds ...*Hold) error {
		waited := time.Since(began)
		if err != nil {
			o.NotAcquired(first, NotAcquiredEvent{Path: q.path, Name: q.name, Waited: waited, Err: err})
			return err
		}
		given := false
		defer func() {
			if !given { // lost, or the observer has panicked
				leave(holds)
			}
		}()
		for i, h := range holds {
			own := first
			if i > 0 {
				own = o.Acquiring(ctx, e)
			}
			h.observe(o.Acquired(own, AcquiredEvent{Path: q.path, Name: q.name, Node: h.Path(), Waited: waited}), o)
			h.asked, h.traced = ctx, true
		}
		for _, h := range holds {
			err = cmp.Or(err, h.Err())
		}
		given = err == nil
		return err
	}
}

// observe has o notified of the end of the first hold of a term, which the caller does not have
// yet, and gives the hold the values of ctx.
func (h *Hold) observe(ctx context.Context, o *Observer) {
	t, n := h.term, h.term.node
	ctx = context.WithoutCancel(ctx)
	h.hasValues(ctx)
	notify := func() {
		o.Ended(ctx, EndedEvent{
			Path: n.queue.path, Name: n.queue.name, Node: n.path,
			Held:  time.Since(t.began),
			Cause: t.why(),
		})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if t.cause != nil {
		go notify()
		return
	}
	// Release calls the observer before it sends the deletion. A loss must not: other holders have
	// to be notified, too.
	undepend := t.ended
	t.ended = func() {
		undepend()
		if loss(t.why()) != nil {
			go notify() // ends with o.Ended
		} else {
			notify()
		}
	}
}

// notifyJoined notifies the observer, if there is one, that a node has joined the queue behind this
// many others.
func (q *Queue) notifyJoined(ctx context.Context, ahead int) {
	if o := q.observer; o != nil && !q.cfg.recipe.Unobserved {
		o.Joined(ctx, JoinedEvent{Path: q.path, Name: q.name, Ahead: ahead})
	}
}
