package framework

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/ctxerr"
	"github.com/gocurator/curator/internal/session"
	"github.com/gocurator/curator/retry"
)

// Client talks to a ZooKeeper ensemble. It keeps a session alive, repeats what was
// lost on the way, and cleans up behind operations whose outcome it did not
// learn. It is Curator's CuratorFramework.
//
// All methods are safe for concurrent use. Operations return [ErrClosed] once the
// client is closed, and errors of type [*OpError] otherwise.
type Client struct {
	core      *core
	namespace string
}

// core is what a client and its namespace views share.
type core struct {
	cfg     config
	states  *session.Machine
	ctx     context.Context // ends with Close, cause ErrClosed
	stop    context.CancelCauseFunc
	wg      sync.WaitGroup // every goroutine of the client
	closed  chan struct{}  // closed when Close has done its work
	reached chan struct{}  // closed by the first connection

	observer *Observer // nil when nobody observes
	reporter *reporter // nil with observer

	unknownOps unknownOps
	sweeper    *sweeper
	values     sync.Map // what recipes keep: see clientapi.Values

	mu      sync.Mutex // guards what follows
	closing bool
	session *Session      // nil when there is none (yet)
	link    *link         // nil while disconnected
	changed chan struct{} // closed and replaced when one of them changes
	authErr error         // the last server refused our credentials
	why     error         // there is no connection, as far as we know
}

// New makes a client of the ensemble that servers belong to (host:port, or host for
// port 2181; for a connect string as Java has it see [ParseConnectString]) and begins to connect. It
// does not wait for a connection: see [Client.WaitConnected]. Errors are [ErrBadArgument] and [ErrBadPath]; nothing has
// been sent then.
//
// Whoever makes a client must [Client.Close] it.
func New(servers []string, opts ...Option) (*Client, error) {
	cfg := defaults()
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("%w: nil option", ErrBadArgument)
		}
		if err := opt(&cfg); err != nil {
			return nil, err
		}
	}
	switch {
	case len(servers) > 0 && cfg.servers != nil:
		return nil, fmt.Errorf("%w: both servers and a server list", ErrBadArgument)
	case len(servers) == 0 && cfg.servers == nil:
		return nil, fmt.Errorf("%w: no servers", ErrBadArgument)
	case cfg.servers == nil:
		var err error
		if cfg.servers, err = fixedServers(servers); err != nil {
			return nil, err
		}
	}
	c := &core{
		cfg:     cfg,
		states:  session.NewMachine(cfg.log),
		closed:  make(chan struct{}),
		reached: make(chan struct{}),
		changed: make(chan struct{}),
	}
	if err := c.observe(); err != nil {
		return nil, err
	}
	c.sweeper = newSweeper(c)
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	if cfg.tracking {
		t := &tracker{core: c, given: cfg.servers}
		c.cfg.servers = t.servers
		c.wg.Go(t.run) // ends with c.ctx
	}
	c.wg.Go(c.run)    // ends with c.ctx
	c.wg.Go(c.absent) // ends with the first connection, or with c.ctx
	return &Client{core: c, namespace: cfg.namespace}, nil
}

// Close ends the session, so that its ephemeral nodes go at once if a server can
// be reached, unblocks every call with [ErrClosed], tells holders of locks with the same
// cause, and waits for every goroutine of the client. It may be called
// any number of times; it always returns nil. Called from a state listener it
// does not wait for that listener.
//
// Views share the life of their client: closing one closes all.
func (c *Client) Close() error {
	c.core.close()
	return nil
}

// Namespace returns a view of the client with another namespace, on the same
// session. Empty means the real root.
func (c *Client) Namespace(ns string) (*Client, error) {
	if err := validateNamespace(ns); err != nil {
		return nil, err
	}
	return &Client{core: c.core, namespace: ns}, nil
}

// State is the state of the connection. The zero State means not connected yet, or closed. A client that
// has never reached a server is Suspended after the connection timeout, and Lost after the session timeout.
func (c *Client) State() connstate.State {
	if c.core.ctx.Err() != nil {
		return 0
	}
	return c.core.states.State()
}

// Listen has f called with every new state, in order, one at a time, on a
// goroutine of the client's. f may take its time, and may call the client. It is
// not told of the state that is in force when it is added. A listener that is slow, blocks or panics delays
// nobody else; a panic is logged. If so many states pile up that some are left out, [connstate.Lost] and the
// latest are not among them. remove ends that. Errors are [ErrBadArgument] if f is nil, and [ErrClosed].
func (c *Client) Listen(f func(connstate.State)) (remove func(), err error) {
	if c.core.ctx.Err() != nil {
		return nil, ErrClosed
	}
	remove, err = c.core.states.Listen(f)
	switch {
	case errors.Is(err, session.ErrClosed):
		return nil, ErrClosed
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrBadArgument, err)
	}
	return remove, nil
}

// ErrorPolicy says which states mean trouble to recipes that are not told otherwise.
func (c *Client) ErrorPolicy() connstate.ErrorPolicy { return c.core.cfg.errorPolicy }

// DefaultData is what nodes hold that are created without data of their own.
func (c *Client) DefaultData() []byte { return slices.Clone(c.core.cfg.data) }

// RetryPolicy is the policy under which operations are repeated.
func (c *Client) RetryPolicy() retry.Policy { return c.core.cfg.policy }

// Logger is where the client reports; recipes may report there too.
func (c *Client) Logger() *slog.Logger { return c.core.cfg.log }

// WaitConnected returns when there is a connection, however long that takes. Errors are those of ctx,
// together with zk.ErrNoServer and the last reason in the text if it had to wait, [ErrClosed], and
// zk.ErrAuthFailed if a server refuses our credentials. It is Curator's blockUntilConnected.
func (c *Client) WaitConnected(ctx context.Context) error {
	_, err := c.core.awaitLink(ctx, nil, 0)
	return err
}

// Session returns the session that the client is connected with. If there is no connection
// it waits for one like an operation does: for the connection timeout, repeated
// under the retry policy. The error wraps zk.ErrNoServer then, or is that of ctx, or [ErrClosed].
func (c *Client) Session(ctx context.Context) (*Session, error) {
	var s *Session
	err := c.core.do(ctx, "connect", "/", func(l *link) error {
		s = l.session
		return nil
	})
	if err != nil {
		return nil, opError("connect", "/", err)
	}
	return s, nil
}

type sessionKey struct{}

// InSession returns a context with which operations are carried out in session s
// or not at all: they fail with [ErrSessionLost] when it is over. Ephemeral nodes that
// are created with it belong to s. A client that s does not belong to takes no notice: the context of
// a lock's hold can be used with any client.
func InSession(ctx context.Context, s *Session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

func sessionOf(ctx context.Context) *Session {
	s, _ := ctx.Value(sessionKey{}).(*Session)
	return s
}

// awaitLink returns the connection, and waits for one if there is none: until limit has
// passed (zero: no limit; the error wraps zk.ErrNoServer then), ctx is done (the error wraps both
// then), or the client is closed. With pinned, it must be a connection of that session.
func (c *core) awaitLink(ctx context.Context, pinned *Session, limit time.Duration) (*link, error) {
	if pinned != nil && pinned.core != c {
		pinned = nil // see InSession
	}
	var expired <-chan time.Time
	waited := false
	for {
		if err := c.ctx.Err(); err != nil {
			return nil, ErrClosed
		}
		if ctx.Err() != nil {
			if waited {
				return nil, c.unreachable(ctxerr.Of(ctx))
			}
			return nil, ctxerr.Of(ctx)
		}
		if pinned != nil && pinned.Err() != nil {
			return nil, pinned.Err()
		}
		c.mu.Lock()
		l, changed, authErr := c.link, c.changed, c.authErr
		c.mu.Unlock()
		if l != nil && l.up() && (pinned == nil || pinned == l.session) {
			return l, nil
		}
		if authErr != nil {
			return nil, authErr
		}
		waited = true
		if expired == nil && limit > 0 {
			timer := time.NewTimer(limit)
			defer timer.Stop()
			expired = timer.C
		}
		select {
		case <-changed:
		case <-expired:
			return nil, c.unreachable(nil)
		case <-ctx.Done():
		case <-c.ctx.Done():
		}
	}
}

// sessionText is how ZooKeeper's own logs and tools write a session id.
func sessionText(id int64) string { return fmt.Sprintf("%#x", uint64(id)) }
