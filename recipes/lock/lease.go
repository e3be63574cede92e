package lock

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
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
		ctx, cancel := h.lease.entry.leavingIn(limited)
		_ = h.release(ctx) // that it is given back is all that counts
		cancel()
	}
}

// lease is the state of a node that holds. All holds that re-entered share it. It ends once: it is released
// with its last hold, or lost.
type lease struct {
	entry *entry
	began time.Time
	ctx   context.Context // ends with the lease
	end   context.CancelCauseFunc

	tellEnded func() // nil when nobody observes; set before Acquire returns

	mu       sync.Mutex // guards what follows
	holds    int        // not released yet
	leaving  bool       // the last hold is about to be released: nobody re-enters
	released bool       // the node is being deleted by us, or was passed on
	passed   bool       // on to the next hold: the node is not ours any more
	lost     error      // why the lease is not ours any more; nil if it was not lost
	deleted  error      // what a deletion by somebody else means
	removal  *removal
	token    int64              // 0: not known yet
	shown    bool               // the holder has, or may have, told others of its node
	groups   map[*Hold][]*Group // that end with a hold

	undepend func() bool // ends the dependence on the session
	maxHold  *time.Timer // nil: no limit
}

// removal is one try to delete the node.
type removal struct {
	done chan struct{}
	err  error // once done is closed
}

// watchAfter is how long a hold must last before its node is watched, if there is no view. Most holds are
// shorter and save the watch.
const watchAfter = 5 * time.Millisecond

// newHold begins the lease of an entry that may hold. It fails if the session is suspended or lost, or if no
// server has confirmed it in time.
func newHold(ctx context.Context, e *entry) (*Hold, error) {
	l := &lease{entry: e, deleted: ErrNodeDeleted, began: time.Now(), token: e.token}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	undepend, err := e.depend(e.queue.cfg.policy, l.lose)
	if err != nil {
		l.end(err)
		return nil, err
	}
	if err := e.begin(l); err != nil {
		l.released = true // a loss that is being told at this moment has nothing to end
		undepend()
		l.end(err)
		return nil, err
	}
	if e.inView() == nil {
		e.watch(watchAfter)
	}
	l.undepend = undepend
	if d := e.queue.cfg.maxHold; d > 0 {
		l.maxHold = time.AfterFunc(d, l.endMaxHold)
	}
	return l.newHold(ctx), nil
}

// newHold adds a hold. l.mu is held.
func (l *lease) newHold(ctx context.Context) *Hold {
	l.holds++
	h := &Hold{lease: l}
	var own context.Context
	own, h.cancel = context.WithCancelCause(l.ctx)
	h.ctx = holdContext{
		Context: context.WithValue(own, heldKey{l.entry.queue}, h),
		values:  context.WithoutCancel(ctx),
	}
	return h
}

// holdContext ends with a hold, and has the values of the context that it was acquired
// with.
type holdContext struct {
	context.Context
	values context.Context
}

func (c holdContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// lose ends the lease because it was lost. It does not block.
func (l *lease) lose(cause error) {
	l.mu.Lock()
	if l.released || l.lost != nil {
		l.mu.Unlock()
		return
	}
	l.lost = cause
	l.mu.Unlock()
	l.finish(cause)
	l.logLoss(cause)
	switch {
	case errors.Is(cause, ErrMaxHold):
		l.entry.leaveSoon()
	case errors.Is(cause, ErrSessionLost), errors.Is(cause, ErrClosed):
		// The servers delete the node, but later if we gave the session up before they did. Until Release we must not
		// delete it: the holder's work may still run.
		l.entry.end()
	case errors.Is(cause, ErrSuspended):
		// The node may exist as long as the session. Waiters in memory must be told when it is deleted.
		l.entry.watch(0)
	case errors.Is(cause, zk.ErrNoAuth):
		l.entry.leaveSoon()
	}
}

// endMaxHold is called when the time of WithMaxHold has passed: it deletes the node, also
// that of a holder that was told ErrSuspended and has not released.
func (l *lease) endMaxHold() {
	l.mu.Lock()
	stuck := errors.Is(l.lost, ErrSuspended) && l.removal == nil
	if stuck {
		l.deleted = ErrMaxHold
	}
	l.mu.Unlock()
	if stuck {
		l.entry.leaveSoon()
	} else {
		l.lose(ErrMaxHold)
	}
}

// logLoss logs a loss. It does not block, although the logger may.
func (l *lease) logLoss(cause error) {
	log := l.entry.queue.client.Logger()
	if !errors.Is(cause, ErrClosed) && log.Enabled(context.Background(), slog.LevelWarn) {
		go log.Warn(l.entry.queue.noun+" lost", "path", l.entry.path, "held", time.Since(l.began), "reason", cause)
	}
}

// finish cancels the contexts of the holds and of their groups, and ends what runs for the lease.
func (l *lease) finish(cause error) {
	l.end(cause)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, groups := range l.groups {
		endAll(groups, cause)
	}
	l.groups = nil
	l.undepend()
	if l.maxHold != nil && !errors.Is(cause, ErrSuspended) {
		l.maxHold.Stop()
	}
}

func endAll(groups []*Group, cause error) {
	for _, g := range groups {
		g.end(cause)
	}
}

// release is called once, when the last hold is released.
func (l *lease) release(ctx context.Context) error {
	l.mu.Lock()
	lost := l.lost
	l.released = lost == nil
	var next chan *entry
	if l.released {
		if next = l.nextLocal(); next != nil {
			l.passed = true
		}
	}
	l.mu.Unlock()
	switch {
	case errors.Is(lost, ErrSessionLost):
		l.entry.leaveSoon() // the servers may not have ended the session yet
		return lost
	case l.lostForGood(lost):
		return lost
	case lost != nil:
		return l.remove(ctx)
	}
	// The holder's context ends before the node is deleted. Otherwise two contexts would be live until the
	// reply to the delete is here.
	l.finish(ErrReleased)
	if l.tellEnded != nil {
		l.tellEnded()
	}
	switch {
	case next != nil:
		next <- l.entry
		return nil
	case l.entry.queue.cfg.async:
		l.removeSoon()
		return nil
	}
	return l.remove(ctx)
}

// lostForGood reports whether somebody else may have held after the loss.
func (l *lease) lostForGood(lost error) bool {
	return lost != nil && !errors.Is(lost, ErrSuspended)
}

// releasedAlready returns what Release returns for a hold that was released before. It repeats a removal that
// failed, and waits for one that is running.
func (l *lease) releasedAlready(ctx context.Context) error {
	l.mu.Lock()
	lost, removal := l.lost, l.removal
	l.mu.Unlock()
	switch {
	case l.lostForGood(lost):
		return lost
	case removal != nil:
		<-removal.done
		if removal.err == nil {
			break
		}
		// That the node is missing now says nothing: what was tried before may have deleted it.
		if err := l.remove(ctx); !errors.Is(err, ErrNodeDeleted) {
			return err
		}
	}
	return ErrReleased
}

// remove deletes the node. If a removal is running, it waits for that one. A removal that failed is repeated.
func (l *lease) remove(ctx context.Context) error {
	l.mu.Lock()
	r := l.removal
	mine := r == nil || isClosed(r.done) && r.err != nil
	if mine {
		r = &removal{done: make(chan struct{})}
		l.removal = r
	}
	lost := l.lost != nil
	if l.maxHold != nil {
		l.maxHold.Stop() // after ErrSuspended it was still needed
	}
	l.mu.Unlock()
	if !mine {
		<-r.done
		return r.err
	}
	if lost { // somebody else may have deleted the node, and then others have held
		ctx = engine.WithHints(ctx, engine.Hints{Certain: true})
	}
	found, err := l.entry.remove(ctx)
	return l.finishRemoval(r, found, err)
}

// finishRemoval notes how a removal has ended, and returns what it means for the lease.
func (l *lease) finishRemoval(r *removal, found bool, err error) error {
	if over := l.entry.session.Err(); over != nil && (err != nil || !found) {
		err = over
	} else if err == nil && !found {
		err = l.deletion()
	}
	r.err = err
	close(r.done)
	return err
}

// deletion returns the cause if somebody else has deleted the node: the servers, if the session has ended and
// we were not told.
func (l *lease) deletion() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil && l.deleted == ErrNodeDeleted {
		return l.lost
	}
	return l.deleted
}

// show notes that the holder gets its path, token or guard. It reports whether the node is still that of the
// holder.
func (l *lease) show() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown = true
	return !l.passed
}

// fencingToken asks for the czxid of our node, once.
func (l *lease) fencingToken(ctx context.Context) (int64, error) {
	l.mu.Lock()
	token := l.token
	l.mu.Unlock()
	if token != 0 {
		return token, nil
	}
	if l.ctx.Err() != nil {
		return 0, context.Cause(l.ctx)
	}
	found, stat, err := l.entry.queue.client.Exists(framework.InSession(ctx, l.entry.session), l.entry.path)
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, l.deletion()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.token = stat.Czxid
	return stat.Czxid, nil
}
