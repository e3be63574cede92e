package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/lockapi"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/lock/internal/queueview"
)

// entry is our node in the queue, from its creation until its deletion.
type entry struct {
	queue   *Queue
	session *framework.Session
	token   int64            // 0, or the fencing token that the driver gave
	path    string           // of the node
	name    string           // of the node
	known   []string         // the children that belong to the lock, since our create; nil: list them
	ahead   int              // nodes ahead of ours when we last looked; -1: we have not
	own     *framework.Watch // of our node; nil: there is none
	joined  bool             // the observer knows of it
	notFree error            // why a wait is given up

	vanished chan struct{} // closed when somebody else has deleted the node

	mu       sync.Mutex      // guards what follows
	view     *queueview.View // that has admitted the entry; nil: the queue is listed
	lease    *lease          // nil while waiting
	ended    bool            // we have nothing to do with the node any more
	onOver   func()          // nil, or called when it has ended
	watching bool            // our node, now or soon
	unwatch  func()
	since    time.Time // when it first had a lease
	passes   int       // from hold to hold in memory
}

func newEntry(q *Queue, session *framework.Session) *entry {
	return &entry{queue: q, session: session, ahead: -1, vanished: make(chan struct{})}
}

// withToken returns a context with which the driver can give the fencing token.
func (e *entry) withToken(ctx context.Context) context.Context {
	return lockapi.WithToken(ctx, &e.token)
}

// created notes that the node is there.
func (e *entry) created(path string) {
	e.path = path
	_, e.name = framework.Split(path)
	e.queue.mu.Lock()
	e.queue.nodes[e.name] = true
	e.queue.mu.Unlock()
}

// enterView makes the entry use the view, if the view has it. Otherwise the queue is listed.
func (e *entry) enterView(ctx context.Context, v *queueview.View) error {
	if err := v.Await(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	e.view = v
	e.mu.Unlock()
	if !v.Admit(e) {
		e.ViewEnded()
	}
	return nil
}

// inView returns the view, if there is one.
func (e *entry) inView() *queueview.View {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.view
}

// leaveView removes the entry from the view.
func (e *entry) leaveView() {
	e.mu.Lock()
	v := e.view
	e.view = nil
	e.mu.Unlock()
	if v != nil {
		v.Dismiss(e)
	}
}

// ViewEnded is called when the view has ended, or has not admitted the entry.
func (e *entry) ViewEnded() {
	e.mu.Lock()
	e.view = nil
	holds := e.lease != nil && !e.ended
	e.mu.Unlock()
	if holds {
		e.watch(0)
	}
}

// hold waits, if it may, until the entry has a lease.
func (e *entry) hold(ctx context.Context, wait bool) (*Hold, error) {
	if queueview.Exhausted(e.name) {
		return nil, ErrSequenceExhausted
	}
	confirmed := false // just now
	for {
		leases, changed := e.queue.leases()
		children, err := e.look(ctx) // 2
		if err != nil {
			return nil, err
		}
		turn, err := e.decide(children, leases) // 3
		if err != nil {
			return nil, err
		}
		if !e.joined {
			e.tellJoined(ctx)
			e.joined = true
		}
		switch {
		case turn.Held:
			h, held := newHold(ctx, e)
			if held == nil {
				return h, nil
			}
			if err = held; errors.Is(err, ErrSuspended) {
				e.leaveView() // no hold that has ended already is returned: the list waits for a connection
				err = nil
			}
		case !wait && e.inView() != nil:
			e.leaveView() // only a list may say no, as in refuse
		case !wait:
			return nil, e.queue.notFree(children)
		default:
			err = e.await(ctx, children, turn.Watch, leases, changed) // 4
		}
		if unconfirmed := errors.Is(err, errUnconfirmed); unconfirmed && !confirmed {
			confirmed, err = true, e.queue.client.CatchUp(framework.InSession(ctx, e.session))
		} else {
			confirmed = unconfirmed
		}
		if err != nil {
			return nil, err
		}
	}
}

// look returns the children of the lock, in order, at an instant after our create: from the view, or from a list.
func (e *entry) look(ctx context.Context) ([]string, error) {
	if v := e.inView(); v != nil {
		if children, ok, err := v.Queue(e); ok {
			return children, err
		}
	}
	children, err := e.known, error(nil)
	e.known = nil
	if !slices.Contains(children, e.name) {
		if children, err = e.queue.list(ctx); err != nil {
			return nil, err
		}
	}
	if !slices.Contains(children, e.name) {
		return nil, &entryLost{ErrNodeDeleted}
	}
	return children, nil
}

// decide asks the driver, unless there are no leases at present.
func (e *entry) decide(children []string, leases int) (Decision, error) {
	e.ahead = slices.Index(children, e.name)
	e.queue.mu.Lock()
	e.queue.others = len(children) - len(e.queue.nodes)
	e.queue.mu.Unlock()
	if leases == 0 {
		return Decision{}, nil
	}
	turn, err := e.queue.driver.Decide(children, e.name, leases)
	if err == nil && !turn.Held && len(turn.Watch) == 0 {
		err = fmt.Errorf("%w: driver %T neither grants the lease nor names whom to wait for", ErrBadArgument, e.queue.driver)
	}
	return turn, err
}

// await returns when the queue must be looked at again: one of the nodes called names, of all children, was deleted, or
// changed is closed. There are no names if there are no leases.
func (e *entry) await(ctx context.Context, children, names []string, leases int, changed <-chan struct{}) error {
	e.notFree = e.queue.notFree(children)
	// Whoever is next has its session confirmed as a holder does, and can hold without asking. For the others that
	// would be too many writes: they confirm it when they are woken.
	if e.ahead <= leases {
		stop, err := e.depend(connstate.Session, func(error) {})
		if err != nil {
			return err
		}
		defer stop()
	}
	if len(names) == 0 {
		return e.sleep(ctx, nil, nil, changed)
	}
	if v := e.inView(); v != nil {
		w, known := v.Wait(names)
		if known && w == nil {
			return e.gone(children, names)
		}
		if w != nil {
			defer v.Cancel(w)
			return e.sleep(ctx, w.Done(), nil, changed)
		}
	}
	err := e.awaitListed(ctx, children, names, changed)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, zk.ErrNoServer) {
		return givenUp(ctx, e.notFree) // also while a watch was being set
	}
	return err
}

// errUnconfirmed means that no write was committed for so long that the session may be over. A write may show that it lives.
var errUnconfirmed = fmt.Errorf("%w: it is not confirmed", ErrSessionLost)

// depend has tell called as soon as the session is in trouble. The error is an entryLost if we may begin again.
func (e *entry) depend(policy connstate.ErrorPolicy, tell func(error)) (stop func() bool, err error) {
	stop, err = e.session.Depend(policy, tell)
	if errors.Is(err, ErrSessionLost) && e.session.Err() == nil {
		err = &entryLost{errUnconfirmed}
	}
	return stop, err
}

// gone is for a wait that does not begin, because one of names is not there. That is fine if it was among the children when
// the driver decided. Otherwise looking again would not help.
func (e *entry) gone(children, names []string) error {
	for _, name := range names {
		if !slices.Contains(children, name) {
			return fmt.Errorf("%w: driver %T waits for %q, which is not in the queue", ErrBadArgument, e.queue.driver, name)
		}
	}
	return nil
}

// sleep returns when fired, also or changed is closed. An error means that waiting is useless.
func (e *entry) sleep(ctx context.Context, fired, also, changed <-chan struct{}) error {
	select {
	case <-fired:
	case <-also:
	case <-changed:
	case <-e.vanished:
		return &entryLost{ErrNodeDeleted}
	case <-e.session.Done():
		return e.session.Err()
	case <-ctx.Done():
		// The node ahead may be deleted at this moment, which would make us the holder. We need not find out:
		// our caller deletes our node, and that wakes the next waiter as a release does.
		return givenUp(ctx, e.notFree)
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
	if !q.cfg.plain && len(children) > 0 && q.nodes[children[0]] {
		return errHeldHere
	}
	return ErrNotAcquired
}

// begin makes the entry one that holds.
func (e *entry) begin(l *lease) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if isClosed(e.vanished) {
		return &entryLost{ErrNodeDeleted}
	}
	if e.since.IsZero() {
		e.since = l.began
	}
	e.lease = l
	return nil
}

// vanish is called when somebody else has deleted the node.
func (e *entry) vanish() {
	e.mu.Lock()
	again := isClosed(e.vanished)
	if !again {
		close(e.vanished)
	}
	l := e.lease
	e.mu.Unlock()
	if again || l == nil {
		return
	}
	l.lose(l.deletion())
	e.end()
}

// Deleted is vanish for a view.
func (e *entry) Deleted() { e.vanish() }

// Name is the name of the node, for a view.
func (e *entry) Name() string { return e.name }

// Order is by which a view sorts the queue.
func (e *entry) Order() queueview.Order { return e.queue.order }

// end says that the node is no longer ours to watch or delete. Only the first call counts.
func (e *entry) end() {
	e.mu.Lock()
	if e.ended {
		e.mu.Unlock()
		return
	}
	e.ended = true
	onOver := e.onOver
	e.mu.Unlock()
	e.queue.mu.Lock()
	delete(e.queue.nodes, e.name)
	e.queue.mu.Unlock()
	e.leaveView()
	e.unwatchNode()
	if onOver != nil {
		onOver()
	}
}

// whenOver has f called when the entry has ended.
func (e *entry) whenOver(f func()) {
	e.mu.Lock()
	ended := e.ended
	if !ended {
		e.onOver = f
	}
	e.mu.Unlock()
	if ended {
		f()
	}
}

// leaveTimeout limits how long giving up an entry may delay the caller. The node is deleted in any case. If
// that is done by then, the caller's next list does not show it.
const leaveTimeout = time.Second

// leave deletes our node. It does not use the context of the wait, which may have ended.
func (e *entry) leave() {
	ctx, cancel := e.leaving()
	defer cancel()
	if _, err := e.remove(ctx); err != nil && ctx.Err() == nil {
		e.staysBehind(err)
	}
}

// staysBehind says so in the log, unless the node goes with the client.
func (e *entry) staysBehind(reason error) {
	if !errors.Is(reason, ErrClosed) {
		e.queue.client.Logger().Warn("lock node stays behind", "path", e.path, "reason", reason)
	}
}

// leaving returns the context for giving up an entry. It has ended if no server can be reached.
func (e *entry) leaving() (context.Context, context.CancelFunc) {
	return e.leavingIn(context.Background())
}

// leavingIn is leaving for an entry of several, which ends with ctx.
func (e *entry) leavingIn(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	if e.session.Err() != nil || !e.queue.client.State().IsConnected() {
		cancel()
	}
	return ctx, cancel
}

// leaveSoon is leave for those who cannot wait.
func (e *entry) leaveSoon() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = e.remove(now) // goes on in the background
}

// remove deletes our node, in the background if ctx ends first.
func (e *entry) remove(ctx context.Context) (found bool, err error) {
	e.leaveView()
	e.unwatchNode()
	found, err = e.queue.client.DeleteGuaranteed(ctx, e.path)
	if err == nil {
		e.queue.rewind(ctx, e.path)
	}
	e.end()
	return found, err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
