package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/lockapi"
)

func init() {
	lockapi.ExpectDeletion = func(hold any, cause error) {
		l := hold.(*Hold).lease
		l.mu.Lock()
		defer l.mu.Unlock()
		l.deleted = cause
	}
	lockapi.Leave = func(holds ...any) {
		var all []*Hold
		for _, h := range holds {
			all = append(all, h.(*Hold))
		}
		leave(all)
	}
}

// leave is lockapi.Leave.
func leave(holds []*Hold) {
	limited, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	for _, h := range holds {
		ctx, cancel := h.lease.node.leavingIn(limited)
		_ = h.release(ctx) // that it is given back is all that counts
		cancel()
	}
}

// Hold is an acquired lease: what Acquire returns. It ends once, by Release or by a loss. Acquire again after
// that.
//
// All methods are safe for concurrent use.
type Hold struct {
	lease  *lease
	ctx    context.Context
	cancel context.CancelCauseFunc
	groups []*Group // that end with the hold; guarded by lease.mu
}

// Context ends when the lease may no longer be ours, always before anyone else can acquire it. context.Cause
// then is [ErrReleased], [ErrSessionLost], [ErrSuspended], [ErrNodeDeleted], [ErrMaxHold] or [ErrClosed]. It
// has the values of the context that was given to Acquire, but not its deadline or cancellation, which only
// limited the wait.
//
// With this context, Acquire of the same lock re-enters.
func (h *Hold) Context() context.Context { return h.ctx }

// Done is Context().Done().
func (h *Hold) Done() <-chan struct{} { return h.ctx.Done() }

// Err is nil while the lease is ours, and then the cause of its end.
func (h *Hold) Err() error { return context.Cause(h.ctx) }

// Path is the path of the lease's node.
func (h *Hold) Path() string {
	h.lease.show()
	return h.lease.node.path
}

// String is the path of the lease's node, and whether it is held, released, or why it ended: for logs. It asks no
// server. Unlike [Hold.Path] it does not keep [WithLocalHandOff] from passing the node on.
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

// Session is the session that the lease's node belongs to.
func (h *Hold) Session() *framework.Session { return h.lease.node.session }

// Client is the client that the lock was made with, for recipes that build on holds.
func (h *Hold) Client() *framework.Client { return h.lease.node.queue.client }

// Release releases the lease. First the context ends, with [ErrReleased]; then the node is deleted. Release
// returns when the server has confirmed the deletion, or with [ErrSessionLost] or [ErrClosed] when the session
// is over, which deletes the node too. Other errors are what ZooKeeper said, such as zk.ErrNoAuth. Release takes
// no context, so a cancelled caller cannot leave the lock behind.
//
// If there are several holds of a lease, by re-entry, only the release of the last one deletes the node.
//
// If the lease was lost before, Release returns the cause of the loss. There is one exception: after
// [ErrSuspended] it returns nil if the node was still there and Release has deleted it, since then nobody else
// has held meanwhile. If the answer was lost, that is not certain, and Release returns [ErrSuspended]. After
// [ErrSessionLost] the client deletes the node in the background, if the servers have not done so yet. A second
// call returns [ErrReleased], or tries again if the node could not be deleted.
func (h *Hold) Release() error { return h.release(h.lease.node.session.Context()) }

// release is Release that waits no longer than ctx. What is left to do goes on in the background.
func (h *Hold) release(ctx context.Context) error {
	l := h.lease
	d := l.drop(h, false)
	err := d.lost
	switch {
	case !d.first:
		err = l.releasedAlready(ctx)
	case d.last:
		err = l.give(ctx, d)
	}
	if err != nil {
		return &framework.OpError{Op: "release", Path: l.node.path, Err: err}
	}
	return nil
}

// end ends the context of the hold and its groups.
func (h *Hold) end(cause error) {
	l := h.lease
	l.mu.Lock()
	groups := h.groups
	h.groups = nil
	l.mu.Unlock()
	h.cancel(cause)
	for _, g := range groups {
		g.end(cause)
	}
}

// Do calls f and releases. f's context ends with the hold, and when ctx ends. The error is f's and Release's
// joined. If f panics, the lease is released. If the hold has ended already, f is not called, and the error wraps the cause.
func (h *Hold) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return do(ctx, h.ctx, h.Release, f)
}

// do calls f with a context that ends with held and with ctx, and releases. It does not call f if held has ended.
func do(ctx, held context.Context, release func() error, f func(ctx context.Context) error) (err error) {
	if ended := context.Cause(held); ended != nil {
		if err := release(); errors.Is(err, ended) {
			return err
		}
		return fmt.Errorf("lock: %w", ended)
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

// FencingToken returns a number that is higher for every later holder of the lock: the czxid of the lease's
// node. Give it to whatever must refuse a late holder. The first call asks the server. Errors are
// [ErrNodeDeleted], the cause of the hold's end, and those of ctx and ZooKeeper.
//
// With several leases there are several holders, and the token only tells their order.
func (h *Hold) FencingToken(ctx context.Context) (int64, error) {
	if !h.lease.show() {
		return 0, &framework.OpError{Op: "fencing token", Path: h.lease.node.path, Err: ErrReleased}
	}
	token, err := h.lease.node.fencingToken(ctx, h.lease)
	if err != nil {
		return 0, &framework.OpError{Op: "fencing token", Path: h.lease.node.path, Err: err}
	}
	return token, nil
}

// Guard is an operation for [framework.Client.Multi], on the client that the lock was made
// with: the Multi succeeds only if the lease's node is there. If not, it
// fails with zk.ErrNoNode and nothing is written.
//
//	client.Multi(ctx, hold.Guard(), &zk.SetDataRequest{...})
func (h *Hold) Guard() *zk.CheckVersionRequest {
	path := h.lease.node.path
	if !h.lease.show() {
		path += passedOn // the node is there, but it is another holder's
	}
	return &zk.CheckVersionRequest{Path: path, Version: -1}
}

// passedOn is appended to a path so that no node has it.
const passedOn = "-passed-on"

// again re-enters: it returns another hold of the same lease.
func (h *Hold) again(ctx context.Context) (*Hold, error) {
	l := h.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if lost := l.lost(); lost != nil {
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
