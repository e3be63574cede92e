package framework

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/engine"
)

// Session is one ZooKeeper session of a client, to which ephemeral nodes, and so locks, belong. A
// client has one session at a time, and creates a new one when the last has ended. All methods are
// safe for concurrent use.
type Session engine.Session

func (s *Session) engine() *engine.Session { return (*engine.Session)(s) }

// ID returns the server's name for the session: the ephemeralOwner of its nodes.
func (s *Session) ID() int64 { return s.engine().ID() }

// Timeout returns the timeout that the servers granted, which may differ from the requested one.
func (s *Session) Timeout() time.Duration { return s.engine().Timeout() }

// Done returns a channel that is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.engine().Done() }

// Err returns nil until the session has ended, and then [ErrSessionLost] or [ErrClosed].
func (s *Session) Err() error { return s.engine().Err() }

// Context returns a context that ends with the session, with Err as its cause.
func (s *Session) Context() context.Context { return s.engine().Context() }

// Depend calls notify, once, before another session can own what this one owned. The cause is
// [ErrSuspended] if the connection is lost and policy ends holds then, and [ErrSessionLost] or
// [ErrClosed] if the session has ended. If that has already happened, Depend returns that error
// instead.
//
// notify must not block: requests that fail because of the lost connection do not return before it
// does. It is called before state listeners. stop removes notify, and reports false if notify is
// running or has been called. A nil notify is [ErrBadArgument].
//
// After a long idle period the error is [ErrSessionLost] although the session may be alive: call
// [Client.Sync], then Depend again. Locks depend on their sessions automatically.
func (s *Session) Depend(policy connstate.ErrorPolicy, notify func(cause error)) (stop func() bool, err error) {
	if notify == nil {
		return nil, fmt.Errorf("%w: nil function", ErrBadArgument)
	}
	return s.engine().Depend(policy, func(cause error) {
		// notify may end its goroutine, as t.FailNow does. Other dependents are notified after it.
		var wg sync.WaitGroup
		wg.Go(func() { notify(cause) })
		wg.Wait()
	})
}
