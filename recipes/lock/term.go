package lock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
)

// term is a period in which a node holds. Re-entrant holds share it. Its contexts end once, by the
// first cause. The loss of the term and its last Release are events of the node: see lossBy,
// releaseOf and [steps].
//
// A callback of the session or a timer carries its own term. A hold of a node that was handed over
// since ends, guards and re-enters nothing of the node's next term.
type term struct {
	node  *node
	began time.Time

	// The rest is guarded by node.mu.

	holds    []*Hold // not released yet
	cause    error   // nil: the term has not ended
	ended    func()  // ends the dependence on the session, and notifies the observer
	timer    *time.Timer
	deleted  error     // what a deletion by another client means
	pinned   bool      // the holder has, or may have, passed on its token or guard: the node is not handed over
	deletion *deletion // by Release, the last one; nil: there was none

	room [1]*Hold // of holds, at first
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

// lose takes that the term is lost, unless it has ended. After a suspension ErrMaxHold still
// deletes the node. It does not block.
func (t *term) lose(cause error) {
	n := t.node
	n.mu.Lock()
	var o outcome
	switch {
	case n.term == t && (n.state == held || n.state == stranded):
		o = n.happens(lossBy(cause), cause)
	case t.cause == nil: // it is just about to begin, and does not
		t.cause = cause
	}
	n.mu.Unlock()
	n.carryOut(o)
}

// end ends the contexts of the holds. node.mu is locked.
func (t *term) end(cause error) {
	t.cause = cause
	for _, h := range t.holds {
		h.end(cause)
	}
}

// stopTimer ends WithMaxHold. node.mu is locked.
func (t *term) stopTimer() {
	if t.timer != nil {
		t.timer.Stop()
	}
}

// wasLost is called when the term was lost, without the mutex.
func (t *term) wasLost() {
	t.ended()
	cause := t.why()
	if errors.Is(cause, framework.ErrClosed) { // also ErrShutdown
		return
	}
	log := engine.Of(t.node.queue.client).Logger()
	if !log.Enabled(context.Background(), slog.LevelWarn) {
		return
	}
	// The logger may block.
	go log.Warn(t.node.queue.cfg.recipe.Noun+" lost", "path", t.node.path, "held", time.Since(t.began), "reason", cause)
}

// Path, Stop and Held are for [engine.Work].
func (t *term) Path() string     { return t.node.path }
func (t *term) Stop(cause error) { t.lose(cause) }
func (t *term) Held() bool       { return true }

// finished is called when nothing of the term is left to do.
func (t *term) finished() { engine.Of(t.node.queue.client).Finished(t) }

// released is what drop has done.
type released struct {
	last    bool
	lost    error   // why the term had ended before
	outcome outcome // of the last release
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
	if r.last = len(t.holds) == 0; r.last {
		keep := !alone && n.queue.keeps() && !t.pinned && time.Since(n.since) < handOffLimit
		r.outcome = n.happens(releaseOf(r.lost, keep), ErrReleased)
	}
	return r, nil
}

// finish ends the last Release: the observer is notified, and then the outcome is carried out, even
// if the observer panics.
func (t *term) finish(ctx context.Context, r released) (err error) {
	defer t.finished()
	defer func() {
		if err = t.settle(ctx, r.outcome.action); err == nil && !outlasts(r.lost) {
			err = r.lost
		}
	}()
	r.notify()
	return nil
}

// notify notifies the observer of a release by which the term has ended.
func (r released) notify() {
	if t := r.outcome.ended; t != nil {
		t.ended()
	}
}

// settle carries out what the last Release has left to do with the node.
func (t *term) settle(ctx context.Context, a action) error {
	switch {
	case a == discard:
		t.node.discard()
	case a == remove, a == offer && !t.node.queue.handOver(t.node):
		return t.remove(ctx)
	}
	return nil
}

// deletion is a deletion of a node that Release waits for. err is set before done is closed.
type deletion struct {
	with    engine.Companion
	certain bool // another client may have deleted the node, and then others have held
	done    chan struct{}
	err     error
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
	for before := t.beginDeletion(mine); before != nil; before = t.beginDeletion(mine) {
		<-before.done
	}
	defer close(mine.done)
	mine.err = errPanicked // if an observer of the deletion panics
	found, err := n.remove(ctx, mine.with, mine.certain)
	if over := n.session.Err(); over != nil && (err != nil || !found) {
		err = over
	} else if err == nil && !found {
		err = t.deletedBy()
	}
	mine.err = err
	return err
}

// beginDeletion begins a deletion, unless there is one in progress, which it returns.
func (t *term) beginDeletion(d *deletion) (before *deletion) {
	t.node.mu.Lock()
	defer t.node.mu.Unlock()
	if t.deletion != nil && !wait.Closed(t.deletion.done) {
		return t.deletion
	}
	d.with, d.certain = t.node.companion(), loss(t.cause) != nil
	t.deletion = d
	return nil
}

// giveUp deletes the node for a caller that has another error to return. It takes no longer than
// giving up a node.
func (t *term) giveUp() {
	ctx, cancel := t.node.givingUp(context.Background())
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
