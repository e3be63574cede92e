package framework

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/ctxerr"
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
	cfg    config
	states *connstate.Machine
	ctx    context.Context // ends with Close, cause ErrClosed
	stop   context.CancelCauseFunc
	wg     sync.WaitGroup // every goroutine of the client
	closed chan struct{}  // closed when Close has done its work

	observer *Observer // nil when nobody observes
	reporter *reporter // nil with observer

	ignorance ignorance
	values    sync.Map // what recipes keep: see clientapi.Values

	mu      sync.Mutex // guards what follows
	closing bool
	session *Session      // nil when there is none (yet)
	link    *link         // nil while disconnected
	changed chan struct{} // closed and replaced when one of them changes
	authErr error         // the last server refused our credentials
	beating bool          // a confirmation is under way
}

// New makes a client of the ensemble that servers belong to (host:port, or host for
// port 2181) and begins to connect. It does not wait for a connection: see
// [Client.WaitConnected]. Errors are [ErrBadArgument] and [ErrBadPath]; nothing has
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
		states:  connstate.NewMachine(cfg.log),
		closed:  make(chan struct{}),
		changed: make(chan struct{}),
	}
	if err := c.observe(); err != nil {
		return nil, err
	}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	c.wg.Go(c.run) // ends with c.ctx
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

// State is the state of the connection. The zero State means not connected yet.
func (c *Client) State() connstate.State { return c.core.states.State() }

// Listen has f called with every new state, in order, one at a time, on a
// goroutine of the client's. f may take its time, and may call the client. It is
// not told of the state that is in force when it is added. remove ends that.
func (c *Client) Listen(f func(connstate.State)) (remove func(), err error) {
	return c.core.states.Listen(f)
}

// ErrorPolicy says which states mean trouble to recipes that are not told otherwise.
func (c *Client) ErrorPolicy() connstate.ErrorPolicy { return c.core.cfg.errorPolicy }

// DefaultData is what nodes hold that are created without data of their own.
func (c *Client) DefaultData() []byte { return slices.Clone(c.core.cfg.data) }

// RetryPolicy is the policy under which operations are repeated.
func (c *Client) RetryPolicy() retry.Policy { return c.core.cfg.policy }

// Logger is where the client reports; recipes may report there too.
func (c *Client) Logger() *slog.Logger { return c.core.cfg.log }

// WaitConnected returns when there is a connection, however long that takes. Errors are
// those of ctx and [ErrClosed]. It is Curator's blockUntilConnected.
func (c *Client) WaitConnected(ctx context.Context) error {
	_, err := c.core.awaitLink(ctx, nil, 0)
	return err
}

// Session returns the session that the client is connected with. If there is no connection
// it waits for one like an operation does: for the connection timeout, repeated
// under the retry policy. The error is zk.ErrNoServer then, or that of ctx, or [ErrClosed].
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
// are created with it belong to s.
func InSession(ctx context.Context, s *Session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

func sessionOf(ctx context.Context) *Session {
	s, _ := ctx.Value(sessionKey{}).(*Session)
	return s
}

// awaitLink returns the connection, and waits for one if there is none: until limit has
// passed (zero: no limit; the error is zk.ErrNoServer then), ctx is done, or the
// client is closed. With pinned, it must be a connection of that session.
func (c *core) awaitLink(ctx context.Context, pinned *Session, limit time.Duration) (*link, error) {
	var expired <-chan time.Time
	for {
		if err := c.ctx.Err(); err != nil {
			return nil, ErrClosed
		}
		if ctx.Err() != nil {
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
		if expired == nil && limit > 0 {
			timer := time.NewTimer(limit)
			defer timer.Stop()
			expired = timer.C
		}
		select {
		case <-changed:
		case <-expired:
			return nil, zk.ErrNoServer
		case <-ctx.Done():
		case <-c.ctx.Done():
		}
	}
}

// run keeps the client connected. It is the one place where sessions and links begin
// and end.
func (c *core) run() {
	for {
		l, err := c.connect()
		if err != nil {
			break // closed
		}
		if !c.attach(l) {
			l.close() // the session ended meanwhile
			continue
		}
		select {
		case <-l.down:
		case <-l.session.Done():
		case <-c.ctx.Done():
		}
		if c.ctx.Err() != nil {
			break
		}
		c.detach(l)
	}
	c.finish()
}

// attach makes l the connection in use.
func (c *core) attach(l *link) bool {
	if !l.session.resume() {
		return false
	}
	c.cfg.log.Info("connected", "server", l.server, "session", sessionText(l.session.ID()), "timeout", l.session.Timeout())
	// Before the link is there for all: whoever has waited for it finds the state
	// that goes with it.
	c.states.Set(connstate.Connected)
	c.set(func() { c.link, c.authErr = l, nil })
	return true
}

// detach takes l out of use: because it broke, or because its session is over.
func (c *core) detach(l *link) {
	c.set(func() { c.link = nil })
	// Holders first: what follows may take its time.
	l.session.suspend()
	if l.session.Err() == nil {
		c.cfg.log.Info("connection suspended", "server", l.server, "session", sessionText(l.session.ID()))
	}
	c.states.Set(connstate.Suspended)
	c.dropIfOver(l.session)
	l.close()
}

// dropIfOver makes the loss of a session known.
func (c *core) dropIfOver(s *Session) bool {
	if s.Err() == nil {
		return false
	}
	c.set(func() { c.session = nil })
	c.cfg.log.Warn("session lost", "session", sessionText(s.ID()), "reason", s.Err())
	c.states.Set(connstate.Lost)
	return true
}

// set changes what waiters look at, and wakes them.
func (c *core) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *core) close() {
	c.mu.Lock()
	first := !c.closing
	c.closing = true
	session := c.session
	c.mu.Unlock()
	if !first {
		<-c.closed
		return
	}
	c.stop(ErrClosed)
	if session != nil {
		session.over(ErrClosed) // holders hear of it before the servers do
	}
	c.wg.Wait()
	close(c.closed) // before the listeners are waited for: one of them may wait for this
	c.states.Close()
	if c.reporter != nil {
		c.reporter.to(0)
	}
}

// finish is the end of run.
func (c *core) finish() {
	c.mu.Lock()
	l, session := c.link, c.session
	c.mu.Unlock()
	c.set(func() { c.link, c.session = nil, nil })
	if session != nil {
		session.over(ErrClosed)
	}
	if l != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		l.closeSession(ctx)
	}
}

// confirm has the leader answer for the session, in the background.
func (c *core) confirm(s *Session) {
	c.mu.Lock()
	l := c.link
	ready := l != nil && l.session == s && !c.beating && !c.closing
	if ready {
		c.beating = true
		c.wg.Add(1)
	}
	c.mu.Unlock()
	if !ready {
		return
	}
	go func() { // ends with the request, which ends with the link
		defer c.wg.Done()
		// What counts is that it is answered: the connection notes when. If it is
		// not, the deadline says so.
		_, _ = ask(c.ctx, l, askSync("/"))
		c.mu.Lock()
		c.beating = false
		c.mu.Unlock()
	}()
}

// background runs f on a goroutine that Close waits for; f must end with c.ctx.
// It reports whether it could.
func (c *core) background(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.wg.Go(f)
	return true
}

// sessionText is how ZooKeeper's own logs and tools write a session id.
func sessionText(id int64) string { return fmt.Sprintf("%#x", uint64(id)) }
