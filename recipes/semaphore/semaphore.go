// Package semaphore limits the number of holders at a time, across all processes that use the same path of a ZooKeeper ensemble.
// It is Curator's InterProcessSemaphoreV2.
//
// # On the wire
//
// Below the semaphore's path are a queue and the leases:
//
//	<path>/locks/_c_<uuid>-lock-<sequence>
//	<path>/leases/_c_<uuid>-lease-<sequence>
//
// The queue is a mutex. Its holder creates a lease node, waits until fewer than max nodes are ahead of that node, and releases
// the mutex. So one waiter at a time waits for a lease, and the others wait for the mutex. Deleting the lease node releases the
// lease. Java and Go share one semaphore in this way.
//
// If nobody is in the queue and a lease is free, the mutex is not needed. The client creates a lease node. If the node is among
// the first max, and nobody is in the queue then, it is a lease; otherwise it is deleted at once. Every holder had fewer than max
// nodes ahead at one instant, and that number only falls. So there are never more than max leases.
//
// # What it promises
//
//   - At most max holds have a live context.
//   - First come, first served among waiters.
//   - AcquireN acquires all of its leases or none.
//   - A waiter wakes when any holder releases.
//
// # What it cannot promise
//
// See package lock for what no lock can promise. And Java's clients acquire several leases one after the other: two of them that
// each hold one lease of two, and need both, wait for each other for ever. A client may overtake waiters whose nodes it may not
// read.
package semaphore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/recipes/internal/follow"
	"github.com/gocurator/curator/recipes/internal/queue"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/shared"
)

// ErrTooMany means that AcquireN or TryAcquireN was called for more leases than the maximum, which can never succeed.
var ErrTooMany = errors.New("too many leases")

// Curator's names for the nodes of an InterProcessSemaphoreV2.
const (
	queueDir  = "locks"
	queueName = "lock-"
	leaseDir  = "leases"
	leaseName = "lease-"
)

// Semaphore is a semaphore at one path. A holder has a [lock.Hold] for each lease; the Semaphore itself has no state, except what
// it has read of a shared count. It is safe for concurrent use.
//
// It is not re-entrant: with the context of a hold, Acquire acquires another lease.
type Semaphore struct {
	client *framework.Client
	path   string
	queue  *queue.Queue
	leases *queue.Queue
	count  *count // nil: the number of leases is fixed
}

// New makes a semaphore at path with max leases, which must be at least 1. All that use the path must give the same max. With a
// max of 1 it is Curator's InterProcessSemaphoreMutex, a mutex that is not re-entrant. Nothing is sent. Errors are
// [framework.ErrBadPath] and [framework.ErrBadArgument]; [lock.WithMaxLeases] is not allowed.
//
// Options apply to the leases. The queue's nodes have the client's default data, as in Curator.
func New(client *framework.Client, path string, max int, opts ...lock.Option) (*Semaphore, error) {
	return newSemaphore(client, path, max, opts)
}

// NewShared makes a semaphore at path whose number of leases is the [shared.Int32] at countPath, now and after every change: in
// all processes, including Java processes that use it as a SharedCount. countPath should not be below path. If the number rises,
// waiters wake. If it falls, no holder loses its lease; a released lease is granted again only when fewer than the new number are
// held. At 0, also if nobody has set it yet, the semaphore is drained: nobody acquires another lease. A negative number is
// [shared.ErrBadValue]. Nothing is sent. Errors are those of [New].
func NewShared(client *framework.Client, path, countPath string, opts ...lock.Option) (*Semaphore, error) {
	s, err := newSemaphore(client, path, 1, opts)
	if err != nil {
		return nil, err
	}
	value, err := shared.Int32(client, countPath)
	if err != nil {
		return nil, err
	}
	s.count = &count{client: client, value: value, leases: s.leases}
	return s, nil
}

func newSemaphore(client *framework.Client, path string, max int, opts []lock.Option) (s *Semaphore, err error) {
	defer func() { err = follow.OpError("semaphore", path, err) }()
	leases, err := queue.New(client, path, leaseName, nil, opts...) // as the caller wrote it
	if err != nil {
		return nil, err
	}
	if n := leases.MaxLeases(); n != 1 {
		return nil, fmt.Errorf("%w: both a max and WithMaxLeases(%d)", framework.ErrBadArgument, n)
	}
	// A suspended connection does not end a wait: the node exists as long as the session.
	// No observer is notified of it: what is waited for is a lease.
	waiters, err := queue.New(client, framework.Join(path, queueDir), queueName, nil,
		opt.Set(func(c *queue.Config) { c.Plain, c.Silent, c.Policy = true, true, connstate.Session }))
	if err != nil {
		return nil, err
	}
	own := opt.Checked(max >= 1, func(c *queue.Config) { c.Plain, c.MaxLeases, c.Ahead = true, max, waiters }, "%d leases, must be at least 1", max)
	if leases, err = queue.New(client, framework.Join(path, leaseDir), leaseName, nil, append(slices.Clone(opts), own)...); err != nil {
		return nil, err
	}
	return &Semaphore{client: client, path: path, queue: waiters, leases: leases}, nil
}

// Acquire waits until it holds a lease, until ctx is done, or until no server could be reached for as long as the client's retry
// policy allows: about 90 s by default, and then the error wraps retry.ErrExhausted. After an error no node of ours stays. Other
// errors are [shared.ErrBadValue], and those of [lock.Queue.Acquire].
func (s *Semaphore) Acquire(ctx context.Context) (*lock.Hold, error) {
	return s.one(ctx, "acquire", true)
}

// AcquireN waits until it holds n leases, all or none. The error is [ErrTooMany] if the maximum is less than n, also if it falls
// below n while AcquireN is the first in the queue, but not while it is 0, and [framework.ErrBadArgument] if n is less than 1. Other errors are those of
// [Semaphore.Acquire]. The time of [lock.WithMaxHold] counts for each lease from when it was acquired, also while AcquireN waits
// for the others.
func (s *Semaphore) AcquireN(ctx context.Context, n int) (*lock.Group, error) {
	return s.group(ctx, "acquire", n, true)
}

// TryAcquire is Acquire without waiting: the error is [lock.ErrNotAcquired] if no lease is free, or if others wait for one.
func (s *Semaphore) TryAcquire(ctx context.Context) (*lock.Hold, error) {
	return s.one(ctx, "try", false)
}

// TryAcquireN is [Semaphore.AcquireN] without waiting: the error is [lock.ErrNotAcquired] if fewer than n leases are free, or if
// others wait.
func (s *Semaphore) TryAcquireN(ctx context.Context, n int) (*lock.Group, error) {
	return s.group(ctx, "try", n, false)
}

// Do acquires a lease, calls f and releases. f's context ends when the lease may no longer be ours, and when ctx ends. The error
// is Acquire's, or that of [lock.Hold.Do]: f's and Release's joined. If f panics, the lease is released.
func (s *Semaphore) Do(ctx context.Context, f func(ctx context.Context) error) error {
	hold, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	return hold.Do(ctx, f)
}

// Participants lists the holders in the order of the leases, and then the waiters in the order of the queue. If a shared count is
// below the number of holders, only so many are listed: the nodes of the others look like those of waiters. Errors are those of
// [lock.Queue.Participants] and [Semaphore.Max].
func (s *Semaphore) Participants(ctx context.Context) ([]lock.Participant, error) {
	var leases, waiters []lock.Participant
	_, err := s.Max(ctx)
	if err == nil {
		leases, err = s.leases.Participants(ctx)
	}
	if err == nil {
		waiters, err = s.queue.Participants(ctx)
	}
	if err != nil {
		return nil, s.opError("participants", err)
	}
	var all []lock.Participant
	for _, p := range leases {
		if p.Holds { // the others are in the queue as well, or will be gone in a moment
			all = append(all, p)
		}
	}
	for _, p := range waiters {
		p.Holds = false // what the first one holds is the queue
		all = append(all, p)
	}
	return all, nil
}

// Path is the path of the semaphore.
func (s *Semaphore) Path() string { return s.path }

// Max is the number of leases. It reads a shared count from the servers: errors are [shared.ErrBadValue] and those of
// [framework.Client.Get].
func (s *Semaphore) Max(ctx context.Context) (int, error) {
	if s.count != nil {
		if _, err := s.count.read(ctx); err != nil {
			return 0, s.opError("max", err)
		}
	}
	return s.leases.MaxLeases(), nil
}

// acquire acquires n leases, and has the observer know.
func (s *Semaphore) acquire(ctx context.Context, op string, n int, mayWait bool) ([]*queue.Hold, error) {
	if n < 1 {
		return nil, s.opError(op, fmt.Errorf("%w: %d leases, must be at least 1", framework.ErrBadArgument, n))
	}
	ctx, done := s.leases.Observe(ctx)
	holds, err := s.obtain(ctx, n, mayWait)
	if err = done(s.opError(op, err), holds...); err != nil {
		return nil, s.opError(op, err)
	}
	return holds, nil
}

// obtain tries the leases first, and queues if it may wait. If a node is lost before it has all leases, it begins again.
func (s *Semaphore) obtain(ctx context.Context, n int, mayWait bool) ([]*queue.Hold, error) {
	return queue.Repeat(ctx, s.client, func() ([]*queue.Hold, error) {
		holds, err := s.try(ctx, n)
		if mayWait && errors.Is(err, lock.ErrNotAcquired) {
			holds, err = s.wait(ctx, n)
		}
		return holds, err
	})
}

// try acquires n leases if they are free and nobody waits.
func (s *Semaphore) try(ctx context.Context, n int) ([]*queue.Hold, error) {
	if _, err := s.Max(ctx); err != nil {
		return nil, err
	}
	if err := s.admit(n); err != nil {
		return nil, err
	}
	return s.take(ctx, n, s.leases.TryAcquire)
}

// admit fails if n is above the maximum. A semaphore with maximum 0 is drained for a while: then nothing is known.
func (s *Semaphore) admit(n int) error {
	if max := s.leases.MaxLeases(); max > 0 && n > max {
		return fmt.Errorf("%w: %d requested, the maximum is %d", ErrTooMany, n, max)
	}
	return nil
}

// useless is why we gave up waiting by ourselves.
type useless struct{ error }

// wait queues. The first in the queue acquires all of its n leases before the next one may acquire any.
func (s *Semaphore) wait(ctx context.Context, n int) ([]*queue.Hold, error) {
	front, err := s.queue.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	first, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(front.Context(), func() { cancel(useless{&queue.NodeLost{Cause: front.Err()}}) })()
	followed := make(chan struct{})
	go func() { // ends with first
		defer close(followed)
		if s.count == nil {
			return
		}
		if err := s.count.follow(first, func() error { return s.admit(n) }); err != nil {
			cancel(useless{err})
		}
	}()
	holds, err := s.take(first, n, s.leases.Acquire)
	var lost *queue.NodeLost
	if errors.As(err, &lost) && first.Err() == nil {
		// It is still our turn: what we have just given back is free, and nobody overtakes us.
		holds, err = s.take(first, n, s.leases.Acquire)
	}
	ours, given := context.Cause(first).(useless)
	cancel(nil)
	<-followed
	queue.Leave([]*queue.Hold{front}) // it may wait for the servers
	if err == nil {
		holds, err = alive(holds)
	}
	if err != nil && given {
		err = ours.error // ctx had not ended then
	}
	return holds, err
}

// take acquires n leases, or none. If a shared count falls meanwhile, or has fallen since it was read, it begins again: they may
// have been granted by the higher number.
func (s *Semaphore) take(ctx context.Context, n int, acquire func(context.Context) (*queue.Hold, error)) ([]*queue.Hold, error) {
	if s.count == nil {
		holds, err := each(ctx, n, acquire)
		if err != nil {
			return nil, err
		}
		return alive(holds)
	}
	for {
		_, falls := s.count.known()
		holds, err := each(ctx, n, acquire)
		if err != nil {
			return nil, err
		}
		// What the connection has brought of the count is newer than the leases.
		if current, _ := s.count.known(); !current {
			if _, err = s.count.read(ctx); err == nil {
				err = s.admit(n)
			}
		}
		if _, now := s.count.known(); err == nil && now == falls {
			return alive(holds)
		}
		queue.Leave(holds)
		if err != nil {
			return nil, err
		}
	}
}

// each acquires n leases one after the other, and releases them if it fails.
func each(ctx context.Context, n int, acquire func(context.Context) (*queue.Hold, error)) (holds []*queue.Hold, err error) {
	for len(holds) < n {
		hold, err := acquire(ctx)
		if err != nil {
			queue.Leave(holds)
			return nil, err
		}
		holds = append(holds, hold)
	}
	return holds, nil
}

// alive returns holds if none of them was lost. Otherwise it releases the others.
func alive(holds []*queue.Hold) ([]*queue.Hold, error) {
	for _, h := range holds {
		if err := h.Err(); err != nil {
			queue.Leave(holds)
			return nil, &queue.NodeLost{Cause: err}
		}
	}
	return holds, nil
}

func (s *Semaphore) one(ctx context.Context, op string, mayWait bool) (*lock.Hold, error) {
	holds, err := s.acquire(ctx, op, 1, mayWait)
	if err != nil {
		return nil, err
	}
	return (*lock.Hold)(holds[0]), nil
}

func (s *Semaphore) group(ctx context.Context, op string, n int, mayWait bool) (*lock.Group, error) {
	holds, err := s.acquire(ctx, op, n, mayWait)
	if err != nil {
		return nil, err
	}
	return (*lock.Group)(queue.NewGroup(holds)), nil
}

// opError names the semaphore in place of its queues.
func (s *Semaphore) opError(op string, err error) error { return follow.OpError(op, s.path, err) }
