package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/nocopy"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/wait"
)

// Hold is an acquired lease, the result of Acquire. It ends once, by Release or by a loss, and
// cannot be used again.
//
// All methods are safe for concurrent use.
type Hold struct {
	_ nocopy.Mark

	self   *Hold // a copy, which go vet reports, is the same hold
	term   *term
	own    context.Context
	cancel context.CancelCauseFunc   // of own
	ctx    context.Context           // own with the values of the context that it was acquired with
	asked  context.Context           // the context that Acquire was called with
	traced bool                      // an observer may have added values to those of asked
	ends   []context.CancelCauseFunc // of the contexts of groups and of Do; guarded by node.mu
}

// Context returns a context that is cancelled when the lease may be lost, before another client can
// acquire it. [ErrReleased] and the variables beside it list the causes.
//
// It has the values of Acquire's context, but not its deadline or cancellation. Acquire of the same
// lock with this context returns [ErrHeld], or re-enters: see [WithReentry].
//
// The cause [framework.ErrClosed] does not say that the node is deleted: [framework.ErrShutdown]
// wraps it, and then the node exists until Release.
func (h *Hold) Context() context.Context { return h.ctx }

// Done returns Context().Done().
func (h *Hold) Done() <-chan struct{} { return h.ctx.Done() }

// Err returns nil while the lease is held, and then the cause of Context.
func (h *Hold) Err() error { return context.Cause(h.ctx) }

// Path returns the path of the lease's node. With [WithRetention] the node may outlive the hold:
// use [Hold.Guard] to check whether this hold still has the lock.
func (h *Hold) Path() string { return h.term.node.path }

// String describes the lease for logs: the path of its node, and whether it is held, released or
// lost, and why. It sends no request.
func (h *Hold) String() string {
	state := "held"
	switch err := h.Err(); {
	case errors.Is(err, ErrReleased):
		state = "released"
	case err != nil:
		state = "ended: " + err.Error()
	}
	return h.Path() + " (" + state + ")"
}

// Session returns the session that owns the lease's node.
func (h *Hold) Session() *framework.Session { return h.term.node.session }

// Release ends the hold: it cancels the context with [ErrReleased]. The release of a lease's last
// hold then deletes the node, and returns nil when the server has confirmed the deletion.
//
// Errors are
//   - the cause of the loss, which wraps [framework.ErrLost], if the lease was lost before, with
//     the exception below;
//   - [ErrNodeDeleted] if another client has deleted the node, and the servers have not reported it
//     before;
//   - [framework.ErrSessionLost] or [framework.ErrClosed] if the session is over, which deletes the
//     node;
//   - [ErrReleased] at a second call, which tries again if the node could not be deleted;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to delete the node.
//
// After [framework.ErrSuspended], Release returns nil if it has deleted the node, since then no
// other client has held in between. If the answer was lost, that is not certain, and Release
// returns framework.ErrSuspended. After [framework.ErrSessionLost] the client deletes the node in
// the background, if the servers have not done so yet.
//
// While no server can be reached, Release waits until the session counts as lost, for up to its
// timeout. Closing the client ends the wait.
func (h *Hold) Release() error {
	t := h.term
	ctx := t.node.session.Context() // it waits no longer; the deletion continues in the background
	r, err := t.drop(h, false)
	switch {
	case err != nil:
		err = t.releasedAlready(ctx)
	case r.last:
		err = t.finish(ctx, r)
	default:
		err = r.lost
	}
	return operr.New("release", h.Path(), err)
}

// Do calls f, and releases the lease, even if f panics. f's context derives from ctx: it has the
// deadline, the cancellation and the values of ctx. The end of the hold cancels it as well, before
// another client can acquire and before Release returns.
//
// If the hold has ended already, f is not called.
//
// Errors are
//   - the error of f, joined with the cause of the loss if the lease was lost;
//   - the cause of the loss, which wraps [framework.ErrLost], if the lease was lost before the
//     release. If f returns nil after [framework.ErrSuspended], Do returns nil if the node still
//     existed at the release;
//   - [framework.ErrBadArgument] if f or ctx is nil: the lease is released;
//   - [ErrReleased] if the hold was released before;
//   - [framework.ErrSessionLost] or [framework.ErrClosed] if the session is over, which deletes the
//     node;
//   - [ErrNodeDeleted] if another client has deleted the node, and the servers have not reported it
//     before;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to delete the node.
//
// The first cause ends f's context:
//
//	first                    Err()                      context.Cause
//	the caller's deadline    context.DeadlineExceeded   the caller's cause
//	the caller's cancel      context.Canceled           the caller's cause
//	the end of the hold      context.Canceled           the loss, or ErrReleased
//	the return of f          context.Canceled           ErrReleased
//
// If ctx is done already, f is called with a context that is done. A value of ctx hides one of
// Acquire's context, and one that an observer has added to the context of both hides both.
func (h *Hold) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return do(ctx, h, h.Path(), f)
}

// holder is a Hold or a Group.
type holder interface {
	Context() context.Context
	Release() error
	// inside returns life with the values for f's context, where ctx is that of Do, and life
	// derives from it.
	inside(ctx, life context.Context) context.Context
	// endsWith calls end when the holder's context ends, under the mutex of a node.
	endsWith(end context.CancelCauseFunc)
}

// do calls f with a context that derives from ctx and ends with the holder's, and releases. It does
// not call f if the holder's context has ended.
func do(ctx context.Context, h holder, path string, f func(ctx context.Context) error) (err error) {
	held := h.Context()
	ended := context.Cause(held)
	switch {
	case f == nil:
		ended = fmt.Errorf("%w: nil function", framework.ErrBadArgument)
	case ctx == nil:
		ended = fmt.Errorf("%w: nil context", framework.ErrBadArgument)
	}
	if ended != nil {
		if err := h.Release(); errors.Is(err, ended) {
			return err
		}
		return &framework.OpError{Op: "do", Path: path, Err: ended}
	}
	// The end of the holder's context cancels the inner one while the mutex of a node is locked.
	// The parent of the inner one is life, so that this calls no method of the user's ctx.
	life, stop := context.WithCancel(ctx)
	inner, cancel := context.WithCancelCause(h.inside(ctx, life))
	h.endsWith(cancel)
	defer func() {
		cancel(ErrReleased)
		stop()
		lost, released := loss(context.Cause(held)), h.Release()
		if err != nil && lost != nil && !errors.Is(err, lost) && !errors.Is(released, lost) {
			err = operr.Join(err, &framework.OpError{Op: "do", Path: path, Err: lost}) // it may be why f has failed
		}
		err = operr.Join(err, released)
	}()
	return f(inner)
}

// inside implements holder. If ctx is the context that Acquire was called with, its values are
// looked up once: otherwise each nested Do would double the time of a look-up.
func (h *Hold) inside(ctx, life context.Context) context.Context {
	switch {
	case !same(ctx, h.asked):
		return &doContext{life, h.ctx}
	case h.traced:
		return wait.Join(life, h.ctx)
	default:
		return &heldContext{life, h}
	}
}

// endsWith implements holder. A goroutine that waits for the hold's context would call end later,
// perhaps after another client has acquired.
func (h *Hold) endsWith(end context.CancelCauseFunc) {
	h = h.self
	n := h.term.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := h.Err(); err != nil {
		end(err)
	} else {
		h.ends = append(h.ends, end)
	}
}

// FencingToken returns a number that is higher for every later holder: the czxid of the lease's
// node. A resource can use it to reject a stale holder. If the lock has several leases, a lower
// token does not mean that its holder is stale.
//
// The first call reads the node.
//
// Errors are
//   - [ErrReleased] if the lease was released before its node was read, or if the node was handed
//     over or kept after the release: see [WithRetention];
//   - the cause of the loss, which wraps [framework.ErrLost], if the lease was lost before its node
//     was read;
//   - [ErrNodeDeleted] if the node does not exist;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the session has expired;
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - the server's errors, such as zk.ErrAuthFailed if the server refuses the client's credentials.
func (h *Hold) FencingToken(ctx context.Context) (int64, error) {
	token, err := h.term.fencingToken(ctx)
	return token, operr.New("fencing token", h.Path(), err)
}

// Guard returns an operation for [framework.Client.Multi] of the lock's client. The Multi succeeds
// only if the lease's node exists. Otherwise it fails with zk.ErrNoNode, and nothing is written.
//
// [Hold.Multi] distinguishes a lost lock from a missing node of the caller's operations.
//
//	client.Multi(ctx, hold.Guard(), framework.SetOp("/balance", data))
func (h *Hold) Guard() *zk.CheckVersionRequest {
	path := h.Path()
	if !h.term.pin() {
		path += passedOn // the node exists, but it is another holder's
	}
	return h.guards(&zk.CheckVersionRequest{Path: path, Version: -1})
}

// passedOn is appended to a path so that no node has it.
const passedOn = "-passed-on"

// ReleaseWith releases the lease and applies ops in one transaction of the lock's client, as
// [framework.Client.Multi] does. Other clients see the results exactly when the lock is released.
// The lease is released even if ReleaseWith returns an error, except after re-entry: see below.
//
// The transaction is sent once, after the context has ended, and not repeated.
//
// Errors are
//   - [framework.ErrBadArgument] if the lease has several holds by re-entry: nothing has changed,
//     and the lease is held;
//   - framework.ErrBadArgument if one of ops is nil, of another type, or the guard of another
//     client's hold: the lease is released, and nothing is written;
//   - the cause of the loss, which wraps [framework.ErrLost], if the lease was lost before: nothing
//     is written;
//   - [ErrReleased] if the hold was released before: nothing is written;
//   - zk.ErrNoNode if the lease's node does not exist: nothing is written;
//   - a [framework.MultiError] with the index of the first of ops that failed: nothing is written.
//     It wraps the server's error, such as zk.ErrBadVersion;
//   - [framework.ErrBadPath] if a path is invalid;
//   - [framework.ErrTooLong] if ops exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if data exceed [framework.WithMaxDecompressed];
//   - the error of ctx if ctx is done first;
//   - zk.ErrConnectionClosed or zk.ErrNoServer if the connection is lost;
//   - [framework.ErrSessionLost] if the session expires;
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - the server's errors, such as zk.ErrAuthFailed if the server refuses the client's credentials.
//
// If [retry.Unknown] reports true for an error, ops may have been carried out.
func (h *Hold) ReleaseWith(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	responses, err := h.releaseWith(ctx, ops)
	if err != nil {
		if multi, ok := err.(*framework.OpError); ok { // what it wraps may say which of ops failed
			err = multi.Err
		}
		err = &framework.OpError{Op: "release", Path: h.Path(), Err: err}
	}
	return responses, err
}

func (h *Hold) releaseWith(ctx context.Context, ops []any) (responses []zk.MultiResponse, err error) {
	if err := h.checkGuards(ops); err != nil {
		leave([]*Hold{h})
		return nil, err
	}
	err = h.releaseBy(ctx, func() error {
		if responses, err = h.term.node.deleteWith(ctx, ops); err == nil {
			responses = responses[:len(ops)]
		}
		return err
	})
	return responses, err
}

// end ends the contexts of the hold, of its groups and inside Do. node.mu is locked: a caller that
// finds that the hold has ended, or was released, may rely on that its contexts have, too.
func (h *Hold) end(cause error) {
	h.cancel(cause)
	for _, end := range h.ends {
		end(cause)
	}
	h.ends = nil
}

// hasValues gives the context of a hold, which the caller does not have yet, the values of ctx.
func (h *Hold) hasValues(ctx context.Context) {
	h.ctx = &heldContext{wait.Join(h.own, ctx), h}
}

// again returns another hold of the lease with the values of ctx, or why this one has ended.
func (h *Hold) again(ctx context.Context) (*Hold, error) {
	t := h.term
	t.node.mu.Lock()
	defer t.node.mu.Unlock()
	if lost := loss(t.cause); lost != nil {
		return nil, lost
	}
	if !slices.Contains(t.holds, h.self) {
		return nil, ErrReleased
	}
	return t.newHold(ctx), nil
}

// leave releases holds that are not needed any more, in this order. Unlike Release it waits at most
// giveUpTimeout for the servers, for all holds together; the deletions continue in the
// background. It does not wait for another goroutine that releases one of them at the same time. A
// panic of an observer leaves no hold behind.
func leave(holds []*Hold) {
	limited, cancel := context.WithTimeout(context.Background(), giveUpTimeout)
	defer cancel()
	for i, h := range holds {
		leaveOne(limited, h, func() { leave(holds[i+1:]) })
	}
}

// leaveOne releases a hold. It calls others if the observer panics.
func leaveOne(limited context.Context, h *Hold, others func()) {
	done := false
	defer func() {
		if !done {
			others()
		}
	}()
	ctx, cancel := h.term.node.givingUp(limited)
	defer cancel()
	if r, err := h.term.drop(h, false); err == nil && r.last {
		_ = h.term.finish(ctx, r) // the caller has another error to return
	}
	done = true
}
