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
)

// picture is how a waiter knows who is ahead: by the events of a view (viewed), or by lists and
// watches (listed).
type picture interface {
	// children returns the children of the lock, in order, at an instant after the create of the
	// waiter's node, which is one of them. The error is a NodeLost if it is not.
	children(ctx context.Context) ([]string, error)

	// wait returns when the queue must be looked at again: one of the nodes called names was
	// deleted, or a node ahead of them, or another reason to wake has come. An error means that
	// waiting is useless.
	wait(ctx context.Context, children, names []string, other wakes) error
}

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
	picture  picture // viewed, which falls back to listed
	viewed   viewed
	listed   listed
	patience time.Duration // how long TryAcquire waits for a single node ahead
	news     locking.News  // nil: there are none
}

func newWaiter(n *node, how locking.How) *waiter {
	w := &waiter{node: n, listed: listed{node: n, one: how.News != nil}, news: how.News}
	w.viewed = viewed{n, &w.listed}
	w.picture = &w.viewed
	return w
}

// hold waits, if it may, until the node has a lease.
func (w *waiter) hold(ctx context.Context, mayWait bool) (h *Hold, err error) {
	n, q := w.node, w.node.queue
	var notFree, late error // why a caller that gives up has none
	defer func() {
		if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, zk.ErrNoServer) {
			if cause := cmp.Or(notFree, late); cause != nil {
				err = givenUp(ctx, cause)
			}
		}
	}()
	for first := true; ; first = false {
		leases, changed := q.leases.Get()
		children, err := w.picture.children(ctx) // 2
		if err != nil {
			return nil, err
		}
		turn, err := w.decide(children, leases) // 3
		if err != nil {
			return nil, err
		}
		ahead := slices.Index(children, n.Name())
		if first {
			q.notifyJoined(ctx, ahead)
		}
		left := time.Duration(0)
		switch notFree = nil; {
		case !turn.Held:
			notFree = q.notFree(children)
		default:
			if left = q.delayLeft(q.dead(children)); left > 0 {
				notFree = errDelayed
			}
		}
		switch {
		case notFree == nil:
			claimed := false
			if claimed, err = n.claim(ctx, children); err != nil || !claimed {
				break
			}
			h, lost := n.hold(ctx, w.listed.watches[n.Name()])
			if lost == nil {
				return h, nil
			}
			if err = lost; errors.Is(err, framework.ErrSuspended) {
				n.leaveView() // no hold that has ended already is returned: the list waits for a connection
				err = nil
			}
		case !mayWait && w.patience > 0 && ahead == 1:
			err = w.waitShortly(ctx, children, turn.Watch, wakes{n, changed})
		case !mayWait && n.leaveView(): // only a list may say no, as in refuse
		case !mayWait:
			return nil, notFree
		case turn.Held:
			err = w.waitOut(ctx, children, left)
		default:
			err = w.waitBehind(ctx, children, turn.Watch, ahead, wakes{n, changed}) // 4
		}
		if errors.Is(err, framework.ErrSessionLost) && n.session.Err() == nil {
			// The session may live: no write was committed for long. A committed write proves that
			// it does.
			if late != nil && !mayWait {
				return nil, late // once was enough, if servers answer in time
			}
			late, err = n.prove(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
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

// waitBehind waits behind so many nodes until the queue must be looked at again, or news end the
// acquire. Who waits for news has one lease to wait for, which does not change.
func (w *waiter) waitBehind(ctx context.Context, children, names []string, ahead int, other wakes) error {
	if w.news == nil {
		return w.wait(ctx, children, names, ahead <= w.node.queue.maxLeases(), other)
	}
	for {
		changed, err := w.news.Watch(ctx, ahead)
		if err != nil {
			return err
		}
		if err := w.wait(ctx, children, names, ahead == 1, wakes{other.node, changed}); err != nil {
			return err
		}
		if err := w.news.Look(ctx); err != nil || !wait.Closed(changed) {
			return err
		}
	}
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
	return w.picture.wait(ctx, children, names, other)
}

// waitShortly is wait for about two round trips, once, for a single node ahead, which may be a kept
// one.
func (w *waiter) waitShortly(ctx context.Context, children, names []string, other wakes) error {
	short, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	w.patience = 0
	err := w.wait(short, children, names, true, other)
	if short.Err() != nil && ctx.Err() == nil || errors.Is(err, zk.ErrNoAuth) {
		return nil // a list says no, also about a node that this client may not read
	}
	return err
}

// waitOut waits until the marks of dead holders are to be looked at again: at the end of the delay,
// or when one of them is deleted.
func (w *waiter) waitOut(ctx context.Context, children []string, left time.Duration) error {
	over, cancel := context.WithTimeout(context.Background(), left)
	defer cancel()
	var names []string
	for _, m := range w.node.queue.dead(children) {
		names = append(names, m.name())
	}
	return w.wait(ctx, children, names, true, wakes{w.node, over.Done()})
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
