package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/locking"
	"github.com/gocurator/curator/recipes/lock/internal/view"
)

// wakes are the reasons to wake that have nothing to do with who is ahead.
type wakes struct {
	node    *node           // is gone, or its session
	changed <-chan struct{} // closed when the number of leases changes, a delay is over, or there are news
}

// wait returns when one of the reasons has come, or one of fired is closed, of which there are at
// most maxWatched.
func (o wakes) wait(ctx context.Context, fired ...<-chan struct{}) error {
	var one [maxWatched]<-chan struct{} // the others are nil: they are never closed
	copy(one[:], fired)
	select {
	case <-one[0]:
	case <-one[1]:
	case <-one[2]:
	case <-one[3]:
	case <-o.changed:
	case <-o.node.gone:
		return &locking.NodeLost{Cause: ErrNodeDeleted}
	case <-o.node.session.Done():
		return o.node.session.Err()
	case <-engine.Of(o.node.queue.client).Stopping():
		return framework.ErrShutdown
	case <-ctx.Done():
		// The node ahead may be deleted at this moment, which would make this waiter the holder. It
		// need not find out: the caller deletes the node, and that wakes the next waiter as a
		// release does.
		return wait.Err(ctx)
	}
	return nil
}

// waiter is a goroutine that wants a hold, with a node in the queue.
type waiter struct {
	node     *node
	viewed   viewed // is asked first
	listed   listed
	news     locking.News  // nil: there are none
	patience time.Duration // how long TryAcquire waits for a single node ahead

	looked  bool
	notFree error // why the node had no lease at the last look; nil: it had one
	late    error // why the session could not be proven in time, once; nil: it always could
}

// newWaiter returns a waiter that knows who is ahead from v, or from lists if v is nil.
func newWaiter(n *node, v *view.View, how locking.How) *waiter {
	w := &waiter{node: n, listed: listed{node: n, one: how.News != nil}, news: how.News}
	w.viewed = viewed{n, v, &w.listed}
	return w
}

// turn is what a look at the queue has shown.
type turn struct {
	Decision
	children []string        // of the lock, in order
	ahead    int             // how many nodes are ahead
	leases   int             // how many nodes can hold
	changed  <-chan struct{} // closed when leases changes
	delay    time.Duration   // what is left of a lock delay, if Held
	notFree  error           // why the node may not hold yet; nil: it may
}

// hold waits, if it may, until the node has a lease. The steps have the numbers of the comment of
// package lock.
func (w *waiter) hold(ctx context.Context, mayWait bool) (*Hold, error) {
	for {
		t, err := w.look(ctx) // 2, 3
		if err != nil {
			return nil, w.explain(ctx, err)
		}
		var h *Hold
		switch {
		case t.notFree == nil:
			h, err = w.begin(ctx, t)
		case mayWait:
			err = w.await(ctx, t) // 4
		default:
			err = w.refuse(ctx, t)
		}
		if err != nil {
			err = w.prove(ctx, err, mayWait)
		}
		if h != nil || err != nil {
			return h, w.explain(ctx, err)
		}
	}
}

// look looks at the queue, and asks the driver.
func (w *waiter) look(ctx context.Context) (t turn, err error) {
	q := w.node.queue
	t.leases, t.changed = q.leases.Get()
	if t.children, err = w.viewed.children(ctx); err != nil {
		return turn{}, err
	}
	if t.Decision, err = w.decide(t.children, t.leases); err != nil {
		return turn{}, err
	}
	t.ahead = slices.Index(t.children, w.node.Name())
	if !w.looked {
		w.looked = true
		q.notifyJoined(ctx, t.ahead)
	}
	if !t.Held {
		t.notFree = q.notFree(t.children)
	} else if t.delay = q.delayLeft(q.dead(t.children)); t.delay > 0 {
		t.notFree = errDelayed
	}
	w.notFree = t.notFree
	return t, nil
}

// decide asks the driver, unless there are no leases at present.
func (w *waiter) decide(children []string, leases int) (Decision, error) {
	q := w.node.queue
	nodes, _ := q.split(children)
	q.saw(nodes)
	if leases == 0 {
		return Decision{}, nil
	}
	turn, err := q.driver.Decide(Line{nodes, w.node.Name(), leases})
	if err == nil && !turn.Held && len(turn.Watch) == 0 {
		err = fmt.Errorf("%w: driver %T neither grants the lease nor names a node to watch", framework.ErrBadArgument, q.driver)
	}
	return turn, err
}

// begin begins the hold of a node that has a lease. If it returns neither a hold nor an error, the
// queue must be looked at again.
func (w *waiter) begin(ctx context.Context, t turn) (*Hold, error) {
	claimed, err := w.node.claim(ctx, t.children)
	if err != nil || !claimed {
		return nil, err
	}
	h, err := w.node.hold(ctx, w.listed.watches[w.node.Name()])
	if errors.Is(err, framework.ErrSuspended) {
		w.viewed.view = nil // no hold that has ended already is returned: a list waits for a connection
		return nil, nil
	}
	return h, err
}

// await waits until the queue must be looked at again.
func (w *waiter) await(ctx context.Context, t turn) error {
	switch {
	case t.Held:
		return w.waitOut(ctx, t)
	case w.news != nil:
		return w.awaitNews(ctx, t)
	default:
		return w.wait(ctx, t.children, t.Watch, t.ahead <= t.leases, wakes{w.node, t.changed})
	}
}

// awaitNews waits until the queue must be looked at again, or news end the acquire. A waiter for news
// has one lease to wait for, which does not change.
func (w *waiter) awaitNews(ctx context.Context, t turn) error {
	for {
		changed, err := w.news.Watch(ctx, t.ahead)
		if err != nil {
			return err
		}
		if err := w.wait(ctx, t.children, t.Watch, t.ahead == 1, wakes{w.node, changed}); err != nil {
			return err
		}
		if err := w.news.Look(ctx); err != nil || !wait.Closed(changed) {
			return err
		}
	}
}

// refuse returns why TryAcquire fails. If it returns nil, the queue must be looked at again.
func (w *waiter) refuse(ctx context.Context, t turn) error {
	switch {
	case w.patience > 0 && t.ahead == 1:
		return w.waitShortly(ctx, t)
	case w.viewed.view != nil: // only a list may say no, as in Queue.refuse
		w.viewed.view = nil
		return nil
	}
	return t.notFree
}

// prove returns err, unless it says that the session may live, although no write was committed for
// long. A committed write proves that it does: then the queue must be looked at again.
func (w *waiter) prove(ctx context.Context, err error, mayWait bool) error {
	switch {
	case !errors.Is(err, framework.ErrSessionLost), w.node.session.Err() != nil:
		return err
	case w.late != nil && !mayWait:
		return w.late // once was enough, if servers answer in time
	}
	w.late, err = w.node.prove(ctx)
	return err
}

// explain returns err, or why a caller that gives up has no hold.
func (w *waiter) explain(ctx context.Context, err error) error {
	cause := cmp.Or(w.notFree, w.late)
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, zk.ErrNoServer) || cause == nil {
		return err
	}
	return givenUp(ctx, cause)
}

// wait waits until the queue must be looked at again. There are no names if there are no leases.
func (w *waiter) wait(ctx context.Context, children, names []string, next bool, other wakes) error {
	// The session of a waiter that is next is confirmed as a holder's, and it can hold without
	// asking. For the others that would be too many writes: they confirm it when they are woken.
	if next {
		stop, err := w.node.dependWhileNext()
		if err != nil {
			return err
		}
		defer stop()
	}
	if len(names) == 0 {
		return other.wait(ctx)
	}
	return w.viewed.wait(ctx, children, names, other)
}

// waitShortly waits for a single node ahead, which may be a kept one, for about two round trips. It
// does so once.
func (w *waiter) waitShortly(ctx context.Context, t turn) error {
	short, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	w.patience = 0
	err := w.wait(short, t.children, t.Watch, true, wakes{w.node, t.changed})
	if short.Err() != nil && ctx.Err() == nil || errors.Is(err, zk.ErrNoAuth) {
		return nil // a list says no, also about a node that this client may not read
	}
	return err
}

// waitOut waits until the marks of dead holders are to be looked at again: at the end of the delay,
// or when one of them is deleted.
func (w *waiter) waitOut(ctx context.Context, t turn) error {
	over, cancel := context.WithTimeout(context.Background(), t.delay)
	defer cancel()
	var names []string
	for _, m := range w.node.queue.dead(t.children) {
		names = append(names, m.name())
	}
	return w.wait(ctx, t.children, names, true, wakes{w.node, over.Done()})
}

// prove has the session confirmed by a committed write. late is the reason if it was confirmed too
// late to hold. It warns if the servers take so long that no hold would last.
func (n *node) prove(ctx context.Context) (late, err error) {
	began, timeout := time.Now(), n.session.Timeout()
	err = n.client.Sync(ctx)
	took := time.Since(began)
	if err == nil && took > timeout/slowest {
		engine.Of(n.queue.client).Logger().Warn("servers are too slow for the session timeout",
			"path", n.queue.path, "answer after", took, "timeout", timeout)
	}
	return fmt.Errorf("%w: no server has confirmed it in time (a write took %v, the session timeout is %v)",
		framework.ErrSessionLost, took.Round(time.Millisecond), timeout), err
}

// slowest is the part of a session timeout within which servers must answer a write: see the
// package comment.
const slowest = 8

// missing is for a wait that does not begin, because one of names does not exist. That is fine if
// it was among the children when the driver decided. Otherwise looking again would not help.
func (n *node) missing(children, names []string) error {
	for _, name := range names {
		if !slices.Contains(children, name) {
			return fmt.Errorf("%w: driver %T waits for %q, which is not in the queue", framework.ErrBadArgument, n.queue.driver, name)
		}
	}
	return nil
}
