package lock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// Hold is a lease that we have: what Acquire returns. It ends once, by Release or by a
// loss, and does not come back; acquire again instead.
//
// All methods are safe for concurrent use.
type Hold struct {
	tenure *tenure
	ctx    context.Context
	cancel context.CancelCauseFunc

	released bool // guarded by tenure.mu
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
	h.tenure.show()
	return h.tenure.place.path
}

// Session is the session that the lease's node belongs to.
func (h *Hold) Session() *framework.Session { return h.tenure.place.session }

// Client is the client that the lock was made with, for recipes that build on holds.
func (h *Hold) Client() *framework.Client { return h.tenure.place.queue.client }

// ExpectDeletion sets the cause that is told if somebody else deletes the lease's node from
// now on, in place of [ErrNodeDeleted]. It is for recipes whose holders are asked before
// that is done, as in package revocable. cause should wrap ErrNodeDeleted, for those
// who look for that. It is set for all holds of the lease.
func (h *Hold) ExpectDeletion(cause error) {
	h.tenure.mu.Lock()
	defer h.tenure.mu.Unlock()
	h.tenure.deleted = cause
}

// Release gives the lease back. First the context ends, with [ErrReleased]; then the
// node is deleted. Release returns when the server has confirmed that, or when
// the session is over, which deletes the node as well. It needs no context: a
// lock must not stay because a caller was in a hurry.
//
// A hold that re-entered gives back nothing until the last hold of its lease is
// released.
//
// If the lease was lost before, Release says so with the cause of the loss. Called again
// it returns [ErrReleased], or once more what went wrong.
func (h *Hold) Release() error {
	t := h.tenure
	t.mu.Lock()
	again := h.released
	h.released = true
	if !again {
		t.holds--
	}
	last, lost, passed := t.holds == 0, t.lost, t.passed
	t.mu.Unlock()

	h.cancel(ErrReleased)
	err := lost
	switch {
	case again && (passed || t.removed()):
		err = ErrReleased
	case last && lost == nil:
		// First the holder hears of it, then the next one may come in. The other
		// way round both would believe in the lock while the delete travels.
		heir := t.heir()
		t.finish(ErrReleased)
		if t.tellEnded != nil {
			t.tellEnded()
		}
		t.place.queue.pace.held.note(time.Since(t.began))
		if heir != nil {
			heir <- t.place
			break
		}
		err = t.remove()
	case last && errors.Is(lost, ErrSuspended):
		_ = t.remove() // the loss is the news
	case again && lost == nil:
		err = ErrReleased
	}
	if err != nil {
		return fmt.Errorf("release %s: %w", t.place.path, err)
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
	h.tenure.show()
	token, err := h.tenure.token(ctx)
	if err != nil {
		return 0, fmt.Errorf("fencing token of %s: %w", h.tenure.place.path, err)
	}
	return token, nil
}

// Guard is an operation for [framework.Client.Multi], on the client that the lock was made
// with: the Multi succeeds only if the lease's node is there. If not, it
// fails with zk.ErrNoNode and nothing is written.
//
//	client.Multi(ctx, hold.Guard(), &zk.SetDataRequest{...})
func (h *Hold) Guard() *zk.CheckVersionRequest {
	path := h.tenure.place.path
	if !h.tenure.show() {
		path += passedOn // the node is there, but it is another holder's
	}
	return &zk.CheckVersionRequest{Path: path, Version: -1}
}

// passedOn makes of a node's path one that no node has.
const passedOn = "-passed-on"

// again is re-entrance: another hold of the same lease.
func (h *Hold) again(ctx context.Context) (*Hold, error) {
	t := h.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost != nil {
		return nil, t.lost
	}
	if h.released {
		return nil, ErrReleased
	}
	return t.newHold(ctx), nil
}

// heldKey finds the hold that a context comes from, for one lock.
type heldKey struct{ queue *Queue }

// HeldIn returns the hold of this Queue that ctx comes from, or nil. The hold may have
// ended since.
func (q *Queue) HeldIn(ctx context.Context) *Hold {
	h, _ := ctx.Value(heldKey{q}).(*Hold)
	return h
}

// tenure is the time for which a node has a lease. All holds of the lease share it.
type tenure struct {
	place *place
	began time.Time
	ctx   context.Context // ends with the tenure
	end   context.CancelCauseFunc

	tellEnded func() // nil when nobody observes; set before Acquire returns

	mu      sync.Mutex // guards what follows
	stops   []func() bool
	holds   int   // not released yet
	lost    error // why the lease is not ours any more
	deleted error // what a deletion by somebody else means
	removal *removal
	czxid   int64
	shown   bool // the holder has, or may have, told others of its node
	passed  bool // on to the next holder: the node is not ours any more
}

// removal is one try to delete the node.
type removal struct {
	done chan struct{}
	err  error // once done is closed
}

// watchAfter is how long a hold must last before its node is watched. Most holds
// are shorter, and need not pay for it.
const watchAfter = 5 * time.Millisecond

// newHold begins the tenure of a place whose turn it is. It fails if the session is in
// trouble, or if it is so long since a server confirmed it that it may be.
func newHold(ctx context.Context, p *place) (*Hold, error) {
	t := &tenure{place: p, deleted: ErrNodeDeleted, began: time.Now()}
	t.ctx, t.end = context.WithCancelCause(context.Background())
	t.mu.Lock()
	defer t.mu.Unlock()
	stop, err := p.session.Depend(p.queue.cfg.policy, t.lose)
	if err != nil {
		t.end(err)
		return nil, err
	}
	if err := p.begin(t); err != nil {
		stop()
		t.end(err)
		return nil, err
	}
	p.watch(watchAfter)
	t.stops = append(t.stops, stop)
	if d := p.queue.cfg.maxHold; d > 0 {
		t.stops = append(t.stops, time.AfterFunc(d, func() { t.lose(ErrMaxHold) }).Stop)
	}
	return t.newHold(ctx), nil
}

// newHold adds a hold. t.mu is held.
func (t *tenure) newHold(ctx context.Context) *Hold {
	t.holds++
	h := &Hold{tenure: t}
	var own context.Context
	own, h.cancel = context.WithCancelCause(t.ctx)
	h.ctx = holdContext{
		Context: context.WithValue(own, heldKey{t.place.queue}, h),
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

// lose ends the tenure without the holder's doing. It does not block.
func (t *tenure) lose(cause error) {
	t.mu.Lock()
	if t.ctx.Err() != nil || t.passed {
		t.mu.Unlock()
		return
	}
	t.lost = cause
	t.mu.Unlock()
	t.finish(cause)
	t.logLoss(cause)
	switch {
	case errors.Is(cause, ErrMaxHold), errors.Is(cause, ErrSessionLost):
		// In the second case the servers do it as well, but it may take them a
		// while: we gave the session up before they did.
		t.place.leaveSoon()
	case errors.Is(cause, ErrNodeDeleted), errors.Is(cause, ErrClosed):
		t.place.end(false)
	}
}

// logLoss writes a line for whoever looks for the reason of what a holder did, or did not do. It does not block; whoever
// takes the lines may.
func (t *tenure) logLoss(cause error) {
	log := t.place.queue.client.Logger()
	if !errors.Is(cause, ErrClosed) && log.Enabled(context.Background(), slog.LevelWarn) {
		go log.Warn("lock lost", "path", t.place.path, "held", time.Since(t.began), "reason", cause)
	}
}

// finish tells the holds, and ends what runs for the tenure.
func (t *tenure) finish(cause error) {
	t.end(cause)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.passed {
		t.place.unwatchNode()
	}
	for _, stop := range t.stops {
		stop()
	}
	t.stops = nil
}

// remove deletes the node. Whoever comes while that is under way waits for it; a removal that
// failed is repeated.
func (t *tenure) remove() error {
	t.mu.Lock()
	r := t.removal
	mine := r == nil || r.isDone() && r.err != nil
	if mine {
		r = &removal{done: make(chan struct{})}
		t.removal = r
	}
	t.mu.Unlock()
	if !mine {
		<-r.done
		return r.err
	}
	session := t.place.session
	found, err := t.place.remove(session.Context())
	switch {
	case err != nil && session.Err() != nil:
		err = session.Err()
	case err == nil && !found:
		err = t.deletion()
	}
	r.err = err
	close(r.done)
	return err
}

func (r *removal) isDone() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// removed reports whether the node has been deleted by us.
func (t *tenure) removed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.removal != nil && t.removal.isDone() && t.removal.err == nil
}

// deletion is what it means if somebody else has deleted the node.
func (t *tenure) deletion() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deleted
}

// token asks for the czxid of our node, once.
func (t *tenure) token(ctx context.Context) (int64, error) {
	t.mu.Lock()
	czxid := t.czxid
	t.mu.Unlock()
	if czxid != 0 {
		return czxid, nil
	}
	if t.ctx.Err() != nil {
		return 0, context.Cause(t.ctx)
	}
	found, stat, err := t.place.queue.client.Exists(framework.InSession(ctx, t.place.session), t.place.path)
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, t.deletion()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.czxid = stat.Czxid
	return stat.Czxid, nil
}
