package framework

import (
	"context"
	"time"

	"github.com/gocurator/curator/connstate"
)

// Observer has functions that are called with what a client and its recipes do, for metrics, traces and logs: see
// [WithObserver]. It is a set of functions, any of which may be nil, as in
// [net/http/httptrace.ClientTrace]; later versions may have more. Packages
// observe/promobserve and observe/otelobserve have ready ones.
//
// Functions are called on the goroutine that does the work, which waits for them, and on many
// goroutines at a time: they must be quick and safe for concurrent use. They may call the client,
// but what they do there is observed as well, and [Client.Close] may wait for them: only State may call it. A panic is not caught, except
// in State: on a goroutine of the client it ends the process. If the caller recovers from one, what he did may be left half done: a lock
// that was just acquired, or released, has its node as long as the session, and with local hand-off or retention nobody else may get it.
//
// The contexts are those of the work that is observed, with their values. They may be done. Operations for which no caller waits, as the
// reads of caches and the deletes of lock.WithAsyncRelease, are reported one after the other on a goroutine of the client, which delays
// none of them, and with a context of the client.
type Observer struct {
	// Operation is called when an operation of the client has ended, also when it failed. It is
	// not called for ErrBadPath and ErrBadArgument, nor for what the client does in the background.
	Operation func(ctx context.Context, e OperationEvent)

	// State is called with each change of the connection's state, in order, and at last with the end, when
	// the client is closed. It is a listener as in [Client.Listen], and may block. Close waits for the call with the end,
	// unless a call before it has not returned.
	State func(e StateEvent)

	// Acquiring is called when somebody begins to acquire a lock. The acquire continues with the context that
	// it returns, and Joined, Acquired and NotAcquired get that context. It must be ctx or made from it; nil
	// stands for ctx.
	Acquiring func(ctx context.Context, e AcquiringEvent) context.Context

	// Joined is called when a node was put into a lock's queue. One acquire can have several, since whoever
	// loses the session while waiting queues again, or none.
	Joined func(ctx context.Context, e JoinedEvent)

	// Acquired is called when a lock was acquired, but not when a holder has re-entered. The hold's context
	// and that of Ended have the values of the context that it returns, which must be ctx or made from it; nil
	// stands for ctx.
	Acquired func(ctx context.Context, e AcquiredEvent) context.Context

	// NotAcquired is called when a lock was not acquired. After each call of Acquiring there is one of
	// either Acquired or NotAcquired.
	NotAcquired func(ctx context.Context, e NotAcquiredEvent)

	// Ended is called, once, when a lock for which Acquired was called has ended: after the holder, and before
	// a release is sent to the server. After a loss it is called on a goroutine of its own, so that nobody waits for
	// Ended; Client.Close does not wait for it either.
	Ended func(ctx context.Context, e EndedEvent)
}

// OperationEvent is an operation of a client that has ended. Op, Path and Err are those of the
// [OpError] that the caller got: Path is as the caller wrote it, without the namespace.
type OperationEvent struct {
	Op       string // "create", "get", "set", ...; "connect" is [Client.Session]
	Path     string // that of the first read if the cache, or admin.MultiRead, reads several nodes with one request
	Began    time.Time
	Duration time.Duration // with all waiting and repeating
	Attempts int           // 1 if nothing had to be repeated
	Err      error         // nil if it succeeded
}

// StateEvent is a change of a connection's state. The first From is the zero State. To is the zero State
// when the client is closed, and nothing follows.
type StateEvent struct {
	From, To connstate.State
}

// AcquiringEvent is the beginning of an acquire. A recipe of several locks reports each of them. A semaphore reports each lease,
// at <path>/leases, with all of the wait for it; its queue is not reported, and
// several leases that are not acquired are one event.
type AcquiringEvent struct {
	Path string // of the lock, as the caller wrote it
	Name string // of the lock's nodes, as in "lock-": it differs for the kinds of locks on one path
}

// JoinedEvent is a node in a lock's queue.
type JoinedEvent struct {
	Path, Name string // as in AcquiringEvent
	Ahead      int    // nodes ahead of ours; -1 if it is not known
}

// AcquiredEvent is a lock that was acquired.
type AcquiredEvent struct {
	Path, Name string        // as in AcquiringEvent
	Node       string        // path of the node
	Waited     time.Duration // since Acquiring
}

// NotAcquiredEvent is a lock that was not acquired.
type NotAcquiredEvent struct {
	Path, Name string        // as in AcquiringEvent
	Waited     time.Duration // since Acquiring
	Err        error         // such as lock.ErrNotAcquired or the error of a context; the caller's wraps it
}

// EndedEvent is a lock that is not held any more.
type EndedEvent struct {
	Path, Name string        // as in AcquiringEvent
	Node       string        // path of the node
	Held       time.Duration // since it was acquired
	Cause      error         // the cause of the hold's context: lock.ErrReleased, or why it was lost
}

// combine makes one of several. It returns nil for none.
func combine(observers []Observer) *Observer {
	if len(observers) == 0 {
		return nil
	}
	return &Observer{
		Operation:   all(observers, func(o Observer) func(context.Context, OperationEvent) { return o.Operation }),
		Joined:      all(observers, func(o Observer) func(context.Context, JoinedEvent) { return o.Joined }),
		NotAcquired: all(observers, func(o Observer) func(context.Context, NotAcquiredEvent) { return o.NotAcquired }),
		Ended:       all(observers, func(o Observer) func(context.Context, EndedEvent) { return o.Ended }),
		Acquiring:   chain(observers, func(o Observer) func(context.Context, AcquiringEvent) context.Context { return o.Acquiring }),
		Acquired:    chain(observers, func(o Observer) func(context.Context, AcquiredEvent) context.Context { return o.Acquired }),
		State: func(e StateEvent) {
			for _, o := range observers {
				if o.State != nil {
					o.State(e)
				}
			}
		},
	}
}

// all calls one function of each observer.
func all[E any](observers []Observer, pick func(Observer) func(context.Context, E)) func(context.Context, E) {
	return func(ctx context.Context, e E) {
		for _, o := range observers {
			if f := pick(o); f != nil {
				f(ctx, e)
			}
		}
	}
}

// chain is all for functions that hand a context on.
func chain[E any](observers []Observer, pick func(Observer) func(context.Context, E) context.Context) func(context.Context, E) context.Context {
	return func(ctx context.Context, e E) context.Context {
		for _, o := range observers {
			if f := pick(o); f != nil {
				if next := f(ctx, e); next != nil {
					ctx = next
				}
			}
		}
		return ctx
	}
}
