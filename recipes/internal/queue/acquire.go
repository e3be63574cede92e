package queue

import (
	"cmp"
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
	"github.com/gocurator/curator/recipes/internal/queue/view"
)

// Acquire is that of lock.Queue.
func (q *Queue) Acquire(ctx context.Context) (*Hold, error) {
	h, err := q.enter(ctx, true)
	return h, q.opError("acquire", err)
}

// TryAcquire is that of lock.Queue.
func (q *Queue) TryAcquire(ctx context.Context) (*Hold, error) {
	h, err := q.enter(ctx, false)
	return h, q.opError("try", err)
}

// Do is that of lock.Queue.
func (q *Queue) Do(ctx context.Context, f func(ctx context.Context) error) error {
	h, err := q.Acquire(ctx)
	if err != nil {
		return err
	}
	return h.Do(ctx, f)
}

// Requeue is that of lock.Hold. A Queue with [Config.Ahead] refuses it.
func (h *Hold) Requeue(ctx context.Context) (*Hold, error) {
	q := h.lease.node.queue
	// It does not re-enter this Queue. Holds of other Queues are there, so that the next hold's context re-enters them.
	next, err := q.enterAgain(context.WithValue(ctx, q, (*Hold)(nil)), h)
	return next, q.opError("requeue", err)
}

// enter re-enters a hold that ctx comes from, or acquires a new one.
func (q *Queue) enter(ctx context.Context, wait bool) (*Hold, error) {
	if outer := q.HeldIn(ctx); outer != nil && !q.cfg.Plain {
		return outer.Again(ctx)
	}
	return q.obtain(ctx, nil, wait)
}

// HeldIn returns the hold of this Queue that ctx comes from, or nil. The hold may have ended. It is for recipes
// of several queues: a read/write lock finds out with it whether a reader holds the write lock.
func (q *Queue) HeldIn(ctx context.Context) *Hold {
	h, _ := ctx.Value(q).(*Hold)
	return h
}

// enterAgain ends a hold, and acquires a new one at the end of the queue.
func (q *Queue) enterAgain(ctx context.Context, h *Hold) (*Hold, error) {
	if q.cfg.Ahead != nil { // its waiters would be overtaken
		return nil, fmt.Errorf("%w: new contenders wait in %s first", framework.ErrBadArgument, q.cfg.Ahead.base)
	}
	d, err := h.endAlone(q.local.lends())
	if err != nil {
		return nil, err
	}
	if !q.local.lends() {
		return q.obtain(ctx, h.lease, true)
	}
	// Others of this process come first. Any session may delete a node that is not lent.
	if err := h.lease.give(framework.InSession(ctx, nil), d); err != nil {
		return nil, err
	}
	return q.obtain(ctx, nil, true)
}

// obtain acquires a new hold, of which the observer is notified. With old, a lease that has ended, a new node takes the place of its
// node.
func (q *Queue) obtain(ctx context.Context, old *lease, wait bool) (h *Hold, err error) {
	ctx, done := q.Observe(ctx)
	var w *waiter
	switch {
	case old != nil:
		w, err = q.replace(ctx, old)
	case q.local.lends():
		var n *node
		if n, err = q.local.enter(ctx, wait); n != nil {
			w = &waiter{node: n}
		} else if err != nil && !wait {
			_, offline := q.client.Session(ctx) // without a connection nobody can say whether the lock is held
			err = cmp.Or(offline, err)
		}
	}
	if err == nil {
		h, err = q.contend(ctx, w, wait)
		if q.local.lends() {
			q.local.entered(h)
		}
	}
	if err = done(q.unreachable(ctx, err), h); err != nil {
		return nil, err
	}
	return h, nil
}

// unreachable is err, or that no server could be reached if err says that ctx is done, and there is no connection: then
// nobody knows whether somebody else holds.
func (q *Queue) unreachable(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, zk.ErrNoServer) || q.client.State().IsConnected() {
		return err
	}
	return fmt.Errorf("%w: %w", wait.Err(ctx), zk.ErrNoServer)
}

// contend acquires a new hold in the servers' queue: with w, if that is there already, and then in one session after the other.
func (q *Queue) contend(ctx context.Context, w *waiter, wait bool) (*Hold, error) {
	return Repeat(ctx, q.client, func() (*Hold, error) {
		first := w
		w = nil
		return q.acquire(ctx, first, wait)
	})
}

// Repeat calls acquire, and again after each [NodeLost], as often as the retry policy of the client allows.
func Repeat[T any](ctx context.Context, client *framework.Client, acquire func() (T, error)) (acquired T, err error) {
	var pauses backoff.BackOff
	for {
		if acquired, err = acquire(); err == nil {
			return acquired, nil
		}
		var lost *NodeLost
		if !errors.As(err, &lost) {
			return acquired, err
		}
		if pauses == nil {
			pauses = client.RetryPolicy().NewBackOff()
		}
		pause := pauses.NextBackOff()
		if pause == backoff.Stop {
			return acquired, lost.Cause
		}
		if engine.Sleep(ctx, engine.Of(client), pause) != nil {
			return acquired, engine.Of(client).GaveUp(ctx, nil)
		}
	}
}

// look saves TryAcquire the writes when all leases are taken: the driver decides about a node at the end of the queue. If nobody
// but the driver knows the name that the node would have, nothing is looked at. Nor with retention: a node that is there may be one
// that is kept, and goes when ours comes.
func (q *Queue) look(ctx context.Context, v *view.View) error {
	if !q.cfg.Sequential || q.local.keeps() {
		return nil
	}
	leases := q.MaxLeases()
	return q.refuse(ctx, v, func(children []string) bool {
		last := q.name + lastNumber
		turn, err := q.driver.Decide(append(slices.Clone(children), last), last, leases)
		return err == nil && !turn.Held
	})
}

// lastNumber is the highest that gives an order.
const lastNumber = "2147483646"

// refuse returns ErrNotAcquired if the children that belong to this lock are in the way. The view may be behind a release
// elsewhere that has returned, so only a list may say so.
func (q *Queue) refuse(ctx context.Context, v *view.View, inTheWay func(children []string) bool) error {
	children, err := q.children(ctx, v)
	if v != nil && (err != nil || inTheWay(children)) {
		children, err = q.list(ctx)
	}
	if err == nil && inTheWay(children) {
		err = q.notFree(children)
	}
	return err
}

// acquire is the lock recipe of the ZooKeeper documentation, in one session: that of w, if w is in the queue already. After the
// create, every failure leaves the queue. The steps have the numbers of the comment of package lock.
func (q *Queue) acquire(ctx context.Context, w *waiter, wait bool) (h *Hold, err error) {
	var session *framework.Session
	if w != nil {
		session = w.session
	} else if session, err = q.client.Session(ctx); err != nil {
		return nil, err
	}
	// All that follows must be done in this session: a list from the next session says nothing about a node of
	// this one.
	ctx = framework.InSession(ctx, session)
	if w == nil {
		w, err = q.join(ctx, session, wait) // 1
	}
	if err == nil {
		if h, err = w.hold(ctx, wait); err == nil { // 2, 3, 4
			return h, nil
		}
		w.leave(leaveTimeout)
	}
	return nil, whyNot(ctx, session, err)
}

// whyNot says why an acquire in a session has failed: with a NodeLost if it may begin again.
func whyNot(ctx context.Context, session *framework.Session, err error) error {
	switch cause := session.Err(); {
	case cause == nil || errors.Is(cause, framework.ErrClosed):
		return err
	case ctx.Err() != nil:
		return wait.Err(ctx) // both have ended; the caller asked for this one
	default:
		return &NodeLost{cause}
	}
}

// replace joins with a node that takes the place of that of a lease, which has ended.
func (q *Queue) replace(ctx context.Context, old *lease) (*waiter, error) {
	n := old.node
	n.advance(leaving)
	creating := engine.WithHints(framework.InSession(ctx, n.session), engine.Hints{Replaces: n.path})
	w, err := q.join(creating, n.session, true)
	if err != nil {
		old.leave()
		switch {
		case n.session.Err() != nil:
			err = n.session.Err()
		case errors.Is(err, zk.ErrNoNode):
			err = old.deletion()
		}
		return nil, err
	}
	n.end()
	return w, nil
}

// join creates our node. Without a view, the list of the children is sent directly after the create, unless the queue is
// long: then nobody is in a hurry to know. If we do not wait, the queue is looked at before, and the queue ahead when our node is
// there.
func (q *Queue) join(ctx context.Context, session *framework.Session, wait bool) (*waiter, error) {
	v := q.view(session)
	if !wait {
		if err := q.look(ctx, v); err != nil {
			return nil, err
		}
	}
	w := &waiter{node: newNode(q, session)}
	began := time.Now()
	creating := w.withToken(ctx)
	var list func() []string // nil: no list is sent
	if v == nil && !q.isLong() {
		listing, cancel := context.WithCancel(ctx)
		defer cancel()
		creating, list = q.listAfter(listing, creating)
	}
	path, err := q.driver.Create(creating, q.client, q.base, q.name, q.cfg.Data)
	if err != nil {
		return nil, err
	}
	w.created(path)
	switch _, ours := q.driver.SortKey(w.Name(), q.name); {
	case !ours:
		err = fmt.Errorf("%w: driver %T does not count its own node %s: SortKey is false", framework.ErrBadArgument, q.driver, w.Name())
	case v != nil:
		err = w.enterView(ctx, v)
	case list != nil:
		w.known = list()
	}
	if err == nil && w.inView() == nil {
		err = w.checkReadable(ctx)
	}
	if ahead := q.cfg.Ahead; err == nil && ahead != nil && !wait {
		err = ahead.refuse(ctx, ahead.view(session), func(children []string) bool { return len(children) > 0 })
	}
	if err != nil {
		w.leave(leaveTimeout)
		return nil, err
	}
	if q.local.keeps() {
		w.patience = 2*time.Since(began) + time.Millisecond
	}
	return w, nil
}

// listAfter returns a context for a create, by which a list with ctx is sent directly after it. list sends it unless that was done,
// and waits for it. It is nil if that failed.
func (q *Queue) listAfter(ctx, creating context.Context) (_ context.Context, list func() []string) {
	listed := make(chan []string, 1)
	send := sync.OnceFunc(func() {
		go func() { // ends with ctx at the latest
			children, _ := q.list(ctx) // if it failed, it is sent again
			listed <- children
		}()
	})
	hints := engine.HintsOf(creating)
	hints.Sent = send
	return engine.WithHints(creating, hints), func() []string {
		send()
		return <-listed
	}
}
