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
// acquire it: see the package comment. [ErrReleased] and the variables beside it list the causes.
//
// It has the values of Acquire's context, but not its deadline or cancellation. Acquire of the same
// lock with this context returns [ErrHeld], or re-enters: see [WithReentry].
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

// Release releases the lease: it cancels the context with [ErrReleased], and then deletes the node.
// It returns nil when the server has confirmed the deletion.
//
// Errors are
//   - the cause of the loss, which wraps [framework.ErrLost], if the lease was lost before. After
//     [framework.ErrSuspended] Release returns nil if it has deleted the node;
//   - [framework.ErrSessionLost] or [framework.ErrClosed] if the session is over, which deletes the
//     node;
//   - [ErrReleased] at a second call, which tries again if the node could not be deleted;
//   - the server's errors, such as zk.ErrNoAuth.
//
// The package comment has the details, under "Results of Release".
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

// Do calls f, and releases the lease, even if f panics. f's context derives from ctx, with its
// deadline, and is cancelled with the hold's context, before another client can acquire. The
// package comment has the details, under "Inside Do".
//
// Do joins the errors of f and Release. If the hold has ended already, f is not called, and the
// error wraps the cause.
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
// The first call reads the node. Errors are [ErrNodeDeleted], the cause of the hold's context, and
// errors of the client.
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
// Errors are
//   - zk.ErrNoNode if the lease's node does not exist: nothing is written;
//   - [framework.ErrBadArgument] if the lease has several holds by re-entry: nothing has changed,
//     and the lease is held;
//   - framework.ErrBadArgument if one of ops is nil, of another type, or the guard of another
//     client's hold: the lease is released, and nothing is written;
//   - the cause of a loss, which wraps [framework.ErrLost], or an error of Multi. retry.Unknown
//     reports whether ops may have been carried out.
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
