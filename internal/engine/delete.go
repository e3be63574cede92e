package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/engine/debt"
	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/wait"
)

// Debt is a node that this client has created, or may have created: see package debt.
type Debt = debt.Debt

// Companion is a node that is deleted together with another node: see package debt.
type Companion = debt.Companion

// host is the client for its ledger.
type host struct{ core *core }

func (h host) Life() context.Context    { return h.core.ctx }
func (h host) Background(f func()) bool { return h.core.background(f) }
func (h host) Log() *slog.Logger        { return h.core.cfg.Log }
func (h host) Unreachable() error       { return h.core.unreachable(nil) }

// ledgered returns a session for the ledger: a nil interface if there is none.
func ledgered(s *Session) debt.Session {
	if s == nil {
		return nil
	}
	return s
}

// Unprotected implements framework.Unprotected.
func Unprotected(child string) (name, id string) { return debt.Unprotected(child) }

// DeleteGuaranteed deletes a node, however long it takes. When ctx is done first, the deletion
// continues in the background; in a view of one session, while the session lives. If the node is
// missing after an unanswered attempt, found is !certain.
func (c Client) DeleteGuaranteed(ctx context.Context, path string, certain bool) (found bool, err error) {
	return c.DeleteBoth(ctx, path, Companion{}, certain)
}

// DeleteBoth deletes a node and its companion, with the guarantee of [Client.DeleteGuaranteed].
func (c Client) DeleteBoth(ctx context.Context, path string, with Companion, certain bool) (found bool, err error) {
	began := time.Now()
	only := c.session
	switch {
	case only != nil && only.core != c.core:
		err = notOurs(only)
	case only != nil && only.Err() != nil:
		err = only.Err()
	case c.ctx.Err() != nil:
		err = ErrClosed
	}
	if err != nil {
		c.report(ctx, Operation{Op: "delete", Path: path, Began: began, Attempts: 1, Err: err})
		return false, err
	}
	node := c.both(path, with)
	if ctx.Err() != nil {
		c.debts.Discard(node)
		return false, wait.Err(ctx)
	}
	o, err := c.debts.Delete(ctx, node)
	if err != nil {
		err = c.notDeleted(ctx, only, o, err)
	}
	switch {
	case err != nil:
	case errors.Is(o.Last, zk.ErrNoNode):
		found = o.Unknown && !certain
	default:
		found = true
	}
	c.report(ctx, Operation{Op: "delete", Path: path, Began: began, Attempts: max(o.Tries, 1), Err: err})
	return found, err
}

// notDeleted returns the error of a deletion that has failed with err, or that continues without
// its caller. If ctx is done, the error contains the reason of the wait.
func (c Client) notDeleted(ctx context.Context, only *Session, o debt.Outcome, err error) error {
	now := c.current()
	switch {
	case o.Settled:
	case o.InFlight:
		return wire.Abandoned(err)
	case ctx.Err() == nil || c.ctx.Err() != nil:
	case now.authErr != nil:
		err = fmt.Errorf("%w: %w", err, now.authErr)
	case !now.usable(only):
		err = c.unreachable(err)
	case o.Last != nil:
		err = fmt.Errorf("%w: %w", err, o.Last)
	}
	return afterTries(err, o.Unknown)
}

// Discard deletes a node of a unique name in the background, unless Close or the expiry of the
// session deletes it first. If a connection exists, the deletion is sent when Discard returns. A
// view of one session deletes in that session only.
//
// first is the first session in which a create of the node was sent. If another session deletes the
// node, the create may be applied later. So the node stays owed (see [Client.Owed]), and is deleted
// again, until the servers have ended first. A nil first is for a persistent node that exists.
func (c Client) Discard(path string, first *Session) {
	node := debt.Unique(c.Real(path))
	node.Session, node.Ephemeral, node.Only = ledgered(first), first != nil, ledgered(c.session)
	c.debts.Discard(node)
}

// DiscardBoth deletes a node and its companion in the background. It does nothing after Close,
// which deletes ephemeral nodes.
func (c Client) DiscardBoth(path string, with Companion) {
	if c.ctx.Err() == nil {
		c.debts.Discard(c.both(path, with))
	}
}

// both returns a node with its companion.
func (c Client) both(path string, with Companion) debt.Node {
	node := debt.Unique(c.Real(path))
	node.Only, node.With = ledgered(c.session), with
	if with.Path != "" {
		node.With.Path = c.Real(with.Path)
	}
	return node
}

// Owe registers a node before its create is sent. Until Settle or GiveUp, Close deletes the node.
//
// The creates of the node are sent in session. The debt of an ephemeral node ends with that
// session, the debt of a persistent one when none of its creates can be applied any more. mine
// reports whether a node with this owner belongs to this client. wanted reports whether another
// owner in this process wants the node: then it stays. Neither may block.
func (c Client) Owe(path string, session *Session, ephemeral bool, mine func(owner int64) bool, wanted func() bool) *Debt {
	node := debt.Reusable(c.Real(path), mine, wanted)
	node.Session, node.Ephemeral = ledgered(session), ephemeral
	if ephemeral {
		node.Only = node.Session
	}
	return c.debts.Owe(node)
}

// AwaitPlace waits for deletions that this client still owes for an earlier call and that could hit
// a new node at one of the paths creates, which are the server's. op and path name the caller's
// operation in errors.
func (c Client) AwaitPlace(ctx context.Context, op, path string, creates ...string) error {
	began := time.Now()
	err := c.debts.AwaitPlace(ctx, creates...)
	if err != nil {
		c.report(ctx, Operation{Op: op, Path: path, Began: began, Attempts: 1, Err: err})
	}
	return err
}

// Owed returns the names of the children of dir that this client owes. While the deletion of one is
// unanswered, changed is a channel that is closed when the answer may have arrived.
func (c Client) Owed(dir string) (names []string, changed <-chan struct{}) {
	return c.debts.Owed(c.Real(dir))
}
