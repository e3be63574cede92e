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
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/ctxerr"
)

// Queue is a queue for the leases at one path. All that contend for them, in this
// process and others, must use the same name, driver and number of leases. It
// keeps no state between calls but the number of leases, and what it has seen of how fast things go.
//
// All methods are safe for concurrent use.
type Queue struct {
	client *framework.Client
	base   string
	name   string
	driver Driver
	cfg    config

	pace pace
	line *line // nil: no local hand-off

	mu        sync.Mutex // guards what follows
	maxLeases int
	several   bool             // maxLeases is or was more than 1
	changed   chan struct{}    // closed and replaced when maxLeases changes
	places    map[int64]*place // ours, by number
	last      succession
	parent    *framework.Watch // on base; nil: there is none
	watching  bool             // that watch is being set
}

// pace is what a Queue has seen of how fast things go.
type pace struct {
	trip average // of a write to the servers and back
	held average // from a lease's beginning to its release
}

// average is that of the last durations, roughly. It is safe for concurrent use.
type average struct{ nanos atomic.Int64 }

func (a *average) note(d time.Duration) {
	old := a.nanos.Load()
	if old == 0 {
		old = int64(d)
	}
	a.nanos.Store(old + (int64(d)-old)/8) // that a note is lost now and then does not matter
}

func (a *average) duration() time.Duration { return time.Duration(a.nanos.Load()) }

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
	q := &Queue{
		client:    client,
		base:      path,
		name:      name,
		driver:    driver,
		cfg:       cfg,
		maxLeases: cfg.maxLeases,
		several:   cfg.maxLeases > 1,
		changed:   make(chan struct{}),
		places:    make(map[int64]*place),
	}
	if cfg.handOff != nil {
		if cfg.plain || !q.inOrder() {
			return nil, fmt.Errorf("lock: %w: local hand-off is for one lease, the Standard driver and re-entry", ErrBadArgument)
		}
		q.line = &line{handOff: *cfg.handOff}
	}
	return q, nil
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
	h, err := q.enter(ctx, attempt{wait: true})
	return h, q.opError("acquire", err)
}

// TryAcquire is Acquire without waiting for others: if all leases are taken, the error is
// [ErrNotAcquired]. To find that out takes one read and no write; a server that is
// behind the others may take a lease for taken that was released a moment ago.
func (q *Queue) TryAcquire(ctx context.Context) (*Hold, error) {
	h, err := q.enter(ctx, attempt{look: true})
	return h, q.opError("try", err)
}

// TryAcquireBehind is TryAcquire for recipes of two queues, such as a semaphore's: the error is [ErrNotAcquired] also if
// anybody is in the queue other, and both are looked at together. Who is hopeful makes its node right away, and looks
// then: that is one round trip less if the lease is free and nobody queues, and a node made and deleted in vain if not.
func (q *Queue) TryAcquireBehind(ctx context.Context, other *Queue, hopeful bool) (*Hold, error) {
	if other == nil {
		return nil, q.opError("try", fmt.Errorf("%w: nil queue", ErrBadArgument))
	}
	h, err := q.enter(ctx, attempt{look: !hopeful, behind: other})
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
// surplus goes as it is released. n must be positive, and 1 with [WithLocalHandOff], or the error
// is [ErrBadArgument].
func (q *Queue) SetMaxLeases(n int) error {
	if n < 1 || n > 1 && q.line != nil {
		return fmt.Errorf("lock: %w: %d leases", ErrBadArgument, n)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if n != q.maxLeases {
		q.maxLeases, q.several = n, true
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

// attempt is how to go about an acquire.
type attempt struct {
	wait   bool   // for others
	look   bool   // before a node is made
	behind *Queue // nil, or another queue that must be empty
}

// enter re-enters a hold that ctx comes from, or acquires a new one.
func (q *Queue) enter(ctx context.Context, a attempt) (*Hold, error) {
	if outer := q.HeldIn(ctx); outer != nil && !q.cfg.plain {
		return outer.again(ctx)
	}
	if o := q.client.Observer(); o != nil {
		return q.observed(ctx, a, o)
	}
	return q.obtain(ctx, a)
}

// obtain acquires a new hold.
func (q *Queue) obtain(ctx context.Context, a attempt) (*Hold, error) {
	if q.line != nil {
		return q.line.acquire(ctx, q, a)
	}
	return q.contend(ctx, a)
}

// contend acquires a new hold in the servers' queue.
func (q *Queue) contend(ctx context.Context, a attempt) (*Hold, error) {
	if a.look {
		if err := q.look(ctx, a.behind); err != nil {
			return nil, err
		}
	}
	pauses := q.client.RetryPolicy().NewBackOff()
	for {
		h, err := q.acquire(ctx, a)
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

// look spares TryAcquire the writes when all leases are taken, or somebody is in the other queue.
func (q *Queue) look(ctx context.Context, behind *Queue) error {
	var others listing
	if behind != nil {
		others.start(ctx, behind)
	}
	if err := q.lookHere(ctx); err != nil || behind == nil {
		return err
	}
	return others.empty(ctx, behind)
}

func (q *Queue) lookHere(ctx context.Context) error {
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
// create is in hold, so that there is one way out for all that goes wrong.
func (q *Queue) acquire(ctx context.Context, a attempt) (*Hold, error) {
	session, err := q.client.Session(ctx)
	if err != nil {
		return nil, err
	}
	// From here on all is done in this session or not at all: a list that was read in
	// the next one would say nothing about a node of this one.
	pinned := framework.InSession(ctx, session)
	p, err := q.join(pinned, session, a) // 1
	if err == nil {
		var h *Hold
		if h, err = p.hold(pinned, a.wait); err == nil {
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

// join makes our node. The list of the children follows on its heels, unless we
// will probably know who is ahead anyway; and that of the queue that must be empty, unless we have looked. If it is
// not empty, nothing of ours stays.
func (q *Queue) join(ctx context.Context, session *framework.Session, a attempt) (*place, error) {
	var ahead, others listing
	behind := a.behind != nil && !a.look
	creating := ctx
	if list := !q.crowded() && !q.hopeful(); list || behind {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		creating = framework.OnSent(creating, func() {
			if list {
				ahead.start(ctx, q)
			}
			if behind {
				others.start(ctx, a.behind)
			}
		})
	}
	began := time.Now()
	path, err := q.driver.Create(creating, q.client, q.base, q.name, q.cfg.data)
	if err != nil {
		return nil, err
	}
	q.pace.trip.note(time.Since(began))
	p := &place{queue: q, session: session, path: path, ahead: -1, over: make(chan struct{}), vanished: make(chan struct{})}
	p.children, p.alone = ahead.result()
	if behind {
		if err := others.empty(ctx, a.behind); err != nil {
			p.leave()
			return nil, err
		}
	}
	q.admit(p)
	return p, nil
}

// listing is a list that is asked for once, and read once it is there.
type listing struct {
	once     sync.Once
	done     chan struct{}    // nil: not asked for
	children []string         // nil: it failed; this and what follows is set before done is closed
	alone    *framework.Watch // see aloneIn; only with a local hand-off
	err      error
}

// start asks. It does not block.
func (l *listing) start(ctx context.Context, q *Queue) {
	l.once.Do(func() {
		done := make(chan struct{})
		l.done = done
		go func() { // ends with ctx at the latest
			defer close(done)
			if q.line == nil {
				l.children, l.err = q.list(ctx)
				return
			}
			var watch *framework.Watch
			l.children, watch, l.err = q.listW(ctx)
			l.alone = aloneIn(l.children, watch)
		}()
	})
}

// empty waits for the list, which is asked for if it was not. The error is ErrNotAcquired if anybody is in the
// queue.
func (l *listing) empty(ctx context.Context, q *Queue) error {
	l.start(ctx, q)
	<-l.done
	switch {
	case errors.Is(l.err, zk.ErrNoNode):
		return nil
	case l.err == nil && len(l.children) > 0:
		return ErrNotAcquired
	}
	return l.err
}

// result waits for the list. It is nil if there is none; whoever needs it asks again. start is not called any more.
func (l *listing) result() (children []string, alone *framework.Watch) {
	l.once.Do(func() {})
	if l.done == nil {
		return nil, nil
	}
	<-l.done
	return l.children, l.alone
}

// crowded reports whether the node just ahead of a new one is probably one of this Queue's that
// it can rely on.
func (q *Queue) crowded() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.places) > 0 && q.inOrder()
}

// inOrder reports whether one at a time holds, in the order of the numbers. q.mu is held.
func (q *Queue) inOrder() bool {
	_, standard := q.driver.(Standard)
	return standard && !q.several
}

// admit makes a place known to those of this Queue that come behind it.
func (q *Queue) admit(p *place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.places[p.number()] = p
}

func (q *Queue) forget(p *place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.places[p.number()] == p {
		delete(q.places, p.number())
	}
}

// neighbour returns the place of this Queue and session with this number, if there is one and
// whoever is behind it can rely on it.
func (q *Queue) neighbour(session *framework.Session, number int64) *place {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p := q.places[number]; p != nil && p.session == session && q.inOrder() {
		return p
	}
	return nil
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
	// Nearly all are far from it, and need not be parsed.
	if digits := child[max(0, len(child)-10):]; digits != "" && digits[0] != '-' && digits < "2147483647" {
		return false
	}
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
	return q.sorted(all)
}

// listW is list, and a watch that fires when somebody comes or goes.
func (q *Queue) listW(ctx context.Context) ([]string, *framework.Watch, error) {
	all, _, watch, err := q.client.ChildrenW(ctx, q.base)
	if err != nil {
		return nil, nil, err
	}
	names, err := q.sorted(all)
	return names, watch, err
}

// sorted returns those of all children that belong to this lock, in the driver's order.
func (q *Queue) sorted(all []string) ([]string, error) {
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
