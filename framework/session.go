package framework

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/engine"
)

// Session is one ZooKeeper session of a client, from its beginning until it is over.
// A client has one at a time; a Session that is over stays over, and the client
// makes a new one. Ephemeral nodes, and so locks, belong to a Session. The package
// comment says when a session is over.
//
// All methods are safe for concurrent use.
type Session engine.Session

func (s *Session) engine() *engine.Session { return (*engine.Session)(s) }

// ID is the server's name for the session: the ephemeralOwner of its nodes.
func (s *Session) ID() int64 { return s.engine().ID() }

// Timeout is what the servers granted, which may differ from what was asked for.
func (s *Session) Timeout() time.Duration { return s.engine().Timeout() }

// Done is closed when the session is over.
func (s *Session) Done() <-chan struct{} { return s.engine().Done() }

// Err is nil until the session is over, and then [ErrSessionLost] or [ErrClosed].
func (s *Session) Err() error { return s.engine().Err() }

// Context is done when the session is over, with Err as its cause.
func (s *Session) Context() context.Context { return s.engine().Context() }

// Depend calls notify, once, as soon as nobody may depend on the session any more: with [ErrSuspended] if the
// connection is suspended and policy ends holds then, with [ErrSessionLost] or [ErrClosed] when the session is
// over. notify must not block: requests that fail with the connection wait for it. It is called before the state
// listeners, and before anyone else can own what the session owned. If it is so already, Depend returns that error
// instead. A nil notify is [ErrBadArgument].
//
// stop ends the dependency. It reports whether it did: false means that notify has been or is being called.
//
// While somebody depends on a session, the client confirms it with a majority of the ensemble, and not just with its own
// server: by a write that changes nothing, at most four times per timeout. An idle client does not. With [WithExpirationPercent] below 100
// it does so always, and more often. If a client has been idle for long, Depend returns [ErrSessionLost] although the session may be
// alive. Then call [Client.Sync], and Depend again.
//
// Holds of locks depend on their session by themselves. Depend is for recipes that keep ephemeral nodes of
// their own.
func (s *Session) Depend(policy connstate.ErrorPolicy, notify func(cause error)) (stop func() bool, err error) {
	if notify == nil {
		return nil, fmt.Errorf("%w: nil function", ErrBadArgument)
	}
	return s.engine().Depend(policy, func(cause error) {
		// notify may end its goroutine, as t.FailNow does. Others have to be notified after it.
		var wg sync.WaitGroup
		wg.Go(func() { notify(cause) })
		wg.Wait()
	})
}

// InSession returns a context with which operations are carried out in session s
// or not at all: they fail with [ErrSessionLost] when it is over. Ephemeral nodes that
// are created with it belong to s. Clients other than that of s ignore it, so the context of
// a lock's hold can be used with any client.
func InSession(ctx context.Context, s *Session) context.Context {
	return engine.InSession(ctx, s.engine())
}
