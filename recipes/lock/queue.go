package lock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/ctxerr"
)

// Queue is a queue for the leases at one path. All that contend for them, in this
// process and others, must use the same name, driver and number of leases. It
// keeps no state between calls but the number of leases.
//
// All methods are safe for concurrent use.
type Queue struct {
	client *framework.Client
	base   string
	name   string
	driver Driver
	cfg    config

	mu        sync.Mutex // guards what follows
	maxLeases int
	changed   chan struct{} // closed and replaced when maxLeases changes
}

// New makes a queue at path for nodes called name (as in "lock-"), to which the server
// adds a number. driver says who holds; nil means [Standard]. Nothing is sent. Errors are
// [ErrBadPath] and [ErrBadArgument].
func New(client *framework.Client, path, name string, driver Driver, opts ...Option) (*Queue, error) {
	if client == nil {
		return nil, fmt.Errorf("lock: %w: nil client", ErrBadArgument)
	}
	if err := framework.ValidatePath(path); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if path == "/" {
		return nil, fmt.Errorf("lock: %w: the root cannot be a lock", ErrBadPath)
	}
	if err := framework.ValidatePath("/" + name); err != nil || name == "" {
		return nil, fmt.Errorf("lock: %w: node name %q", ErrBadArgument, name)
	}
	if driver == nil {
		driver = Standard{}
	}
	cfg := config{maxLeases: 1, policy: client.ErrorPolicy()}
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("lock: %w: nil option", ErrBadArgument)
		}
		if err := opt(&cfg); err != nil {
			return nil, fmt.Errorf("lock: %w", err)
		}
	}
	return &Queue{
		client:    client,
		base:      path,
		name:      name,
		driver:    driver,
		cfg:       cfg,
		maxLeases: cfg.maxLeases,
		changed:   make(chan struct{}),
	}, nil
}

// Acquire waits until it holds a lease, or ctx is done: the error is then that of ctx. Other
// errors are [ErrClosed], [ErrSequenceExhausted], [ErrBadArgument], and those
// of ZooKeeper once the client's retry policy allows no more. After an error no node of
// ours stays, even if the server makes it later.
//
// A session that is lost while waiting loses the place in the queue, and Acquire queues
// again in the next session, as often as the retry policy allows.
//
// With the [Hold.Context] of a hold of this same Queue, Acquire re-enters: it returns at
// once another hold of the same lease, and the lease is given back when all its
// holds are released. If that hold was released or lost, the error says so. A Queue
// made with [WithoutReentry] does not.
func (q *Queue) Acquire(ctx context.Context) (*Hold, error) {
	h, err := q.enter(ctx, true)
	return h, q.opError("acquire", err)
}

// TryAcquire is Acquire without waiting for others: if all leases are taken, the error is
// [ErrNotAcquired].
func (q *Queue) TryAcquire(ctx context.Context) (*Hold, error) {
	h, err := q.enter(ctx, false)
	return h, q.opError("try", err)
}

// Do acquires, calls f and releases. f's context ends when the lock may no longer be
// ours, as well as with ctx. The error is Acquire's, or f's and Release's joined. If
// f panics, the lock is released.
func (q *Queue) Do(ctx context.Context, f func(ctx context.Context) error) (err error) {
	h, err := q.Acquire(ctx)
	if err != nil {
		return err
	}
	return h.Do(ctx, f)
}

// Path is the path that the queue's nodes are below.
func (q *Queue) Path() string { return q.base }

// MaxLeases is how many can hold at a time.
func (q *Queue) MaxLeases() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.maxLeases
}

// SetMaxLeases changes how many can hold at a time, for this Queue only: all that use the
// path must be told. More leases wake those who wait. Fewer take nothing away; the
// surplus goes as it is released. n must be positive, or the error is [ErrBadArgument].
func (q *Queue) SetMaxLeases(n int) error {
	if n < 1 {
		return fmt.Errorf("lock: %w: %d leases", ErrBadArgument, n)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if n != q.maxLeases {
		q.maxLeases = n
		close(q.changed)
		q.changed = make(chan struct{})
	}
	return nil
}

// leases returns the number of leases, and what is closed when it changes.
func (q *Queue) leases() (int, <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.maxLeases, q.changed
}

// enter re-enters a hold that ctx comes from, or acquires a new one.
func (q *Queue) enter(ctx context.Context, wait bool) (*Hold, error) {
	if outer := q.HeldIn(ctx); outer != nil && !q.cfg.plain {
		return outer.again(ctx)
	}
	if !wait {
		if err := q.look(ctx); err != nil {
			return nil, err
		}
	}
	pauses := q.client.RetryPolicy().NewBackOff()
	for {
		h, err := q.acquire(ctx, wait)
		var lost *placeLost
		if !errors.As(err, &lost) {
			return h, err
		}
		pause := pauses.NextBackOff()
		if pause == backoff.Stop {
			return nil, lost.cause
		}
		if err := ctxerr.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// placeLost means that our node is gone, with the session or by another's hand, before
// we held. Nothing is left of it, so acquire may begin again.
type placeLost struct{ cause error }

func (e *placeLost) Error() string { return e.cause.Error() }
func (e *placeLost) Unwrap() error { return e.cause }

// look spares TryAcquire the writes when all leases are taken.
func (q *Queue) look(ctx context.Context) error {
	newcomer, ok := q.driver.(Newcomer)
	if !ok {
		return nil
	}
	children, err := q.list(ctx)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	if leases, _ := q.leases(); newcomer.WouldWait(children, leases) {
		return ErrNotAcquired
	}
	return nil
}

// acquire is the lock recipe of the ZooKeeper documentation. Everything after the
// create is in wait, so that there is one way out for all that goes wrong.
func (q *Queue) acquire(ctx context.Context, wait bool) (*Hold, error) {
	session, err := q.client.Session(ctx)
	if err != nil {
		return nil, err
	}
	// From here on all is done in this session or not at all: a list that was read in
	// the next one would say nothing about a node of this one.
	pinned := framework.InSession(ctx, session)
	path, err := q.driver.Create(pinned, q.client, q.base, q.name, q.cfg.data) // 1
	if err == nil {
		p := &place{queue: q, session: session, path: path}
		var h *Hold
		if h, err = p.hold(pinned, wait); err == nil {
			return h, nil
		}
		p.leave()
	}
	switch cause := session.Err(); {
	case cause == nil && errors.Is(err, ErrSessionLost):
		// It is not over, but too long ago that the leader confirmed it. What
		// was sent since then may have done so.
		return nil, &placeLost{err}
	case cause == nil || errors.Is(cause, ErrClosed):
		return nil, err
	case ctx.Err() != nil:
		return nil, ctxerr.Of(ctx) // both have ended; the caller asked for this one
	default:
		return nil, &placeLost{cause}
	}
}

// place is our node in the queue, until it holds or leaves.
type place struct {
	queue   *Queue
	session *framework.Session
	path    string
}

// hold waits, if it may, until the place has a lease.
func (p *place) hold(ctx context.Context, wait bool) (*Hold, error) {
	q := p.queue
	_, own := framework.Split(p.path)
	if exhausted(own) {
		return nil, ErrSequenceExhausted
	}
	for {
		leases, changed := q.leases()
		children, err := q.list(ctx) // 2
		if err != nil {
			return nil, err
		}
		if !slices.Contains(children, own) {
			return nil, &placeLost{ErrNodeDeleted}
		}
		turn, err := q.driver.Decide(children, own, leases) // 3
		if err != nil {
			return nil, err
		}
		if turn.Held {
			h, err := newHold(ctx, p)
			if errors.Is(err, ErrSuspended) {
				continue // nobody is told "yours" and "not yours" in one breath
			}
			return h, err
		}
		if !wait {
			return nil, ErrNotAcquired
		}
		if err := p.await(ctx, turn.Watch, changed); err != nil { // 4
			return nil, err
		}
	}
}

// await returns when one of the nodes has gone or changed is closed.
func (p *place) await(ctx context.Context, names []string, changed <-chan struct{}) error {
	// A waiter depends on its session as a holder does: when it is woken, it
	// must not find out only then that its node is long gone.
	stop, err := p.session.Depend(connstate.Session, func(error) {})
	if err != nil {
		return err
	}
	defer stop()
	for {
		watches := make([]*framework.Watch, len(names))
		for i, name := range names {
			// Not exists: that would leave a watch behind on a node that is gone.
			_, _, watch, err := p.queue.client.GetW(ctx, framework.Join(p.queue.base, name))
			if errors.Is(err, zk.ErrNoNode) {
				return nil
			}
			if err != nil {
				return err
			}
			watches[i] = watch
		}
		gone, err := p.sleep(ctx, watches, changed)
		if gone || err != nil {
			return err
		}
		// The connection was lost, or somebody wrote to the node: look at the
		// nodes again. The queue ahead of us is the same.
	}
}

// sleep returns when one of the watches fires. gone says whether the queue is worth
// another look.
func (p *place) sleep(ctx context.Context, watches []*framework.Watch, changed <-chan struct{}) (gone bool, err error) {
	fired := watches[0].Done()
	if len(watches) > 1 {
		any := make(chan struct{})
		fired = any
		asleep := make(chan struct{})
		defer close(asleep)
		var once sync.Once
		for _, w := range watches {
			go func() { // ends with the watch, or with sleep
				select {
				case <-w.Done():
					once.Do(func() { close(any) })
				case <-asleep:
				}
			}()
		}
	}
	select {
	case <-fired:
	case <-changed:
		return true, nil
	case <-p.session.Done():
		return false, p.session.Err()
	case <-ctx.Done():
		// The node ahead may go at this very moment and make us the holder
		// without our knowing. We need not find out: our caller deletes our
		// node, and that wakes the next in line as a release would.
		return false, ctxerr.Of(ctx)
	}
	return slices.ContainsFunc(watches, func(w *framework.Watch) bool {
		return w.Event().Type == zk.EventNodeDeleted
	}), nil
}

// patience is how long giving up a place may hold up the caller. The node goes in
// any case; if it has gone by then, the caller's next look does not show it.
const patience = time.Second

// leave takes our node out of the queue. What ended the waiting does not matter to it:
// in particular not a context.
func (p *place) leave() {
	if p.session.Err() != nil {
		p.leaveSoon() // the servers see to it as well
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := p.remove(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrClosed) {
		p.queue.client.Logger().Warn("lock node stays behind", "path", p.path, "reason", err)
	}
}

// leaveSoon is leave for those who cannot wait.
func (p *place) leaveSoon() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = p.remove(now) // goes on in the background
}

// remove deletes our node, in the background if ctx ends first.
func (p *place) remove(ctx context.Context) (found bool, err error) {
	found, err = p.queue.client.DeleteGuaranteed(ctx, p.path)
	if err == nil {
		p.queue.rewind(ctx, p.path)
	}
	return found, err
}

// rewind makes the numbers start again long before they end, by deleting a lock's
// path. ZooKeeper refuses that while anybody is in the queue; those who come
// meanwhile make the path anew.
func (q *Queue) rewind(ctx context.Context, path string) {
	_, own := framework.Split(path)
	if number(own) >= rewindAt || exhausted(own) {
		// That it fails is expected: there is always a next one to try.
		_ = q.client.Delete(ctx, q.base, -1)
	}
}

// rewindAt is where numbers are high enough to start again when the queue is empty.
const rewindAt = 1 << 30

// exhausted reports whether a node has a number that gives no order any more. The server's
// counter turns negative after the largest one, which it gives out more than once.
func exhausted(child string) bool {
	n := number(child)
	return n < 0 || n >= math.MaxInt32
}

// number is what the server put at the end of a name, whatever is before it: the last ten
// characters, with their sign. Of the most negative numbers the sign is one
// further ahead, and what is left is too large for a number of the server's. A name
// without a number has 0.
func number(child string) int64 {
	n, err := strconv.ParseInt(child[max(0, len(child)-10):], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// list returns the names of the children that belong to this lock, in the driver's
// order.
func (q *Queue) list(ctx context.Context) ([]string, error) {
	all, _, err := q.client.Children(ctx, q.base)
	if err != nil {
		return nil, err
	}
	type entry struct{ key, name string }
	entries := make([]entry, 0, len(all))
	for _, name := range all {
		key, ours := q.driver.SortKey(name, q.name)
		if !ours {
			continue
		}
		if exhausted(name) {
			return nil, ErrSequenceExhausted
		}
		entries = append(entries, entry{key, name})
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if c := strings.Compare(a.key, b.key); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.name
	}
	return names, nil
}

func (q *Queue) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", op, q.base, err)
}
