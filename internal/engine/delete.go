package engine

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/internal/wait"
)

// DeleteGuaranteed deletes a node, however long it takes. When ctx is done first, the deletion
// continues in the background; in a view of one session, while the session lives. If the node is
// missing after an unanswered attempt, found is !certain.
func (c Client) DeleteGuaranteed(ctx context.Context, path string, certain bool) (found bool, err error) {
	return c.DeleteBoth(ctx, path, Companion{}, certain)
}

// DeleteBoth is DeleteGuaranteed of a node and its companion.
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
	owed := &struct {
		Debt
		ticket
	}{Debt: Debt{only: only, owed: owed{place: place{c.Real(path), uniqueName}, with: with}}}
	d := &owed.Debt
	if with.Path != "" {
		d.with.Path = c.Real(with.Path)
	}
	if ctx.Err() != nil {
		c.debts.discard(d)
		return false, wait.Err(ctx)
	}
	owed.ticket.done = make(chan struct{})
	d.ticket = &owed.ticket
	c.debts.discard(d)
	t, err := d.wait(ctx)
	switch {
	case err != nil:
	case errors.Is(t.last, zk.ErrNoNode):
		found = t.unknown && !certain
	default:
		found = true
	}
	c.report(ctx, Operation{Op: "delete", Path: path, Began: began, Attempts: max(t.tries, 1), Err: err})
	return found, err
}

// Companion is a persistent node of a unique name that is deleted together with an ephemeral one,
// which must exist when the companion is created. The zero value stands for no companion.
type Companion struct {
	Path string
	Sure bool // known to be created; otherwise its create may still be applied
}

// deletion is the requests that delete the node of a debt and its companion, one after the other on
// one connection. They may be repeated. A companion that is known to be created stays if the node is
// missing: the error is zk.ErrNoNode.
type deletion struct {
	debt *Debt
	link *Connection
	last bool // see [conn.Request]
	done func(err error)
}

// ask sends a request of a deletion.
func ask[T any](d *deletion, q wire.Request[T], done func(T, error)) {
	q.Last, q.Done = d.last, done
	wire.Post(d.link.Conn, q)
}

func (d *deletion) begin() {
	if d.debt.with.Sure {
		d.both()
	} else {
		d.alone()
	}
}

// both deletes the node and its companion, or neither.
func (d *deletion) both() {
	ops := make([]proto.MultiOp, 2)
	for i, path := range []string{d.debt.place.path, d.debt.with.Path} {
		ops[i] = proto.MultiOp{Op: proto.OpDelete, Body: &proto.VersionRequest{Path: path, Version: -1}}
	}
	ask(d, wire.AskMulti(proto.OpMulti, ops), func(results []proto.MultiResult, err error) {
		failed := -1
		if err == nil {
			failed, err = wire.MultiFailure(results, len(ops))
		}
		if failed == 1 && !verdict.MayPass(err) {
			d.alone() // the companion is missing, or has children
			return
		}
		d.done(err)
	})
}

// alone deletes the node without its companion.
func (d *deletion) alone() {
	ask(d, wire.AskDelete(d.debt.place.path, -1), func(_ wire.None, err error) {
		if d.debt.with.Sure || !isGone(err) {
			d.done(err)
			return
		}
		d.companion(err) // it is not created any more
	})
}

// companion deletes the companion. deleted is the reply to the deletion of the node.
func (d *deletion) companion(deleted error) {
	ask(d, wire.AskDelete(d.debt.with.Path, -1), func(_ wire.None, err error) {
		if verdict.MayPass(err) {
			deleted = err
		}
		d.done(deleted)
	})
}

// Discard deletes a node of a unique name in the background, unless Close or the expiry of the
// session deletes it first. If a connection exists, the deletion is sent when Discard returns. A
// view of one session deletes in that session only.
//
// first is the first session in which a create of the node was sent. If another session deletes the
// node, the create may be applied later. So the node stays owed (see [Client.Owed]), and is deleted
// again, until the servers have ended first. A node that is not ephemeral needs a nil first.
func (c Client) Discard(path string, first *Session) {
	c.debts.discard(&Debt{only: c.session, owed: owed{place: place{c.Real(path), uniqueName}}, origin: origin{session: first, ephemeral: true}})
}

// Owe registers a node before its create is sent. Until Settle or GiveUp, Close deletes the node.
//
// The creates of the node are sent in session. The debt of an ephemeral node ends with that
// session, the debt of a persistent one when none of its creates can be applied any more. mine
// reports whether a node with this owner belongs to this client. wanted reports whether another
// owner in this process wants the node: then it stays. Neither may block.
func (c Client) Owe(path string, session *Session, ephemeral bool, mine func(owner int64) bool, wanted func() bool) *Debt {
	d := &Debt{owed: owed{place: place{c.Real(path), reusableName}, mine: mine, wanted: wanted}, origin: origin{session: session, ephemeral: ephemeral}}
	if ephemeral {
		d.only = session
	}
	return c.debts.add(d)
}
