package queue

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/recipes/internal/follow"
)

// Leave gives holds back that nobody needs any more, in this order. Unlike Release it does not wait for servers that are out of
// reach, and for others not long, however many holds there are; what is left to do goes on in the background.
func Leave(holds []*Hold) {
	limited, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	for _, h := range holds {
		ctx, cancel := h.lease.node.leavingIn(limited, leaveTimeout)
		_ = h.release(ctx) // that it is given back is all that counts
		cancel()
	}
}

// Hold is a lock.Hold.
type Hold struct {
	lease  *lease
	own    context.Context
	cancel context.CancelCauseFunc // of own
	ctx    context.Context         // own with the values of the context that it was acquired with
	groups []*Group                // that end with the hold; guarded by lease.mu
}

// Context is that of lock.Hold.
func (h *Hold) Context() context.Context { return h.ctx }

// Done is that of lock.Hold.
func (h *Hold) Done() <-chan struct{} { return h.ctx.Done() }

// Err is that of lock.Hold.
func (h *Hold) Err() error { return context.Cause(h.ctx) }

// Path is that of lock.Hold.
func (h *Hold) Path() string {
	h.lease.show()
	return h.lease.node.path
}

// String is that of lock.Hold.
func (h *Hold) String() string {
	state := "held"
	switch err := h.Err(); {
	case errors.Is(err, ErrReleased):
		state = "released"
	case err != nil:
		state = "ended: " + err.Error()
	}
	return h.lease.node.path + " (" + state + ")"
}

// Session is that of lock.Hold.
func (h *Hold) Session() *framework.Session { return h.lease.node.session }

// Client is the client that the queue was made with.
func (h *Hold) Client() *framework.Client { return h.lease.node.queue.client }

// ExpectDeletion sets the cause of the hold's end if somebody else deletes its node from now on, in place of [ErrNodeDeleted],
// which cause must wrap: for holders that are asked before that is done. It is the cause for all holds of the lease.
func (h *Hold) ExpectDeletion(cause error) {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	h.lease.deleted = cause
}

// Release is that of lock.Hold.
func (h *Hold) Release() error { return h.release(h.lease.node.session.Context()) }

// release is Release that waits no longer than ctx. What is left to do goes on in the background.
func (h *Hold) release(ctx context.Context) error {
	l := h.lease
	d, err := l.drop(h, false)
	switch {
	case err != nil:
		err = l.releasedAlready(ctx)
	case d.last:
		err = l.give(ctx, d)
	default:
		err = d.lost
	}
	return follow.OpError("release", l.node.path, err)
}

// ReleaseWith is that of lock.Hold.
func (h *Hold) ReleaseWith(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	l := h.lease
	responses, err := h.releaseWith(ctx, ops)
	if err != nil {
		err = &framework.OpError{Op: "release", Path: l.node.path, Err: err}
	}
	return responses, err
}

func (h *Hold) releaseWith(ctx context.Context, ops []any) ([]zk.MultiResponse, error) {
	l := h.lease
	if _, err := h.endAlone(false); err != nil {
		return nil, err
	}
	n := l.node
	all := append(append([]any(nil), ops...), &zk.DeleteRequest{Path: n.path, Version: -1})
	once := engine.WithHints(framework.InSession(ctx, n.session), engine.Hints{Once: true})
	responses, err := n.queue.client.Multi(once, all...)
	if err != nil {
		l.leave()
		return responses, err
	}
	n.queue.rewind(ctx, n.path)
	n.end()
	return responses[:len(ops)], nil
}

// endAlone ends the lease for its only hold, as Release does before it gives the node back. The node is lent only if lend is true.
func (h *Hold) endAlone(lend bool) (dropped, error) {
	if !lend {
		h.lease.show()
	}
	d, err := h.lease.drop(h, true)
	if d.lost != nil {
		Leave([]*Hold{h}) // the node may still be there, after ErrSuspended
		return d, d.lost
	}
	return d, err
}

// end ends the context of the hold and its groups. lease.mu is held: whoever finds that the hold has ended, or was released, may rely on
// that its contexts have, too.
func (h *Hold) end(cause error) {
	h.cancel(cause)
	for _, g := range h.groups {
		g.end(cause)
	}
	h.groups = nil
}

// Do is that of lock.Hold.
func (h *Hold) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return do(ctx, h.ctx, h.lease.node.path, h.Release, f)
}

// do calls f with a context that ends with held and with ctx, and releases. It does not call f if held has ended.
func do(ctx, held context.Context, path string, release func() error, f func(ctx context.Context) error) (err error) {
	if ended := context.Cause(held); ended != nil {
		if err := release(); errors.Is(err, ended) {
			return err
		}
		return &framework.OpError{Op: "do", Path: path, Err: ended}
	}
	inner, cancel := context.WithCancelCause(held)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() {
		stop()
		cancel(ErrReleased)
		err = errors.Join(err, release())
	}()
	return f(inner)
}

// FencingToken is that of lock.Hold.
func (h *Hold) FencingToken(ctx context.Context) (int64, error) {
	token, err := h.lease.node.fencingToken(ctx, h.lease)
	return token, follow.OpError("fencing token", h.lease.node.path, err)
}

// Guard is that of lock.Hold.
func (h *Hold) Guard() *zk.CheckVersionRequest {
	path := h.lease.node.path
	if !h.lease.show() {
		path += passedOn // the node is there, but it is another holder's
	}
	return &zk.CheckVersionRequest{Path: path, Version: -1}
}

// passedOn is appended to a path so that no node has it.
const passedOn = "-passed-on"

// Again re-enters: it returns another hold of the same lease, with the values of ctx. The error is why this one has ended.
func (h *Hold) Again(ctx context.Context) (*Hold, error) {
	l := h.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if lost := loss(l.cause); lost != nil {
		return nil, lost
	}
	if !slices.Contains(l.holds, h) {
		return nil, ErrReleased
	}
	return l.newHold(ctx), nil
}

// heldKey finds the hold that a context comes from, for one lock.
type heldKey struct{ queue *Queue }

// HeldIn returns the hold of this Queue that ctx comes from, or nil. The hold may have ended. It is for recipes
// of several queues: a read/write lock finds out with it whether a reader holds the write lock.
func (q *Queue) HeldIn(ctx context.Context) *Hold {
	h, _ := ctx.Value(heldKey{q}).(*Hold)
	return h
}
