package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/queue/view"
)

// waiter is a goroutine that wants a hold, with a node in the queue.
type waiter struct {
	*node
	known   []string         // the children that belong to the lock, since our create; nil: list them
	ahead   int              // nodes ahead of ours when we last looked
	own     *framework.Watch // of our node; nil: there is none
	notFree error            // why a wait is given up

	patience time.Duration // how long TryAcquire waits for a single node ahead
}

// hold waits, if it may, until the node has a lease.
func (w *waiter) hold(ctx context.Context, wait bool) (*Hold, error) {
	if view.Exhausted(w.Name()) {
		return nil, ErrSequenceExhausted
	}
	confirmed := false // just now
	for first := true; ; first = false {
		leases, changed := w.queue.leases.Get()
		children, err := w.look(ctx) // 2
		if err != nil {
			return nil, err
		}
		turn, err := w.decide(children, leases) // 3
		if err != nil {
			return nil, err
		}
		if first {
			w.notifyJoined(ctx)
		}
		switch {
		case turn.Held:
			h, held := newHold(ctx, w.node, w.own)
			if held == nil {
				return h, nil
			}
			if err = held; errors.Is(err, framework.ErrSuspended) {
				w.leaveView() // no hold that has ended already is returned: the list waits for a connection
				err = nil
			}
		case !wait && w.patience > 0 && w.ahead == 1:
			short, cancel := context.WithTimeout(ctx, w.patience)
			w.patience = 0
			err = w.await(short, children, turn.Watch, leases, changed)
			if short.Err() != nil && ctx.Err() == nil {
				err = nil
			}
			cancel()
		case !wait && w.inView() != nil:
			w.leaveView() // only a list may say no, as in refuse
		case !wait:
			return nil, w.queue.notFree(children)
		default:
			err = w.await(ctx, children, turn.Watch, leases, changed) // 4
		}
		if unconfirmed := errors.Is(err, errUnconfirmed); unconfirmed && !confirmed {
			confirmed, err = true, w.queue.client.Sync(framework.InSession(ctx, w.session))
		} else {
			confirmed = unconfirmed
		}
		if err != nil {
			return nil, err
		}
	}
}

// look returns the children of the lock, in order, at an instant after our create: from the view, or from a list.
func (w *waiter) look(ctx context.Context) ([]string, error) {
	if v := w.inView(); v != nil {
		children, ok, err := v.Names(w.queue.order)
		if ok && (err != nil || slices.Contains(children, w.Name())) {
			return children, err
		}
	}
	return w.lookListed(ctx)
}

// decide asks the driver, unless there are no leases at present.
func (w *waiter) decide(children []string, leases int) (Decision, error) {
	w.ahead = slices.Index(children, w.Name())
	w.queue.mu.Lock()
	w.queue.others = len(children) - len(w.queue.nodes)
	w.queue.mu.Unlock()
	if leases == 0 {
		return Decision{}, nil
	}
	turn, err := w.queue.driver.Decide(children, w.Name(), leases)
	if err == nil && !turn.Held && len(turn.Watch) == 0 {
		err = fmt.Errorf("%w: driver %T neither grants the lease nor names whom to wait for", framework.ErrBadArgument, w.queue.driver)
	}
	return turn, err
}

// await returns when the queue must be looked at again: one of the nodes called names, of all children, was deleted, or
// changed is closed. There are no names if there are no leases.
func (w *waiter) await(ctx context.Context, children, names []string, leases int, changed <-chan struct{}) error {
	w.notFree = w.queue.notFree(children)
	// Whoever is next has its session confirmed as a holder does, and can hold without asking. For the others that
	// would be too many writes: they confirm it when they are woken.
	if w.ahead <= leases {
		stop, err := w.depend(connstate.Session, func(error) {})
		if err != nil {
			return err
		}
		defer stop()
	}
	if len(names) == 0 {
		return w.sleep(ctx, changed)
	}
	if v := w.inView(); v != nil {
		deleted, known := v.Wait(names)
		if known && deleted == nil {
			return w.missing(children, names)
		}
		if deleted != nil {
			defer v.Cancel(names, deleted)
			return w.sleep(ctx, changed, deleted)
		}
	}
	err := w.awaitListed(ctx, children, names, changed)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, zk.ErrNoServer) {
		return givenUp(ctx, w.notFree) // also while a watch was being set
	}
	return err
}

// missing is for a wait that does not begin, because one of names is not there. That is fine if it was among the children when
// the driver decided. Otherwise looking again would not help.
func (w *waiter) missing(children, names []string) error {
	for _, name := range names {
		if !slices.Contains(children, name) {
			return fmt.Errorf("%w: driver %T waits for %q, which is not in the queue", framework.ErrBadArgument, w.queue.driver, name)
		}
	}
	return nil
}

// sleep returns when changed or one of fired, of which there are at most maxWatched, is closed. An error means that waiting is
// useless.
func (w *waiter) sleep(ctx context.Context, changed <-chan struct{}, fired ...<-chan struct{}) error {
	var one [maxWatched]<-chan struct{} // the others are nil: they are never closed
	copy(one[:], fired)
	select {
	case <-one[0]:
	case <-one[1]:
	case <-one[2]:
	case <-one[3]:
	case <-changed:
	case <-w.gone:
		return &nodeLost{ErrNodeDeleted}
	case <-w.session.Done():
		return w.session.Err()
	case <-ctx.Done():
		// The node ahead may be deleted at this moment, which would make us the holder. We need not find out:
		// our caller deletes our node, and that wakes the next waiter as a release does.
		return givenUp(ctx, w.notFree)
	}
	return nil
}

// givenUp is why a wait ends with ctx.
func givenUp(ctx context.Context, notFree error) error {
	return fmt.Errorf("%w: %w", notFree, wait.Err(ctx))
}

// notFree is ErrNotAcquired. It says so if the first of children is ours: whoever comes from Curator for Java expects to re-enter.
func (q *Queue) notFree(children []string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.cfg.Plain && len(children) > 0 && q.nodes[children[0]] {
		return errHeldHere
	}
	return ErrNotAcquired
}
