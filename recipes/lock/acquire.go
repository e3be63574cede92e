package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/lock/internal/queueview"
)

// enter re-enters a hold that ctx comes from, or acquires a new one.
func (q *Queue) enter(ctx context.Context, wait bool) (*Hold, error) {
	if outer := q.HeldIn(ctx); outer != nil && !q.cfg.plain {
		return outer.again(ctx)
	}
	if o := q.observer(); o != nil && ctx.Value(observedKey{q}) == nil {
		return q.observed(ctx, func(ctx context.Context) (*Hold, error) { return q.obtain(ctx, wait) }, o)
	}
	return q.obtain(ctx, wait)
}

// obtain acquires a new hold.
func (q *Queue) obtain(ctx context.Context, wait bool) (h *Hold, err error) {
	if q.local != nil {
		h, err = q.local.acquire(ctx, q, wait)
	} else {
		h, err = q.contend(ctx, wait)
	}
	return h, q.unreachable(ctx, err)
}

// unreachable is err, or that no server could be reached if err says that ctx is done, and there is no connection: then
// nobody knows whether somebody else holds.
func (q *Queue) unreachable(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, zk.ErrNoServer) || q.client.State().IsConnected() {
		return err
	}
	return fmt.Errorf("%w: %w", wait.Err(ctx), zk.ErrNoServer)
}

// contend acquires a new hold in the servers' queue, in one session after the other.
func (q *Queue) contend(ctx context.Context, wait bool) (*Hold, error) {
	look := !wait && !q.keeps() // a node that is there may be one that is kept, and goes when ours comes
	var pauses backoff.BackOff
	for {
		session, err := q.client.Session(ctx)
		if err != nil {
			return nil, err
		}
		v := q.view(session)
		if look {
			if err := q.look(ctx, v); err != nil {
				return nil, err
			}
			look = false
		}
		h, err := q.acquire(ctx, session, v, wait)
		if err == nil {
			return h, nil
		}
		var lost *nodeLost
		if !errors.As(err, &lost) {
			return nil, err
		}
		if pauses == nil {
			pauses = q.client.RetryPolicy().NewBackOff()
		}
		pause := pauses.NextBackOff()
		if pause == backoff.Stop {
			return nil, lost.cause
		}
		if err := engine.Sleep(ctx, engine.Of(q.client), pause); err != nil {
			return nil, err
		}
	}
}

// nodeLost means that our node was deleted before we held, by the end of the session or by somebody else. So
// acquire may begin again.
type nodeLost struct{ cause error }

func (e *nodeLost) Error() string { return e.cause.Error() }
func (e *nodeLost) Unwrap() error { return e.cause }

// look saves TryAcquire the writes when all leases are taken. Of drivers, only Standard has nodes whose names we can tell before
// they are there, so that Decide can be asked about one.
func (q *Queue) look(ctx context.Context, v *queueview.View) error {
	leases, _ := q.leases()
	wouldWait := func(children []string) bool {
		last := q.name + lastNumber
		turn, err := q.driver.Decide(append(slices.Clone(children), last), last, leases)
		return err == nil && !turn.Held
	}
	if _, standard := q.driver.(Standard); !standard {
		own, ok := q.driver.(interface {
			WouldWait(children []string, maxLeases int) bool
		})
		if !ok {
			return nil
		}
		wouldWait = func(children []string) bool { return own.WouldWait(children, leases) }
	}
	return q.refuse(ctx, v, wouldWait)
}

// lastNumber is the highest that gives an order.
const lastNumber = "2147483646"

// refuse returns ErrNotAcquired if the children that belong to this lock are in the way. The view may be behind a release
// elsewhere that has returned, so only a list may say so.
func (q *Queue) refuse(ctx context.Context, v *queueview.View, inTheWay func(children []string) bool) error {
	if v != nil {
		if err := v.Await(ctx); err != nil {
			return err
		}
		if children, ok, err := v.Names(q.order); ok && err == nil && !inTheWay(children) {
			return nil
		}
	}
	children, err := q.list(ctx)
	if err == nil && inTheWay(children) {
		err = q.notFree(children)
	}
	return err
}

// acquire is the lock recipe of the ZooKeeper documentation, in one session. After the create, every failure
// leaves the queue. The steps have the numbers of the package comment.
func (q *Queue) acquire(ctx context.Context, session *framework.Session, v *queueview.View, wait bool) (*Hold, error) {
	// All that follows must be done in this session: a list from the next session says nothing about a node of
	// this one.
	pinned := framework.InSession(ctx, session)
	began := time.Now()
	w, err := q.join(pinned, session, v, wait) // 1
	if err == nil {
		if !wait && q.keeps() {
			w.patience = 2*time.Since(began) + time.Millisecond
		}
		var h *Hold
		if h, err = w.hold(pinned, wait); err == nil { // 2, 3, 4
			return h, nil
		}
		w.leave()
	}
	return nil, q.whyNot(ctx, session, err)
}

// whyNot says why an acquire in a session has failed: with a nodeLost if it may begin again.
func (q *Queue) whyNot(ctx context.Context, session *framework.Session, err error) error {
	switch cause := session.Err(); {
	case cause == nil || errors.Is(cause, ErrClosed):
		return err
	case ctx.Err() != nil:
		return wait.Err(ctx) // both have ended; the caller asked for this one
	default:
		return &nodeLost{cause}
	}
}

// join creates our node. Without a view, the list of the children is sent directly after the create, unless the queue is
// long: then nobody is in a hurry to know. The queue ahead is looked at when our node is there, if we do not wait.
func (q *Queue) join(ctx context.Context, session *framework.Session, v *queueview.View, wait bool) (*waiter, error) {
	w := &waiter{node: newNode(q, session)}
	var first func() ([]string, error) // the list, which is sent once
	ahead := q.cfg.ahead
	var aheadView *queueview.View
	if ahead != nil && !wait {
		aheadView = ahead.view(session)
	}
	creating := w.withToken(ctx)
	if v == nil && !q.isLong() {
		listing, cancel := context.WithCancel(ctx)
		defer cancel()
		start, result := q.listing(listing)
		first = result
		hints := engine.HintsOf(creating)
		hints.Sent = start
		creating = engine.WithHints(creating, hints)
	}
	admitted := func(bool) {}
	if v != nil {
		admitted = v.Expect()
	}
	path, err := q.driver.Create(creating, q.client, q.base, q.name, q.cfg.data)
	if err != nil {
		admitted(false)
		return nil, err
	}
	w.created(path)
	switch {
	case v != nil:
		err = w.enterView(ctx, v)
		admitted(w.inView() == v)
	case first != nil:
		w.known, _ = first() // if it failed, it is asked again
	}
	if err == nil && w.inView() == nil {
		err = w.checkReadable(ctx)
	}
	if err == nil && ahead != nil && !wait {
		err = ahead.empty(ctx, aheadView)
	}
	if err != nil {
		w.leave()
		return nil, err
	}
	return w, nil
}

// empty returns ErrNotAcquired if anybody is in the queue.
func (q *Queue) empty(ctx context.Context, v *queueview.View) error {
	return q.refuse(ctx, v, func(children []string) bool { return len(children) > 0 })
}

// list returns the children that belong to this lock, in the driver's order. A path that does not exist has none.
func (q *Queue) list(ctx context.Context) ([]string, error) {
	all, _, err := q.client.Children(ctx, q.base)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	return queueview.Sort(q.order, all)
}

// listing is a list that is sent at most once: by start, which does not block, or by result.
func (q *Queue) listing(ctx context.Context) (start func(), result func() ([]string, error)) {
	var children []string
	var err error
	done := make(chan struct{}) // closed when both are set
	start = sync.OnceFunc(func() {
		go func() { // ends with ctx at the latest
			defer close(done)
			children, err = q.list(ctx)
		}()
	})
	return start, func() ([]string, error) {
		start()
		<-done
		return children, err
	}
}

// soon: a Queue that is used again within this time looks in a view instead of listing. A Queue whose waiters would have to
// watch more than maxWatched nodes, and one with a local hand-off, get a view at the first acquire.
const soon = time.Second

// view returns the view to acquire with, which may have to be waited for. It is nil if the path is to be listed. A view that
// is there is used by all; a new one begins if the Queue is worth it.
func (q *Queue) view(session *framework.Session) *queueview.View {
	now := time.Now()
	q.mu.Lock()
	worth := q.local != nil || q.maxLeases > maxWatched || now.Sub(q.used) < soon
	begin := worth && q.others <= queueview.MaxOthers
	q.used = now
	own := len(q.nodes)
	q.mu.Unlock()
	v := q.views.Get(q.client, session, q.base, begin, own)
	if v != nil {
		v.Use(now)
	}
	return v
}

// isLong reports whether so many others are in the queue that a view costs more than lists.
func (q *Queue) isLong() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.others > queueview.MaxOthers
}
