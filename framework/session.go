package framework

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/engine"
)

// Session is one ZooKeeper session of a client, which owns its ephemeral nodes and so its locks. A
// client has one session at a time, and creates a new one after the session has expired. All
// methods are safe for concurrent use.
type Session engine.Session

func (s *Session) engine() *engine.Session { return (*engine.Session)(s) }

// ID returns the id of the session, which is the ephemeralOwner of its nodes.
func (s *Session) ID() int64 { return s.engine().ID() }

// Timeout returns the session timeout that the servers granted. It may differ from the requested
// timeout.
func (s *Session) Timeout() time.Duration { return s.engine().Timeout() }

// Done returns a channel that is closed when the session is lost or the client is closed.
func (s *Session) Done() <-chan struct{} { return s.engine().Done() }

// Err returns nil until Done is closed. Then it returns [ErrSessionLost] if the session was lost,
// or [ErrClosed] if the client was closed.
func (s *Session) Err() error { return s.engine().Err() }

// Context returns a context that is cancelled when Done is closed, with Err as its cause.
func (s *Session) Context() context.Context { return s.engine().Context() }

// Depend calls notify once, before another session can own what this session owned. If the session
// has already ended, or is suspended under policy, Depend returns the cause instead.
//
// The cause is one of these errors:
//   - [ErrSuspended] if the connection is lost and policy is [connstate.SuspendedEndsHold];
//   - [ErrSessionLost] if the session is lost;
//   - [ErrClosed] if the client is closed.
//
// After a long idle period, Depend may return [ErrSessionLost] although the session is alive: call
// [Client.Sync], then Depend again. Locks depend on their sessions automatically. If notify is nil,
// Depend returns [ErrBadArgument].
//
// notify must not block: requests that fail because of the lost connection do not return before it
// does. It is called before state listeners. stop removes notify. It returns false if notify is
// running or has been called.
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
