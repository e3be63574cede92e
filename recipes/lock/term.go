package lock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
)

// term is a period in which a node holds. Re-entrant holds share it. Its contexts end once, by the
// first cause. The last Release is a second event. Each decides the fate of the node:
//
//	the term ends by             fate then          fate at the last Release
//	Release                      -                  passed or deletedNow; returns the result
//	ReleaseWith                  -                  deleted by the transaction, or after a failure
//	ErrSuspended                 stays, watched     deletedNow; nil only if certainly by this client
//	ErrSuspended, then MaxHold   deletedSoon        -
//	ErrShutdown                  as after ErrSuspended
//	ErrSessionLost               isGone             deletedSoon: the servers may still have it
//	ErrClosed                    isGone             -
//	ErrMaxHold, zk.ErrNoAuth     deletedSoon        -
//	ErrNodeDeleted and the like  isGone             -
//
// fateAtEnd decides the second column, expire the row of MaxHold after a suspension, and
// fateAtRelease the third column. apply carries all out: deletedNow calls remove.
//
// A callback of the session or a timer carries its own term. A hold of a node that was handed over
// since ends, guards and re-enters nothing of the node's next term.
type term struct {
	node  *node
	began time.Time

	// The rest is guarded by node.mu.

	holds    []*Hold // not released yet
	cause    error   // nil: the term has not ended
	ended    func()  // ends the dependence on the session, and notifies the observer; nil: the term has not begun
	timer    *time.Timer
	deleted  error     // what a deletion by another client means
	pinned   bool      // the holder has, or may have, passed on its token or guard: the node is not handed over
	deletion *deletion // by Release, the last one; nil: there was none

	room [1]*Hold // of holds, at first
}

// fate is what becomes of a node by an event of its term.
type fate int8

const (
	nothing     fate = iota // the node is deleted already, or another call deletes it
	stays                   // it stays until Release: the work may still run
	isGone                  // it is deleted, or the servers delete it with the session
	passed                  // it is handed over or kept, or else deleted
	deletedNow              // it is deleted, and the caller waits
	deletedSoon             // it is deleted in the background
)

// fateAtEnd returns what becomes of the node when its term is lost.
func fateAtEnd(cause error) fate {
	switch {
	case outlasts(cause):
		return stays
	case errors.Is(cause, ErrMaxHold), errors.Is(cause, zk.ErrNoAuth):
		return deletedSoon
	default:
		return isGone
	}
}

// outlasts reports whether the node is still this client's when its term ends by cause. It is asked
// before any question about [framework.ErrClosed], which ErrShutdown wraps.
func outlasts(cause error) bool {
	return errors.Is(cause, framework.ErrSuspended) || errors.Is(cause, framework.ErrShutdown)
}

// fateAtRelease returns what becomes of the node at the last Release.
func fateAtRelease(r released) fate {
	switch lost := r.lost; {
	case lost == nil && r.kept:
		return passed
	case lost == nil:
		return deletedNow
	case outlasts(lost):
		return deletedNow
	case errors.Is(lost, framework.ErrSessionLost):
		return deletedSoon // the servers may not have ended the session yet
	default:
		return nothing
	}
}

// apply does what a fate says.
func (t *term) apply(ctx context.Context, f fate) error {
	n := t.node
	switch f {
	case stays:
		n.watch(0, nil) // waiters in memory must know when it is deleted, or its session ends
	case isGone:
		n.end()
	case deletedSoon:
		n.leave(0)
	case passed:
		if n.queue.handOver(n) {
			return nil
		}
		n.detach()
		return t.remove(ctx)
	case deletedNow:
		return t.remove(ctx)
	}
	return nil
}

// newHold adds a hold. node.mu is locked.
func (t *term) newHold(ctx context.Context) *Hold {
	h := &Hold{term: t, asked: ctx}
	h.self = h
	h.own, h.cancel = context.WithCancelCause(context.Background())
	h.hasValues(ctx)
	t.holds = append(t.holds, h)
	return h
}

// again returns another hold of the lease with the values of ctx, or why the term has ended.
func (t *term) again(ctx context.Context) (*Hold, error) {
	t.node.mu.Lock()
	defer t.node.mu.Unlock()
	if t.cause != nil {
		return nil, t.cause
	}
	return t.newHold(ctx), nil
}

// lose ends the term because it was lost, unless it has ended. It does not block.
func (t *term) lose(cause error) {
	if !t.end(cause) || errors.Is(cause, framework.ErrClosed) { // also ErrShutdown
		return
	}
	log := engine.Of(t.node.queue.client).Logger()
	if !log.Enabled(context.Background(), slog.LevelWarn) {
		return
	}
	// The logger may block.
	go log.Warn(t.node.queue.cfg.noun+" lost", "path", t.node.path, "held", time.Since(t.began), "reason", cause)
}

// Path, Stop and Held are for [engine.Work].
func (t *term) Path() string     { return t.node.path }
func (t *term) Stop(cause error) { t.lose(cause) }
func (t *term) Held() bool       { return true }

// finished is called when nothing of the term is left to do.
func (t *term) finished() { engine.Of(t.node.queue.client).Finished(t) }

// end ends the contexts of the holds, and then applies the fate of the node. It reports whether a
// term that had begun has ended by this call.
func (t *term) end(cause error) bool {
	n := t.node
	n.mu.Lock()
	if t.cause != nil {
		n.mu.Unlock()
		return false
	}
	t.cause = cause
	for _, h := range t.holds {
		h.end(cause)
	}
	ended, f := t.ended, fateAtEnd(cause)
	if t.timer != nil && f != stays {
		t.timer.Stop()
	}
	if f == stays && n.state == held {
		n.state = stranded
	}
	if f == deletedSoon {
		n.marked = left // the work may still run
	}
	n.mu.Unlock()
	if ended == nil { // it is just about to begin, and does not
		return false
	}
	ended()
	_ = t.apply(context.Background(), f) // nothing that is waited for
	return true
}

// expire is called when the time of WithMaxHold has passed: it deletes the node, even if the holder
// has lost it by ErrSuspended and has not released.
func (t *term) expire() {
	n := t.node
	n.mu.Lock()
	stuck := outlasts(t.cause) && len(t.holds) > 0
	if stuck {
		t.deleted, n.marked = ErrMaxHold, left
	}
	n.mu.Unlock()
	if stuck {
		n.leave(0)
	} else {
		t.lose(ErrMaxHold)
	}
}

// released is what drop has done.
type released struct {
	last  bool
	kept  bool   // the node may be handed over or kept
	lost  error  // why the term had ended before
	ended func() // notifies the observer
}

// drop removes a hold that is released. The term ends with its last one. The error is ErrReleased
// if the hold was released before. With alone, other errors are why the term was lost, and
// framework.ErrBadArgument if it has other holds: then nothing happens.
func (t *term) drop(h *Hold, alone bool) (r released, err error) {
	h = h.self
	n := t.node
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.Index(t.holds, h)
	r.lost = loss(t.cause)
	switch {
	case i < 0:
		err = ErrReleased
	case alone && r.lost != nil:
		err = r.lost
	case alone && len(t.holds) > 1:
		err = fmt.Errorf("%w: the lease has other holds", framework.ErrBadArgument)
	}
	if err != nil {
		return r, err
	}
	t.holds = slices.Delete(t.holds, i, i+1)
	h.end(ErrReleased)
	r.last, r.ended = len(t.holds) == 0, func() {}
	if r.last && t.timer != nil {
		t.timer.Stop() // after ErrSuspended it was still needed
	}
	if r.last && t.cause == nil {
		t.cause, r.ended = ErrReleased, t.ended
		if !alone && n.queue.keeps() && n.state == held && !t.pinned && time.Since(n.since) < lendLimit {
			n.state, n.term, r.kept = kept, nil, true
		}
	}
	return r, nil
}

// finish ends the last Release: the observer is notified, and then the fate of the node is applied,
// even if the observer panics.
func (t *term) finish(ctx context.Context, r released) (err error) {
	defer t.finished()
	defer func() {
		if err = t.apply(ctx, fateAtRelease(r)); err == nil && !outlasts(r.lost) {
			err = r.lost
		}
	}()
	r.ended()
	return nil
}

// deletion is a deletion of a node that Release waits for. err is set before done is closed.
type deletion struct {
	done chan struct{}
	err  error
}

// releasedAlready returns what Release returns for a hold that was released before. It waits for a
// deletion in progress, and repeats one that has failed.
func (t *term) releasedAlready(ctx context.Context) error {
	n := t.node
	n.mu.Lock()
	lost, d := loss(t.cause), t.deletion
	n.mu.Unlock()
	if lost != nil && !outlasts(lost) {
		return lost
	}
	if d == nil {
		return ErrReleased
	}
	<-d.done
	if d.err == nil {
		return ErrReleased
	}
	// That the node is missing now says nothing: the deletion before may have been carried out.
	if err := t.remove(ctx); !errors.Is(err, ErrNodeDeleted) {
		return err
	}
	return ErrReleased
}

// remove deletes the node. One deletion runs at a time: a second call waits for the first one, and
// then sends its own.
func (t *term) remove(ctx context.Context) error {
	n := t.node
	mine := &deletion{done: make(chan struct{})}
	for before := t.takeDeletion(mine); before != nil; before = t.takeDeletion(mine) {
		<-before.done
	}
	defer close(mine.done)
	mine.err = errPanicked          // if an observer of the deletion panics
	certain := loss(t.why()) != nil // another client may have deleted the node, and then others have held
	found, err := n.remove(ctx, certain)
	if over := n.session.Err(); over != nil && (err != nil || !found) {
		err = over
	} else if err == nil && !found {
		err = t.deletedBy()
	}
	mine.err = err
	return err
}

// takeDeletion begins a deletion, unless there is one in progress, which it returns.
func (t *term) takeDeletion(d *deletion) (before *deletion) {
	t.node.mu.Lock()
	defer t.node.mu.Unlock()
	if t.deletion != nil && !wait.Closed(t.deletion.done) {
		return t.deletion
	}
	t.deletion = d
	return nil
}

// leave is remove for a caller that has another error to return. It takes no longer than giving a
// node up.
func (t *term) leave() {
	ctx, cancel := t.node.leavingIn(context.Background(), leaveTimeout)
	defer cancel()
	_ = t.remove(ctx)
}

// deletedBy returns the cause if another client has deleted the node: the servers, if the session
// has ended and this has not been reported.
func (t *term) deletedBy() error {
	t.node.mu.Lock()
	defer t.node.mu.Unlock()
	if lost := loss(t.cause); lost != nil && t.deleted == ErrNodeDeleted {
		return lost
	}
	return t.deleted
}

func (t *term) expectDeletion(cause error) {
	t.node.mu.Lock()
	defer t.node.mu.Unlock()
	t.deleted = cause
}

// pin has the node deleted at the release. It reports whether the node is still in this term.
func (t *term) pin() bool {
	t.node.mu.Lock()
	defer t.node.mu.Unlock()
	t.pinned = true
	return t.node.term == t
}

// why returns why the term has ended, or nil.
func (t *term) why() error {
	t.node.mu.Lock()
	defer t.node.mu.Unlock()
	return t.cause
}

// isHeld reports whether a hold of the term has not been released.
func (t *term) isHeld() bool {
	t.node.mu.Lock()
	defer t.node.mu.Unlock()
	return len(t.holds) > 0
}

// fencingToken asks for the czxid of the node, once.
func (t *term) fencingToken(ctx context.Context) (int64, error) {
	n := t.node
	if !t.pin() {
		return 0, ErrReleased
	}
	n.mu.Lock()
	token, cause := n.token, t.cause
	n.mu.Unlock()
	if token != 0 {
		return token, nil
	}
	if cause != nil {
		return 0, cause
	}
	found, stat, err := n.client.Exists(ctx, n.path)
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, t.deletedBy()
	}
	n.mu.Lock()
	n.token = stat.Czxid
	n.mu.Unlock()
	return stat.Czxid, nil
}
