package framework

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/session"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
)

// Client talks to a ZooKeeper ensemble. It is Curator's CuratorFramework.
//
// Operations wait for a connection if there is none, are repeated under the client's policy as long as
// [retry.Retryable] allows, and return at once when ctx is done or the client is closed. A write that was
// carried out and whose reply was lost is sent again, and may then fail because of itself: a Set with a version
// with zk.ErrBadVersion, a Create with zk.ErrNodeExists ([Protected] avoids that), a Multi with either.
//
// Errors of operations have the type [*OpError] and wrap what ZooKeeper said, the error of ctx, or [ErrClosed].
// A path that is not valid is [ErrBadPath]. [retry.Unknown] tells whether a write that failed may have been
// carried out.
//
// All methods are safe for concurrent use.
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
	reports  reports

	unknownOps unknownOps
	auths      auths
	sweeper    *sweeper
	values     sync.Map // what recipes keep: see engine.Client.Values

	now wait.Value[connection]

	mu      sync.Mutex // guards closing
	closing bool
}

// connection is what a client has of one.
type connection struct {
	session *Session // nil when there is none (yet)
	link    *link    // nil while disconnected
	authErr error    // the last server refused our credentials
	why     error    // there is no connection, as far as we know
}

// current is the connection at this moment.
func (c *core) current() connection {
	now, _ := c.now.Get()
	return now
}

// Namespace returns a view of the client with another namespace, on the same
// session. Empty means the real root. Errors are [ErrBadArgument] and [ErrBadPath].
func (c *Client) Namespace(ns string) (*Client, error) {
	if err := validateNamespace(ns); err != nil {
		return nil, err
	}
	return &Client{core: c.core, namespace: ns}, nil
}

// real turns a caller's path into the server's.
func (c *Client) real(path string) string {
	if c.namespace == "" {
		return path
	}
	if path == "/" {
		return "/" + c.namespace
	}
	return "/" + c.namespace + path
}

// realNew is real for a node to be created: "/" is then a sequential one without a name, which
// belongs into the namespace and not beside it.
func (c *Client) realNew(path string) string {
	if path == "/" && c.namespace != "" {
		return "/" + c.namespace + "/"
	}
	return c.real(path)
}

// unreal turns a server's path into the caller's: the inverse of real. A path
// outside the namespace stays as it is.
func (c *Client) unreal(path string) string {
	if c.namespace == "" {
		return path
	}
	rest, found := strings.CutPrefix(path, "/"+c.namespace)
	switch {
	case found && rest == "":
		return "/"
	case found && rest[0] == '/':
		return rest
	}
	return path
}

// State is the state of the connection. The zero State means not connected yet, or closed. A client that
// has never reached a server is Suspended after the connection timeout, and Lost after the session timeout.
func (c *Client) State() connstate.State {
	if c.core.ctx.Err() != nil {
		return 0
	}
	return c.core.states.State()
}

// Listen calls f with every new state, in order, one at a time, on a goroutine of the client, until remove is
// called. It does not call f with the present state. f may block, and may call the client. A listener that is
// slow, blocks or panics delays nobody else; a panic is logged. If states pile up, some are left out, but never
// [connstate.Lost] or the latest. Errors are [ErrBadArgument] if f is nil, and [ErrClosed].
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

// ErrorPolicy is the policy of recipes that are not given another: see [WithErrorPolicy].
func (c *Client) ErrorPolicy() connstate.ErrorPolicy { return c.core.cfg.errorPolicy }

// DefaultData is what nodes hold that are created without data of their own.
func (c *Client) DefaultData() []byte { return slices.Clone(c.core.cfg.data) }

// RetryPolicy is the policy under which operations are repeated.
func (c *Client) RetryPolicy() retry.Policy { return c.core.cfg.policy }

// Logger is what [WithLogger] set; recipes log there too. It is never nil.
func (c *Client) Logger() *slog.Logger { return c.core.cfg.log }

// Observer combines all observers that [WithObserver] has set. It is nil if there is none. Otherwise none of its
// functions is nil, so a recipe of your own can report as well:
//
//	if o := client.Observer(); o != nil {
//		ctx = o.Acquiring(ctx, framework.AcquiringEvent{Path: path, Name: "lock-"})
//	}
//
// It must not be changed.
func (c *Client) Observer() *Observer { return c.core.observer }

// WaitConnected returns when there is a connection, however long that takes. Errors are that of ctx, which also
// wraps zk.ErrNoServer if it had to wait, [ErrClosed], and zk.ErrAuthFailed if a server refuses our
// credentials. It is Curator's blockUntilConnected.
func (c *Client) WaitConnected(ctx context.Context) error {
	_, err := c.core.awaitLink(ctx, nil, 0)
	return err
}

type sessionKey struct{}

// InSession returns a context with which operations are carried out in session s
// or not at all: they fail with [ErrSessionLost] when it is over. Ephemeral nodes that
// are created with it belong to s. Clients other than that of s ignore it, so the context of
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
				return nil, c.unreachable(wait.Err(ctx))
			}
			return nil, wait.Err(ctx)
		}
		if pinned != nil && pinned.Err() != nil {
			return nil, pinned.Err()
		}
		now, changed := c.now.Get()
		if l := now.link; l != nil && l.up() && (pinned == nil || pinned == l.session) {
			return l, nil
		}
		if now.authErr != nil {
			return nil, now.authErr
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

// unreachable is why there is no connection. given is the error of the caller's context, or nil.
func (c *core) unreachable(given error) error {
	return &unreachable{given, c.current().why}
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

// sessionOver is called when a session is over, perhaps more than once.
func (c *core) sessionOver() { c.sweeper.wake.Raise() }

// confirm sends a heartbeat. It does not wait: what counts is that it is answered, and the connection notes when. If it is
// not, the deadline says so.
func (c *core) confirm(s *Session) {
	if l := c.current().link; l != nil && l.session == s {
		l.catchUp()
	}
}

// everybody is the ACL of nodes that are created without one. It is not changed.
var everybody = zk.WorldACL(zk.PermAll)

// acl says which ACL a node gets that is created without one.
func (c *core) acl(path string) []zk.ACL {
	if c.cfg.acl != nil {
		if acl := c.cfg.acl(path); len(acl) > 0 {
			return acl
		}
	}
	return everybody
}

// sessionText is how ZooKeeper's own logs and tools write a session id.
func sessionText(id int64) string { return fmt.Sprintf("%#x", uint64(id)) }
