package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
)

// waiter is a goroutine that wants a hold, with a node in the queue.
type waiter struct {
	*node
	known   []string                    // the children that belong to the lock, since our create; nil: list them
	ahead   int                         // nodes ahead of ours when we last looked
	watches map[string]*framework.Watch // by the name of the node: ours, and some ahead

	patience time.Duration // how long TryAcquire waits for a single node ahead
}

// hold waits, if it may, until the node has a lease.
func (w *waiter) hold(ctx context.Context, wait bool) (*Hold, error) {
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
			h, held := newHold(ctx, w.node, w.watches[w.Name()])
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
		if errors.Is(err, framework.ErrSessionLost) && w.session.Err() == nil {
			// It may live: no write was committed for long. One shows that it does.
			err = w.queue.client.Sync(ctx)
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

// notifyJoined notifies the observer, if there is one, that the node has joined the queue.
func (w *waiter) notifyJoined(ctx context.Context) {
	q := w.queue
	if o := q.observer(); o != nil {
		o.Joined(ctx, framework.JoinedEvent{Path: q.base, Name: q.name, Ahead: w.ahead})
	}
}

// await returns when the queue must be looked at again: one of the nodes called names, of all children, was deleted, or
// changed is closed. There are no names if there are no leases.
func (w *waiter) await(ctx context.Context, children, names []string, leases int, changed <-chan struct{}) (err error) {
	notFree := w.queue.notFree(children)
	defer func() {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, zk.ErrNoServer) {
			err = givenUp(ctx, notFree) // also while a watch was being set
		}
	}()
	// Whoever is next has its session confirmed as a holder does, and can hold without asking. For the others that
	// would be too many writes: they confirm it when they are woken.
	if w.ahead <= leases {
		stop, err := w.session.Depend(connstate.Session, func(error) {})
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
	return w.awaitListed(ctx, children, names, changed)
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
		return &NodeLost{ErrNodeDeleted}
	case <-w.session.Done():
		return w.session.Err()
	case <-ctx.Done():
		// The node ahead may be deleted at this moment, which would make us the holder. We need not find out:
		// our caller deletes our node, and that wakes the next waiter as a release does.
		return wait.Err(ctx)
	}
	return nil
}

// The picture of the queue without a view: what lists and watches have shown since our node was created.

// lookListed returns the children of the lock, in order.
func (w *waiter) lookListed(ctx context.Context) (children []string, err error) {
	children, w.known = w.known, nil
	if !slices.Contains(children, w.Name()) {
		if children, err = w.queue.list(ctx); err != nil {
			return nil, err
		}
	}
	if !slices.Contains(children, w.Name()) {
		return nil, &NodeLost{ErrNodeDeleted}
	}
	return children, nil
}

// awaitListed is await without a view.
//
// If nodes ahead can only be deleted, and one is, it waits for that one. When that is deleted, and our node is still there, we are
// first, and w.known is what a list would show. If more are ahead, it waits for the one before our predecessor, and prepares for the
// predecessor while that holds: then it is the only one ahead.
func (w *waiter) awaitListed(ctx context.Context, children, names []string, changed <-chan struct{}) error {
	lookAhead, watched := w.mayLookAhead(names), names
	if lookAhead {
		names = children[max(w.ahead-2, 0):][:1]
		watched = []string{names[0], w.Name()}
	}
	for !wait.Closed(changed) {
		watches, err := w.watchAll(ctx, watched)
		if err == nil && watches == nil {
			err = w.missing(children, names)
		} else if err == nil {
			var fired []<-chan struct{}
			for _, watch := range watches {
				fired = append(fired, watch.Done())
			}
			err = w.sleep(ctx, changed, fired...)
		}
		if err != nil {
			return err
		}
		if watches == nil || slices.ContainsFunc(watches, hasFired) {
			switch {
			case lookAhead && w.ahead > 1:
				w.prepare(ctx, children[w.ahead-1])
			case lookAhead && !wait.Closed(w.watches[w.Name()].Done()):
				w.known = children[1:]
			}
			return nil
		}
		// The connection was lost, or somebody wrote to the node: watch the nodes again. The queue ahead of us
		// has not changed.
	}
	return nil
}

// prepare lists, and watches our predecessor at the same time. What fails is done again when it is needed.
func (w *waiter) prepare(ctx context.Context, predecessor string) {
	listed := make(chan []string, 1)
	go func() { // ends with its request
		children, _ := w.queue.list(ctx)
		listed <- children
	}()
	_, _ = w.watch(ctx, []string{predecessor})
	w.known = <-listed
}

// mayLookAhead reports whether nodes ahead of ours can only be deleted, and our predecessor is the only one that we wait for. A driver
// other than Standard may let others get ahead, as a writer does with its reader, and so does the server when the numbers
// overflow. See "The only one ahead" in docs/PROTOCOL.md.
func (w *waiter) mayLookAhead(names []string) bool {
	_, standard := w.queue.driver.(Standard)
	return standard && len(names) == 1 && !nearEnd(w.path)
}

// checkReadable watches our node if its ACL does not show that we may read it: servers report the end of a node only to those
// who may. The error is zk.ErrNoAuth for all others.
func (w *waiter) checkReadable(ctx context.Context) error {
	q := w.queue
	acl := engine.Of(q.client).ACL(framework.Join(q.base, q.name))
	if slices.ContainsFunc(acl, func(a zk.ACL) bool { return a.Perms&zk.PermRead != 0 && (a.Scheme == "world" || a.Scheme == "auth") }) {
		return nil
	}
	_, err := w.watch(ctx, []string{w.Name()})
	return err
}

// watchAll watches nodes, or the list of children if there are many. It returns nil if one of them is deleted already.
func (w *waiter) watchAll(ctx context.Context, names []string) ([]*framework.Watch, error) {
	if len(names) > maxWatched {
		return w.queue.watchList(ctx, names)
	}
	return w.watch(ctx, names)
}

// watch watches nodes, all at once, unless it has a watch of them. It returns nil if one of them is deleted already, and a NodeLost if
// that is ours.
func (w *waiter) watch(ctx context.Context, names []string) ([]*framework.Watch, error) {
	watches, errs := make([]*framework.Watch, len(names)), make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		watches[i] = w.watches[name]
		if watches[i] != nil && (hasFired(watches[i]) || !wait.Closed(watches[i].Done())) {
			continue
		}
		wg.Go(func() { // ends with the answer
			// Not exists: that would leave a watch behind on a node that is gone.
			_, _, watches[i], errs[i] = w.queue.client.GetW(ctx, framework.Join(w.queue.base, name))
		})
	}
	wg.Wait()
	if w.watches == nil {
		w.watches = make(map[string]*framework.Watch)
	}
	gone := false
	for i, name := range names {
		switch {
		case errs[i] == nil:
			w.watches[name] = watches[i]
		case errors.Is(errs[i], zk.ErrNoNode) && name == w.Name():
			return nil, &NodeLost{ErrNodeDeleted}
		case errors.Is(errs[i], zk.ErrNoNode):
			gone, errs[i] = true, nil
		}
	}
	if err := cmp.Or(errs...); err != nil || gone {
		return nil, err
	}
	return watches, nil
}

// watchList watches the list of children. It returns nil if one of names is not in it.
func (q *Queue) watchList(ctx context.Context, names []string) ([]*framework.Watch, error) {
	children, _, watch, err := q.client.ChildrenW(ctx, q.base)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	slices.Sort(children)
	for _, name := range names {
		if _, found := slices.BinarySearch(children, name); !found {
			return nil, nil
		}
	}
	return []*framework.Watch{watch}, nil
}

// hasFired reports whether the node that is watched is deleted, or one of its children may be.
func hasFired(w *framework.Watch) bool {
	return w.Event().Type == zk.EventNodeDeleted || w.Event().Type == zk.EventNodeChildrenChanged
}
