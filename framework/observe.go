package framework

import (
	"context"
	"slices"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/engine"
)

// Observer is a set of functions that the client calls after operations and on state changes: see
// [WithObserver]. Any of them may be nil, and later versions may add more. Packages
// observe/promobserve and observe/otelobserve provide observers for metrics and traces.
type Observer struct {
	// Operation is called when an operation has succeeded or failed. It is not called for
	// operations that fail with ErrBadPath or ErrBadArgument, nor for background work. ctx has the
	// values of the operation's context, and may be done.
	//
	// It is called on the goroutine of the operation, which waits for it. It must return quickly
	// and be safe for concurrent use. It may call the client, but not Close, which may wait for it.
	// A panic on a goroutine of the client terminates the process.
	//
	// Operations for which no caller waits, such as reads of caches, are reported one at a time on
	// a goroutine of the client. They do not wait for Operation.
	Operation func(ctx context.Context, e OperationEvent)

	// State is called on every state change, in order. If states pile up, some are skipped, but
	// never [connstate.Lost] or the latest state. The last call reports that the client was closed.
	// State may call Close, which waits for the last call unless an earlier call has not returned.
	State func(e StateEvent)
}

// OperationEvent describes a completed operation.
type OperationEvent struct {
	// Op is the name that an [OpError] has: "create", "get", "set", and so on. The name of
	// [Client.Session] is "connect".
	Op string
	// Path is the path that the caller passed, without the namespace. If a cache or admin.MultiRead
	// reads several nodes with one request, Path is the path of the first read.
	Path     string
	Began    time.Time
	Duration time.Duration // includes all waits and retries
	Attempts int           // number of attempts, including the first
	Err      error         // nil if the operation succeeded
}

// StateEvent is a change of a connection's state. From is zero in the first event. To is zero in
// the last event, when the client is closed.
type StateEvent struct {
	From, To connstate.State
}

// operations returns a function that reports an operation to all observers, or nil if none of them
// has a function for it.
func operations(observers []Observer) func(ctx context.Context, op engine.Operation) {
	observers = having(observers, func(o Observer) bool { return o.Operation != nil })
	if len(observers) == 0 {
		return nil
	}
	return func(ctx context.Context, op engine.Operation) {
		for _, o := range observers {
			o.Operation(ctx, OperationEvent(op))
		}
	}
}

// states returns a function that reports a change of state to all observers, or nil if none of them
// has a function for it.
func states(observers []Observer) func(from, to connstate.State) {
	observers = having(observers, func(o Observer) bool { return o.State != nil })
	if len(observers) == 0 {
		return nil
	}
	return func(from, to connstate.State) {
		for _, o := range observers {
			o.State(StateEvent{From: from, To: to})
		}
	}
}

func having(observers []Observer, f func(Observer) bool) []Observer {
	return slices.DeleteFunc(slices.Clone(observers), func(o Observer) bool { return !f(o) })
}
