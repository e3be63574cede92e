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
	"github.com/gocurator/curator/internal/wait"
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

// errUnused ends a lease that has no hold.
var errUnused = errors.New("not used")

// newLease begins a lease of a node that may hold, without a hold. It fails if the session is suspended or lost, or if no
// server has confirmed it in time. l.mu is held when it returns a lease.
func newLease(n *node, policy connstate.ErrorPolicy) (l *lease, err error) {
	l = &lease{node: n, deleted: ErrNodeDeleted, began: time.Now(), failed: make(chan bool, 1)}
	l.failed <- false
	l.mu.Lock()
	undepend, err := n.depend(policy, l.lose)
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

// hasValues gives the context of a hold, which nobody has yet, the values of ctx.
func (h *Hold) hasValues(ctx context.Context) {
	h.ctx = context.WithValue(wait.Join(h.own, ctx), heldKey{h.lease.node.queue}, h)
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

// endedBy is why the lease has ended.
func (l *lease) endedBy() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}
