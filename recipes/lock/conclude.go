package lock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
)

// conclude releases the only hold of a lease in a transaction that is repeated: see locking.Lock.
func (h *Hold) conclude(ops func(refused *framework.MultiError) ([]any, error)) (responses []zk.MultiResponse, err error) {
	err = h.releaseBy(h.Session().Context(), func() error {
		responses, err = h.term.concludeWith(ops)
		return err
	})
	return responses, err
}

// releaseBy releases the only hold of a lease by a transaction that deletes the node. If the
// transaction fails or panics, the node is deleted without it.
func (h *Hold) releaseBy(ctx context.Context, transaction func() error) error {
	t, n := h.term, h.term.node
	t.pin() // the transaction deletes the node: it is not handed over
	r, err := t.drop(h, true)
	if r.lost != nil {
		leave([]*Hold{h}) // the node may still exist, after ErrSuspended
		return r.lost
	}
	if err != nil {
		return err
	}
	defer t.finished()
	done := false
	defer func() {
		if !done { // even if the observer or the operations panic
			t.giveUp()
		}
	}()
	r.notify()
	if err := transaction(); err != nil {
		return err
	}
	done = true
	n.queue.rewind(ctx, n.path)
	n.isDeleted(true)
	return nil
}

// concludeWith sends the transaction, in the node's session, until it is applied or cannot be
// applied any more. It checks the node first, and deletes it last: a second copy does nothing,
// however late it arrives, and waiters see what the operations have written before the lock is
// free.
func (t *term) concludeWith(ops func(refused *framework.MultiError) ([]any, error)) (responses []zk.MultiResponse, err error) {
	n := t.node
	unknown := false // a copy may have been applied
	defer func() {
		err = doubted(err, unknown)
	}()
	withMark := n.markState() == marked
	var sent []any                    // nil: ops are to be called
	var refused *framework.MultiError // why they are called again
	for {
		if sent == nil {
			sent, err = ops(refused)
		}
		if err == nil {
			responses, err = n.checkAndDelete(sent, withMark)
			unknown = unknown || retry.Unknown(err)
		}
		switch {
		case err == nil:
			return responses[1 : 1+len(sent)], nil
		case n.session.Err() != nil:
			return nil, n.session.Err()
		case verdict.MayPass(err):
			_ = wait.Sleep(n.session.Context(), engine.RefusedPause) // if the session ends, the next request says so
			err = nil
		case sent == nil || !errors.As(err, &refused):
			return nil, err
		case refused.Index == 0 && errors.Is(err, zk.ErrNoNode):
			return nil, t.deletedBy()
		case withMark && refused.Index == len(sent)+1: // the mark is missing
			withMark, err = false, nil
		case refused.Index == 0, refused.Index > len(sent):
			return nil, err
		default:
			refused = &framework.MultiError{Index: refused.Index - 1, Op: refused.Op, Path: refused.Path, Err: refused.Err}
			sent, err = nil, nil
		}
	}
}

// doubted returns the error of a transaction. With unknown, a copy of the transaction may have been
// applied.
func doubted(err error, unknown bool) error {
	if err != nil && unknown && !retry.Unknown(err) {
		return wire.Doubtful(err)
	}
	return err
}

// checkAndDelete carries out ops and deletes the node, and with withMark its mark, only if the node
// exists.
func (n *node) checkAndDelete(ops []any, withMark bool) ([]zk.MultiResponse, error) {
	all := append([]any{&zk.CheckVersionRequest{Path: n.path, Version: -1}}, ops...)
	if withMark {
		all = append(all, &zk.DeleteRequest{Path: n.queue.markPath(n.mark()), Version: -1})
	}
	all = append(all, &zk.DeleteRequest{Path: n.path, Version: -1})
	return engine.Uncompressed(engine.Once(n.client)).Multi(n.session.Context(), all...)
}
