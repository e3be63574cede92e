package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine/debt"
	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/session"
	"github.com/gocurator/curator/internal/wait"
)

// core is the state that a client and its views share.
type core struct {
	life
	cfg    Config
	states *session.Machine
	values sync.Map // what recipes keep: see Client.Values

	now   wait.Value[inUse]
	auths wait.Value[[]conn.Auth] // sent on each connection; a list is replaced, never changed

	numbers conn.Numbers // numbers of the requests of all connections

	unknown wire.Unknown // operations
	works   works
	debts   *debt.Ledger
	pace    pace
	reports reports
}

// inUse is the session and the connection that a client uses.
type inUse struct {
	session *Session    // nil when there is none (yet)
	link    *Connection // nil while disconnected
	since   time.Time   // when link became nil
	authErr error       // the last server refused our credentials
	why     error       // there is no connection, as far as we know
	opening bool        // a server has accepted a connection and has not answered the handshake
}

// SetUnknown makes the client treat op as unknown to its servers. Tests use it with servers that
// know op.
func (c *core) SetUnknown(op proto.Op) { c.unknown.Add(op) }

// current returns the session and connection in use.
func (c *core) current() inUse { return c.now.Load() }

// State returns the state of the connection. It returns zero before the first connection and after
// Close.
func (c *core) State() connstate.State {
	if c.ctx.Err() != nil {
		return 0
	}
	return c.states.State()
}

// Listen calls f with every new state: see [session.Machine.Listen]. It returns [ErrClosed] after
// Close.
func (c *core) Listen(f func(connstate.State)) (remove func(), err error) {
	if remove, err = c.states.Listen(f); errors.Is(err, session.ErrClosed) {
		err = ErrClosed
	}
	return remove, err
}

// WaitConnected blocks until the client has a connection, without a time limit.
func (c Client) WaitConnected(ctx context.Context) error {
	_, err := c.awaitLink(ctx, c.session, noLimit)
	return err
}

// usable reports whether there is a connection of use, and of session pinned unless that is nil.
func (now inUse) usable(pinned *Session) bool {
	return now.link != nil && now.link.Up() && (pinned == nil || pinned == now.link.session)
}

// lost reports whether there is neither a session nor a connection.
func (now inUse) lost() bool { return now.session == nil && now.link == nil }

// settled reports whether a wait for a connection is over.
func (now inUse) settled(pinned *Session) bool {
	return now.usable(pinned) || now.authErr != nil || ended(pinned) != nil
}

// ended returns why a session is over, or nil. No session is never over.
func ended(s *Session) error {
	if s == nil {
		return nil
	}
	return s.Err()
}

// awaitLink returns the connection, and waits for one if there is none: until limit has
// passed (the error wraps zk.ErrNoServer then), ctx is done (the error wraps both
// then), or the client is closed. With pinned, it must be a connection of that session.
func (c *core) awaitLink(ctx context.Context, pinned *Session, limit time.Duration) (*Connection, error) {
	if pinned != nil && pinned.core != c {
		return nil, notOurs(pinned)
	}
	var within context.Context // the context of the wait; nil: there was none
	for {
		now := c.current()
		if !now.settled(pinned) && ctx.Err() == nil {
			if within == nil {
				var cancel context.CancelFunc
				within, cancel = c.within(ctx, limit)
				defer cancel()
			}
			now = c.awaitSettled(ctx, within, pinned)
		}
		switch {
		case c.ctx.Err() != nil:
			return nil, ErrClosed
		case ctx.Err() != nil && within != nil:
			return nil, c.unreachable(wait.Err(ctx))
		case ctx.Err() != nil:
			return nil, wait.Err(ctx)
		case ended(pinned) != nil:
			return nil, ended(pinned)
		case now.usable(pinned):
			return now.link, nil
		case now.authErr != nil:
			return nil, now.authErr
		case within != nil && within.Err() != nil:
			return nil, c.unreachable(nil)
		}
		// The connection was just lost. The rest of limit remains for the next connection.
	}
}

// awaitSettled waits until a wait for a connection is over, or within has ended. If a handshake is
// in progress then, it may wait for its result for as long as ctx lasts.
func (c *core) awaitSettled(ctx, within context.Context, pinned *Session) inUse {
	now, _ := c.now.Until(within, func(now inUse) bool { return now.settled(pinned) })
	if now.opening && c.cfg.AwaitHandshake {
		unlimited, cancel := c.within(ctx, noLimit)
		defer cancel()
		now, _ = c.now.Until(unlimited, func(now inUse) bool { return now.settled(pinned) || !now.opening })
	}
	return now
}

// notOurs is the error of operations in a session of another client, or in none.
func notOurs(s *Session) error {
	if s.core == nil {
		return fmt.Errorf("%w: nil session", opt.ErrBadArgument)
	}
	return fmt.Errorf("%w: session %s of another client", opt.ErrBadArgument, sessionText(s.ID()))
}

// connectPauses are the pauses between rounds in which no server could be used, after connections
// that ended young, and between retries of work that must succeed.
func connectPauses() wait.Pauses {
	return wait.Pauses{First: 50 * time.Millisecond, Last: time.Second}
}

// RefusedPause is the pause after a transient error. The retry policy may have no pauses of its
// own.
const RefusedPause = 100 * time.Millisecond

// unreachable is why there is no connection. given is the error of the caller's context, or nil.
func (c *core) unreachable(given error) error {
	return &wire.Unreachable{Given: given, Why: c.current().why}
}

// everybody is the ACL of nodes that are created without an ACL. It is not changed.
var everybody = zk.WorldACL(zk.PermAll)

// ACLAt returns the ACL of a node that is created without an ACL. path is the path on the server.
func (c *core) ACLAt(path string) []zk.ACL {
	if c.cfg.ACL != nil {
		if acl := c.cfg.ACL(path); len(acl) > 0 {
			return acl
		}
	}
	return everybody
}

// Recover recovers from a panic of a user's function and logs it. It must be deferred by the caller
// of the function.
func (c *core) Recover(what, path string) {
	if p := recover(); p != nil {
		c.cfg.Log.Error(what+" panicked", "path", path, "panic", p, "stack", string(debug.Stack()))
	}
}

// Guard calls f, a function of a user, and logs a panic of f.
func (c *core) Guard(what, path string, f func()) {
	defer c.Recover(what, path)
	f()
}

// sessionText is how ZooKeeper's own logs and tools write a session id.
func sessionText(id int64) string { return fmt.Sprintf("%#x", uint64(id)) }
