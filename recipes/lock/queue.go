package lock

import (
	"context"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/follow"
	"github.com/gocurator/curator/recipes/internal/queue"
)

// Locker is a lock that can be combined with others (package multilock) or made revocable (package revocable): a [Queue], a
// mutex.Mutex, either side of an rwlock.Lock, or a semaphore.Semaphore.
type Locker interface {
	Acquire(ctx context.Context) (*Hold, error)
	TryAcquire(ctx context.Context) (*Hold, error)
}

// Queue is a queue for the leases at one path. All contenders, in this process and others, must use the same
// name, driver and number of leases. What a holder has is a [Hold]; a Queue need not be closed.
//
// All methods are safe for concurrent use.
type Queue queue.Queue

// New makes a queue at path for nodes called name (such as "lock-"), to which the server adds a number. driver
// decides who holds; nil means [Standard]. Nothing is sent. Errors are [framework.ErrBadPath] and [framework.ErrBadArgument].
func New(client *framework.Client, path, name string, driver Driver, opts ...Option) (*Queue, error) {
	if _, ok := driver.(Standard); ok {
		driver = queue.Standard{}
	}
	q, err := queue.New(client, path, name, driver, opts...)
	return (*Queue)(q), follow.OpError("lock", path, err)
}

// Acquire waits until it holds a lease, until ctx is done, or until no server could be reached for as long as the
// client's retry policy allows.
//
// When ctx is done, the error is that of ctx. It also wraps zk.ErrNoServer if no server could be reached, and
// otherwise [ErrNotAcquired] if somebody else was ahead in the queue. When the retry policy allows no more retries,
// about 90 s after the outage began by default, or after the session of a waiter was lost in it, the error wraps
// retry.ErrExhausted. To wait longer, give the client
// [framework.WithRetryPolicy] with retry.Forever. Other errors are [framework.ErrClosed], [ErrSequenceExhausted],
// [framework.ErrBadArgument], and what ZooKeeper refuses; it is zk.ErrNoAuth also for a contender that may not read its own node or the one
// that it waits for, since servers do not report the end of such a node. After an error we remove our node, also if the server carries out
// our create request only after Acquire has returned.
//
// If the session is lost while Acquire waits, or somebody else deletes our node, it queues again at the end, as
// often as the retry policy allows. After the last time the error is [framework.ErrSessionLost] or [ErrNodeDeleted]. If the lease was lost
// while an observer was notified of it, the error is the cause of the loss.
//
// With the [Hold.Context] of a hold of this same Queue, Acquire re-enters: it returns at once another hold of
// the same lease. The lease is released when all its holds are released. If that hold has ended, the error is
// the cause of its end.
func (q *Queue) Acquire(ctx context.Context) (*Hold, error) {
	h, err := (*queue.Queue)(q).Acquire(ctx)
	return (*Hold)(h), err
}

// TryAcquire is Acquire without waiting: if all leases are taken, the error is [ErrNotAcquired]. With the Standard driver and without
// [WithRetention] that takes no write, and seldom more than one read; otherwise a node may be created and deleted. The server is
// always asked, so a lease whose Release has returned is found free, unless the server is behind the others.
func (q *Queue) TryAcquire(ctx context.Context) (*Hold, error) {
	h, err := (*queue.Queue)(q).TryAcquire(ctx)
	return (*Hold)(h), err
}

// Do acquires, calls f and releases. f's context ends when the lease may no longer be ours, and when ctx ends.
// The error is Acquire's, or that of [Hold.Do]: f's and Release's joined. If f panics, the lease is released.
func (q *Queue) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return (*queue.Queue)(q).Do(ctx, f)
}

// Path is the parent path of the queue's nodes.
func (q *Queue) Path() string { return (*queue.Queue)(q).Path() }

// MaxLeases is how many can hold at a time.
func (q *Queue) MaxLeases() int { return (*queue.Queue)(q).MaxLeases() }

// Participant is a holder or a waiter.
type Participant = struct {
	Path    string    // of the node
	Holds   bool      // by what the list showed; others wait
	Data    []byte    // of the node: "host:pid" without [WithData]
	Session int64     // that the node belongs to
	Token   int64     // the fencing token. A downgraded reader's is higher than what its FencingToken returns
	Since   time.Time // when the node was created, by the server's clock
}

// Participants lists holders and waiters in the order of the queue, as the client's server knows them. It creates no node.
// Nodes that are deleted meanwhile are left out; a missing path has none. It reads all nodes at once. Errors are
// [ErrSequenceExhausted], zk.ErrNoAuth for a node that we may not read, and those of other operations of the client.
func (q *Queue) Participants(ctx context.Context) ([]Participant, error) {
	return (*queue.Queue)(q).Participants(ctx)
}
