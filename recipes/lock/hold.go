package lock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// Hold is a lease that we have: what Acquire returns. It ends once, by Release or by a
// loss, and does not come back; acquire again instead.
//
// All methods are safe for concurrent use.
type Hold struct {
	lease  *lease
	ctx    context.Context
	cancel context.CancelCauseFunc

	released bool // guarded by lease.mu
}

// Context ends when the lease may no longer be ours, at the latest before anyone else can
// have it. context.Cause then says why: [ErrReleased], [ErrSessionLost],
// [ErrSuspended], [ErrNodeDeleted], [ErrMaxHold] or [ErrClosed]. It has the values of
// the context that was given to Acquire, but neither its deadline nor its end: those
// were for the waiting.
//
// Given to Acquire of the same lock, it re-enters.
func (h *Hold) Context() context.Context { return h.ctx }

// Done is Context().Done().
func (h *Hold) Done() <-chan struct{} { return h.ctx.Done() }

// Err is nil while the lease is ours, and then the cause of its end.
func (h *Hold) Err() error { return context.Cause(h.ctx) }

// Path is the path of the lease's node.
func (h *Hold) Path() string {
	h.lease.show()
	return h.lease.entry.path
}

// Session is the session that the lease's node belongs to.
func (h *Hold) Session() *framework.Session { return h.lease.entry.session }

// Client is the client that the lock was made with, for recipes that build on holds.
func (h *Hold) Client() *framework.Client { return h.lease.entry.queue.client }

// Release gives the lease back. First the context ends, with [ErrReleased]; then the
// node is deleted. Release returns when the server has confirmed that, or when
// the session is over, which deletes the node as well. Release takes no context, so a cancelled caller
// cannot leave the lock behind.
//
// A hold that re-entered gives back nothing until the last hold of its lease is
// released.
//
// If the lease was lost before, Release returns the cause of the loss. There is one exception: after
// [ErrSuspended] it returns nil if the node was still there and Release has deleted it, for then nobody else has
// held meanwhile. Called again it returns [ErrReleased], or, if the node could not be deleted, it tries once more.
func (h *Hold) Release() error { return h.release(h.lease.entry.session.Context()) }

// release is Release that waits no longer than ctx. What is left to do goes on in the background.
func (h *Hold) release(ctx context.Context) error {
	l := h.lease
	l.mu.Lock()
	again := h.released
	h.released = true
	if !again {
		l.holds--
	}
	last, lost := l.holds == 0, l.lost
	l.mu.Unlock()

	h.cancel(ErrReleased)
	err := lost
	switch {
	case again:
		err = l.releasedAlready(ctx)
	case last:
		err = l.release(ctx)
	}
	if err != nil {
		return &framework.OpError{Op: "release", Path: l.entry.path, Err: err}
	}
	return nil
}

// Do calls f and releases. f's context ends with the hold's, as well as with ctx. The error
// is f's and Release's joined. If f panics, the lease is given back.
func (h *Hold) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return do(ctx, h.ctx, h.Release, f)
}

// do calls f with a context that ends with what is held as well as with ctx, and releases.
func do(ctx, held context.Context, release func() error, f func(ctx context.Context) error) (err error) {
	inner, cancel := context.WithCancelCause(held)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() {
		stop()
		cancel(ErrReleased)
		err = errors.Join(err, release())
	}()
	return f(inner)
}

// FencingToken returns a number that is higher for every later holder of the lock: the
// czxid of the lease's node. Hand it to whatever must refuse a holder that is late. The
// first call asks the server. Errors are [ErrNodeDeleted], the cause of the hold's end,
// and those of ctx and ZooKeeper.
//
// With several leases, holders are not alone, and the token only tells their order.
func (h *Hold) FencingToken(ctx context.Context) (int64, error) {
	if !h.lease.show() {
		return 0, &framework.OpError{Op: "fencing token", Path: h.lease.entry.path, Err: ErrReleased}
	}
	token, err := h.lease.fencingToken(ctx)
	if err != nil {
		return 0, &framework.OpError{Op: "fencing token", Path: h.lease.entry.path, Err: err}
	}
	return token, nil
}

// Guard is an operation for [framework.Client.Multi], on the client that the lock was made
// with: the Multi succeeds only if the lease's node is there. If not, it
// fails with zk.ErrNoNode and nothing is written.
//
//	client.Multi(ctx, hold.Guard(), &zk.SetDataRequest{...})
func (h *Hold) Guard() *zk.CheckVersionRequest {
	path := h.lease.entry.path
	if !h.lease.show() {
		path += passedOn // the node is there, but it is another holder's
	}
	return &zk.CheckVersionRequest{Path: path, Version: -1}
}

// passedOn makes of a node's path one that no node has.
const passedOn = "-passed-on"

// again is re-entrance: another hold of the same lease.
func (h *Hold) again(ctx context.Context) (*Hold, error) {
	l := h.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return nil, l.lost
	}
	if h.released {
		return nil, ErrReleased
	}
	return l.newHold(ctx), nil
}

// heldKey finds the hold that a context comes from, for one lock.
type heldKey struct{ queue *Queue }

// HeldIn returns the hold of this Queue that ctx comes from, or nil. The hold may have
// ended since.
func (q *Queue) HeldIn(ctx context.Context) *Hold {
	h, _ := ctx.Value(heldKey{q}).(*Hold)
	return h
}
