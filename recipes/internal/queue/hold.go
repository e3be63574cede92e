package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/follow"
)

// lease is what a node of ours has while it holds. All holds that re-entered share it. It begins in newLease and ends once, in
// drop or end, by one of these causes. First the contexts of its holds end, and then:
//
//	cause                        what becomes of the node
//	ErrReleased                  it is lent to the next goroutine, kept for the next Acquire, or deleted; a kept one is taken over
//	ErrSuspended                 it stays until Release, and is watched
//	ErrSessionLost, ErrClosed    it stays until Release, if the servers do not delete it before: the work may still run
//	ErrMaxHold, zk.ErrNoAuth     it is deleted in the background
//	ErrNodeDeleted and the like  it is gone
//	errUnused                    it is deleted in the background, as after each loss of a lease that has no hold
type lease struct {
	node  *node
	began time.Time

	mu      sync.Mutex // guards what follows
	holds   []*Hold    // not released yet; none: the node is kept for the next Acquire
	cause   error      // nil: the lease has not ended
	ended   func()     // ends the dependence on the session, and notifies the observer
	timer   *time.Timer
	deleted error // what a deletion by somebody else means
	shown   bool  // the holder has, or may have, passed on its path, token or guard

	failed chan bool // has whether the last delete of the node has failed, and nothing while there is one
}

// newLease begins a lease of a node that may hold, without a hold. It fails if the session is suspended or lost, or if no
// server has confirmed it in time. l.mu is held when it returns a lease.
func newLease(n *node, policy connstate.ErrorPolicy) (l *lease, err error) {
	l = &lease{node: n, deleted: ErrNodeDeleted, began: time.Now(), failed: make(chan bool, 1)}
	l.failed <- false
	l.mu.Lock()
	undepend, err := n.session.Depend(policy, l.lose)
	if err == nil {
		if err = n.begin(l); err == nil {
			l.ended = func() { undepend() }
			return l, nil
		}
		undepend()
	}
	l.cause = err // a loss that comes at this moment has nothing to end
	l.mu.Unlock()
	return nil, err
}

// newHold begins the lease of a node with its first hold. own is a watch of the node, or nil.
func newHold(ctx context.Context, n *node, own *framework.Watch) (*Hold, error) {
	l, err := newLease(n, n.queue.cfg.Policy)
	if err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	if n.inView() == nil {
		n.watch(watchAfter, own)
	}
	if d := n.queue.cfg.MaxHold; d > 0 {
		l.timer = time.AfterFunc(d, l.endMaxHold)
	}
	return l.newHold(ctx), nil
}

// newHold adds a hold. l.mu is held.
func (l *lease) newHold(ctx context.Context) *Hold {
	h := &Hold{lease: l}
	h.own, h.cancel = context.WithCancelCause(context.Background())
	h.hasValues(ctx)
	l.holds = append(l.holds, h)
	return h
}

// hasValues gives the context of a hold, which nobody has yet, the values of ctx. The value of the Queue is the hold: see
// HeldIn.
func (h *Hold) hasValues(ctx context.Context) {
	h.ctx = context.WithValue(wait.Join(h.own, ctx), h.lease.node.queue, h)
}

// end ends the lease because it was lost or taken over, unless it has ended. It does not block.
func (l *lease) end(cause error) bool {
	l.mu.Lock()
	if l.cause != nil {
		l.mu.Unlock()
		return false
	}
	l.cause = cause
	unused := len(l.holds) == 0
	for _, h := range l.holds {
		h.end(cause)
	}
	ended := l.ended
	if l.timer != nil && !errors.Is(cause, framework.ErrSuspended) {
		l.timer.Stop()
	}
	l.mu.Unlock()
	ended()
	n := l.node
	switch {
	case errors.Is(cause, ErrReleased):
	case unused, errors.Is(cause, ErrMaxHold), errors.Is(cause, zk.ErrNoAuth):
		go n.leave(0) // ends at once; this may be the connection's goroutine, which must not send
	case errors.Is(cause, framework.ErrSuspended):
		n.watch(0, nil) // waiters in memory must know when it is deleted, or its session ends
	default:
		n.end()
	}
	return true
}

// lose ends the lease because it was lost.
func (l *lease) lose(cause error) {
	if !l.end(cause) || errors.Is(cause, framework.ErrClosed) {
		return
	}
	log := l.node.queue.client.Logger()
	if l.unused() || !log.Enabled(context.Background(), slog.LevelWarn) {
		return
	}
	// The logger may block.
	go log.Warn(l.node.queue.cfg.Noun+" lost", "path", l.node.path, "held", time.Since(l.began), "reason", cause)
}

// giveBack ends the lease of a node that is kept for the next Acquire. It reports whether that is what it is.
func (l *lease) giveBack() bool {
	if !l.unused() {
		return false
	}
	l.end(errUnused)
	return true
}

// unused reports whether the lease has no hold.
func (l *lease) unused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.holds) == 0
}

// endMaxHold is called when the time of WithMaxHold has passed: it deletes the node, also that of a holder that
// has lost it by ErrSuspended and has not released.
func (l *lease) endMaxHold() {
	l.mu.Lock()
	stuck := errors.Is(l.cause, framework.ErrSuspended) && len(l.holds) > 0
	if stuck {
		l.deleted = ErrMaxHold
	}
	l.mu.Unlock()
	if stuck {
		l.node.leave(0)
	} else {
		l.lose(ErrMaxHold)
	}
}

// drop removes a hold that is released. The lease ends with its last one. The error is ErrReleased if the hold was released before.
// With alone, other errors are why the lease was lost, and framework.ErrBadArgument if it has other holds: then nothing happens.
func (l *lease) drop(h *Hold, alone bool) (d dropped, err error) {
	l.mu.Lock()
	i := slices.Index(l.holds, h)
	d.lost = loss(l.cause)
	switch {
	case i < 0:
		err = ErrReleased
	case alone && d.lost != nil:
		err = d.lost
	case alone && len(l.holds) > 1:
		err = fmt.Errorf("%w: the lease has other holds", framework.ErrBadArgument)
	}
	if err != nil {
		l.mu.Unlock()
		return d, err
	}
	l.holds = slices.Delete(l.holds, i, i+1)
	h.end(ErrReleased)
	d.last = len(l.holds) == 0
	if d.last && l.timer != nil {
		l.timer.Stop() // after ErrSuspended it was still needed
	}
	ended := func() {}
	if d.last && l.cause == nil {
		d.lend = l.lend()
		l.cause, ended = ErrReleased, l.ended
	}
	l.mu.Unlock()
	ended()
	return d, nil
}

// dropped is what drop has done, and what is left to do by give.
type dropped struct {
	last bool
	lost error  // why the lease had ended before
	lend func() // passes the node on; nil: it is to be deleted
}

// loss is why a lease was lost that has ended by cause, or nil.
func loss(cause error) error {
	if errors.Is(cause, ErrReleased) {
		return nil
	}
	return cause
}

// give is what becomes of the node of a lease that its holders have released.
func (l *lease) give(ctx context.Context, d dropped) error {
	switch {
	case errors.Is(d.lost, framework.ErrSessionLost):
		l.node.leave(0) // the servers may not have ended the session yet
		return d.lost
	case lostForGood(d.lost):
		return d.lost
	case d.lend != nil:
		d.lend()
		return nil
	case d.lost == nil && l.node.queue.cfg.Async:
		<-l.failed
		l.node.send(func(found bool, err error) { _ = l.removed(found, err) })
		return nil
	}
	return l.remove(ctx)
}

// lostForGood reports whether somebody else may have held after the loss.
func lostForGood(lost error) bool { return lost != nil && !errors.Is(lost, framework.ErrSuspended) }

// releasedAlready returns what Release returns for a hold that was released before. It repeats a delete that failed, and waits for
// one that is running.
func (l *lease) releasedAlready(ctx context.Context) error {
	if lost := loss(l.endedBy()); lostForGood(lost) {
		return lost
	}
	failed := <-l.failed
	l.failed <- failed
	if failed {
		// That the node is missing now says nothing: what was tried before may have deleted it.
		if err := l.remove(ctx); !errors.Is(err, ErrNodeDeleted) {
			return err
		}
	}
	return ErrReleased
}

// remove deletes the node.
func (l *lease) remove(ctx context.Context) error {
	<-l.failed
	certain := loss(l.endedBy()) != nil // somebody else may have deleted the node, and then others have held
	return l.removed(l.node.remove(ctx, certain))
}

// removed ends a delete of the node, and returns how.
func (l *lease) removed(found bool, err error) error {
	if over := l.node.session.Err(); over != nil && (err != nil || !found) {
		err = over
	} else if err == nil && !found {
		err = l.deletion()
	}
	l.failed <- err != nil
	return err
}

// leave is remove for somebody who has another error to return. It takes no longer than giving a node up.
func (l *lease) leave() {
	ctx, cancel := l.node.leavingIn(context.Background(), leaveTimeout)
	defer cancel()
	_ = l.remove(ctx)
}

// deletion returns the cause if somebody else has deleted the node: the servers, if the session has ended and
// this has not been reported.
func (l *lease) deletion() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lost := loss(l.cause); lost != nil && l.deleted == ErrNodeDeleted {
		return lost
	}
	return l.deleted
}

// show notes that the holder gets its path, token or guard. It reports whether the node is still that of the
// holder.
func (l *lease) show() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown = true
	return l.node.lastLease() == l
}

// fencingToken asks for the czxid of the node, once.
func (l *lease) fencingToken(ctx context.Context) (int64, error) {
	n := l.node
	if !l.show() {
		return 0, ErrReleased
	}
	if token := n.token.Load(); token != 0 {
		return token, nil
	}
	if err := l.endedBy(); err != nil {
		return 0, err
	}
	found, stat, err := n.queue.client.Exists(framework.InSession(ctx, n.session), n.path)
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, l.deletion()
	}
	n.token.Store(stat.Czxid)
	return stat.Czxid, nil
}

// endedBy is why the lease has ended.
func (l *lease) endedBy() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// Leave gives holds back that nobody needs any more, in this order. Unlike Release it does not wait for servers that are out of
// reach, and for others not long, however many holds there are; what is left to do goes on in the background. Nor does it wait for
// whoever releases one of them at the same time.
func Leave(holds []*Hold) {
	limited, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	for _, h := range holds {
		ctx, cancel := h.lease.node.leavingIn(limited, leaveTimeout)
		if d, err := h.lease.drop(h, false); err == nil && d.last {
			_ = h.lease.give(ctx, d) // that it is given back is all that counts
		}
		cancel()
	}
}

// Hold is a lock.Hold.
type Hold struct {
	lease  *lease
	own    context.Context
	cancel context.CancelCauseFunc   // of own
	ctx    context.Context           // own with the values of the context that it was acquired with
	groups []context.CancelCauseFunc // each ends one that the hold is in; guarded by lease.mu
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
func (h *Hold) Release() error {
	l := h.lease
	ctx := l.node.session.Context() // it waits no longer; what is left to do goes on in the background
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
		if multi, ok := err.(*framework.OpError); ok { // what it wraps may say which of ops failed
			err = multi.Err
		}
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
	for _, end := range h.groups {
		end(cause)
	}
	h.groups = nil
}

// Do is that of lock.Hold.
func (h *Hold) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return do(ctx, h.ctx, h.lease.node.path, h.Release, f)
}

// do calls f with a context that ends with held and with ctx, and releases. It does not call f if held has ended.
func do(ctx, held context.Context, path string, release func() error, f func(ctx context.Context) error) (err error) {
	ended := context.Cause(held)
	if f == nil {
		ended = fmt.Errorf("%w: nil function", framework.ErrBadArgument)
	}
	if ended != nil {
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
		lost, released := loss(context.Cause(held)), release()
		if err != nil && lost != nil && !errors.Is(err, lost) && !errors.Is(released, lost) {
			err = errors.Join(err, &framework.OpError{Op: "do", Path: path, Err: lost}) // it may be why f has failed
		}
		err = errors.Join(err, released)
	}()
	return f(inner)
}

// FencingToken is that of lock.Hold.
func (h *Hold) FencingToken(ctx context.Context) (int64, error) {
	token, err := h.lease.fencingToken(ctx)
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
