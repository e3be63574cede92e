package lock

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

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
	lockapi.Leave = func(hold any) {
		h := hold.(*Hold)
		ctx, cancel := h.lease.entry.leaving()
		defer cancel()
		_ = h.release(ctx) // that it is given back is all that counts
	}
}

// lease is the time for which a node holds. All holds that re-entered share it. It is held first. Then it is either
// released, when the last hold is, or lost; never both.
type lease struct {
	entry *entry
	began time.Time
	ctx   context.Context // ends with the lease
	end   context.CancelCauseFunc

	tellEnded func() // nil when nobody observes; set before Acquire returns

	mu       sync.Mutex // guards what follows
	holds    int        // not released yet
	released bool       // the node is being deleted by us, or was passed on
	passed   bool       // on to the next hold: the node is not ours any more
	lost     error      // why the lease is not ours any more; nil if it was not lost
	deleted  error      // what a deletion by somebody else means
	removal  *removal
	token    int64 // 0: not known yet
	shown    bool  // the holder has, or may have, told others of its node

	undepend func() bool // ends the dependence on the session
	maxHold  *time.Timer // nil: no limit
}

// removal is one try to delete the node.
type removal struct {
	done chan struct{}
	err  error // once done is closed
}

// watchAfter is how long a hold must last before its node is watched, if there is no view. Most holds
// are shorter, and need not pay for it.
const watchAfter = 5 * time.Millisecond

// newHold begins the lease of an entry whose turn it is. It fails if the session is in
// trouble, or if it is so long since a server confirmed it that it may be.
func newHold(ctx context.Context, e *entry) (*Hold, error) {
	l := &lease{entry: e, deleted: ErrNodeDeleted, began: time.Now(), token: e.token}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	undepend, err := e.session.Depend(e.queue.cfg.policy, l.lose)
	if err != nil {
		l.end(err)
		return nil, err
	}
	if err := e.begin(l); err != nil {
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

// lose ends the lease without the holder's doing. It does not block.
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
	case errors.Is(cause, ErrMaxHold), errors.Is(cause, ErrSessionLost):
		// In the second case the servers do it as well, but it may take them a
		// while: we gave the session up before they did.
		l.entry.leaveSoon()
	case errors.Is(cause, ErrClosed):
		l.entry.end()
	case errors.Is(cause, ErrSuspended):
		// The node may stay for as long as the session. Those who wait for it in
		// memory must hear when it goes.
		l.entry.watch(0)
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

// logLoss writes a line for whoever looks for the reason of what a holder did, or did not do. It does not block; whoever
// takes the lines may.
func (l *lease) logLoss(cause error) {
	log := l.entry.queue.client.Logger()
	if !errors.Is(cause, ErrClosed) && log.Enabled(context.Background(), slog.LevelWarn) {
		go log.Warn("lock lost", "path", l.entry.path, "held", time.Since(l.began), "reason", cause)
	}
}

// finish tells the holds, and ends what runs for the lease.
func (l *lease) finish(cause error) {
	l.end(cause)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.undepend()
	if l.maxHold != nil && !errors.Is(cause, ErrSuspended) {
		l.maxHold.Stop()
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
	case l.lostForGood(lost):
		return lost
	case lost != nil:
		return l.remove(ctx)
	}
	// First the holder hears of it, then the next one may come in. The other
	// way round both would believe in the lock while the delete travels.
	l.finish(ErrReleased)
	if l.tellEnded != nil {
		l.tellEnded()
	}
	switch {
	case next != nil:
		next <- l.entry
		return nil
	case l.entry.queue.cfg.async:
		return l.removeSoon()
	}
	return l.remove(ctx)
}

// lostForGood reports whether a loss cannot have ended well.
func (l *lease) lostForGood(lost error) bool {
	return lost != nil && !errors.Is(lost, ErrSuspended)
}

// releasedAlready is what Release returns for a hold that was released before. A removal that failed is
// repeated; one that is under way is waited for.
func (l *lease) releasedAlready(ctx context.Context) error {
	l.mu.Lock()
	lost, removal := l.lost, l.removal
	l.mu.Unlock()
	switch {
	case l.lostForGood(lost):
		return lost
	case removal != nil:
		<-removal.done
		if removal.err != nil {
			return l.remove(ctx)
		}
	}
	return ErrReleased
}

// remove deletes the node. Whoever comes while that is under way waits for it; a removal that
// failed is repeated.
func (l *lease) remove(ctx context.Context) error {
	l.mu.Lock()
	r := l.removal
	mine := r == nil || isClosed(r.done) && r.err != nil
	if mine {
		r = &removal{done: make(chan struct{})}
		l.removal = r
	}
	l.mu.Unlock()
	if !mine {
		<-r.done
		return r.err
	}
	found, err := l.entry.remove(ctx)
	if over := l.entry.session.Err(); over != nil && (err != nil || !found) {
		err = over
	} else if err == nil && !found {
		err = l.deletion()
	}
	r.err = err
	close(r.done)
	return err
}

// deletion is what it means if somebody else has deleted the node: the servers, if the session has ended
// without our knowing.
func (l *lease) deletion() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil && l.deleted == ErrNodeDeleted {
		return l.lost
	}
	return l.deleted
}

// show says that the holder will have what proves its hold to others. It reports whether the node is still
// the holder's to show.
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
