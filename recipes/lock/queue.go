package lock

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/recipes/lock/internal/queueview"
)

// Queue is a queue for the leases at one path. All contenders, in this process and others, must use the same
// name, driver and number of leases. What a holder has is a [Hold]; a Queue need not be closed.
//
// All methods are safe for concurrent use.
type Queue struct {
	client *framework.Client
	base   string
	name   string
	driver Driver
	cfg    config
	views  *queueview.Views
	local  *localQueue // nil: no local hand-off and no retention
	order  queueview.Order
	noun   string // what a lease is, for the log
	silent bool   // no observer is told of it

	mu        sync.Mutex // guards what follows
	maxLeases int
	changed   chan struct{}   // closed and replaced when maxLeases changes
	used      time.Time       // when the last acquire began
	nodes     map[string]bool // names of the nodes of this Queue
	others    int             // nodes of others, when the queue was last looked at
}

// New makes a queue at path for nodes called name (such as "lock-"), to which the server adds a number. driver
// decides who holds; nil means [Standard]. Nothing is sent. Errors are [ErrBadPath] and [ErrBadArgument].
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
	if err := framework.ValidatePath("/" + name); err != nil || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("lock: %w: node name %q", ErrBadArgument, name)
	}
	if driver == nil {
		driver = Standard{}
	}
	cfg := config{maxLeases: 1, policy: client.ErrorPolicy()}
	if err := opt.Apply(&cfg, opts); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	q := &Queue{
		client:    client,
		base:      path,
		name:      name,
		driver:    driver,
		cfg:       cfg,
		views:     queueview.Of(client),
		maxLeases: cfg.maxLeases,
		changed:   make(chan struct{}),
		nodes:     make(map[string]bool),
		noun:      "lock",
	}
	q.order = &order{driver, name}
	if reflect.ValueOf(driver).Comparable() { // also what its fields hold
		// It is equal to that of other Queues, which share what a view keeps for it; unless a field is not equal to itself.
		if own, other := queueview.Order(order{driver, name}), queueview.Order(order{driver, name}); own == other {
			q.order = own
		}
	}
	if q.local = newLocalQueue(cfg.lend); q.local != nil {
		if _, standard := driver.(Standard); cfg.plain || !standard || cfg.maxLeases > 1 {
			return nil, fmt.Errorf("lock: %w: local hand-off and retention are for one lease, the Standard driver and re-entry", ErrBadArgument)
		}
	}
	return q, nil
}

// Acquire waits until it holds a lease, until ctx is done, or until no server could be reached for as long as the
// client's retry policy allows.
//
// When ctx is done, the error is that of ctx. It also wraps zk.ErrNoServer if no server could be reached, and
// otherwise [ErrNotAcquired] if somebody else was ahead in the queue. When the retry policy allows no more retries,
// about 90 s after the outage began by default, or after the session of a waiter was lost in it, the error wraps
// retry.ErrExhausted. To wait longer, give the client
// [framework.WithRetryPolicy] with retry.Forever. Other errors are [ErrClosed], [ErrSequenceExhausted],
// [ErrBadArgument], and what ZooKeeper refuses; it is zk.ErrNoAuth also for a contender that may not read its own node or the one
// that it waits for, since servers do not report the end of such a node. After an error we remove our node, also if the server carries out
// our create request only after Acquire has returned.
//
// If the session is lost while Acquire waits, or somebody else deletes our node, it queues again at the end, as
// often as the retry policy allows. After the last time the error is [ErrSessionLost] or [ErrNodeDeleted]. If the lease was lost
// while an observer was told of it, the error is the cause of the loss.
//
// With the [Hold.Context] of a hold of this same Queue, Acquire re-enters: it returns at once another hold of
// the same lease. The lease is released when all its holds are released. If that hold has ended, the error is
// the cause of its end. A Queue made with [WithoutReentry] does not re-enter.
func (q *Queue) Acquire(ctx context.Context) (*Hold, error) {
	h, err := q.enter(ctx, true)
	return h, q.opError("acquire", err)
}

// TryAcquire is Acquire without waiting: if all leases are taken, the error is [ErrNotAcquired]. That takes no
// write, and seldom more than one read: the server is always asked, so a lease whose Release has returned is found free,
// unless the server is behind the others.
func (q *Queue) TryAcquire(ctx context.Context) (*Hold, error) {
	h, err := q.enter(ctx, false)
	return h, q.opError("try", err)
}

// Do acquires, calls f and releases. f's context ends when the lease may no longer be ours, and when ctx ends.
// The error is Acquire's, or f's and Release's joined. If f panics, the lease is released.
func (q *Queue) Do(ctx context.Context, f func(ctx context.Context) error) (err error) {
	h, err := q.Acquire(ctx)
	if err != nil {
		return err
	}
	return h.Do(ctx, f)
}

// Path is the parent path of the queue's nodes.
func (q *Queue) Path() string { return q.base }

// MaxLeases is how many can hold at a time.
func (q *Queue) MaxLeases() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.maxLeases
}

// SetMaxLeases changes how many can hold at a time, for this Queue only: all Queues at the path must be
// changed. A higher number wakes waiters. With a lower number no holder loses its lease; with 0 nobody acquires until the
// number is higher. n must not be negative, and 1 with [WithLocalHandOff]; otherwise the error is [ErrBadArgument]. It is for recipes that keep the number
// on the servers, such as a semaphore with a shared count.
func (q *Queue) SetMaxLeases(n int) error {
	if n < 0 || n != 1 && q.local != nil {
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

// order is how the nodes of a Queue are found and sorted.
type order struct {
	driver Driver
	name   string
}

// SortKey is that of the driver.
func (o order) SortKey(child string) (key string, ours bool) { return o.driver.SortKey(child, o.name) }

func (q *Queue) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &framework.OpError{Op: op, Path: q.base, Err: err}
}
