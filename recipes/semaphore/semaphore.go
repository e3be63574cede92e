// Package semaphore limits the number of holders at a time, across all processes that use the same
// path of a ZooKeeper ensemble. It is Curator's InterProcessSemaphoreV2.
//
//	s, err := semaphore.New(client, "/reports/exports", 3)
//	if err != nil { ... }
//	err = s.Do(ctx, func(ctx context.Context) error { // waits for one of three leases
//		return export(ctx) // ctx is cancelled before another client can hold the lease
//	})
//
// # On the wire
//
// Below the semaphore's path are a queue and the leases:
//
//	<path>/locks/_c_<uuid>-lock-<sequence>
//	<path>/leases/_c_<uuid>-lease-<sequence>
//
// The queue is a mutex. Its holder creates a lease node, waits until fewer than max nodes are ahead
// of that node, and releases the mutex. So one waiter at a time waits for a lease, and the others
// wait for the mutex. Deleting the lease node releases the lease. Java and Go share one semaphore
// in this way.
//
// If the queue is empty and a lease is free, the mutex is not needed. The client creates a
// lease node. If the node is among the first max, and the queue is empty then, it is a lease;
// otherwise it is deleted at once. Every holder had fewer than max nodes ahead at one instant, and
// that number only falls. So there are never more than max leases.
//
// A semaphore with a max of 1 is Curator's InterProcessSemaphoreMutex, a mutex that is not
// re-entrant.
//
// # A shared maximum
//
// The maximum of [NewShared] is for all processes, including Java processes that use the number as
// a SharedCount. If it rises, waiters wake. If it falls, no holder loses its lease; another
// lease is acquired only when fewer than the new number are held. At 0, and while it is unset, no
// lease is acquired. A negative number is [shared.ErrBadValue].
//
// While the maximum is lower than the number of leases that AcquireN asks for, AcquireN waits, as
// Java does, and so do all waiters behind it. The log and the error at the end of the wait name the
// maximum.
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
// See package lock for what no lock can promise. Java's clients acquire several leases one after
// the other: two clients that each hold one lease of two, and need both, wait for each other for
// ever. A client can overtake waiters whose nodes it is not permitted to read.
package semaphore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/nocopy"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/recipes/internal/locking"
	"github.com/gocurator/curator/recipes/internal/locks"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/shared"
)

// ErrTooMany means that AcquireN or TryAcquireN was called for more leases than the maximum. If the
// maximum is shared, AcquireN waits instead. TryAcquireN at a shared maximum of 0 returns
// [lock.ErrNotAcquired].
var ErrTooMany = errors.New("too many leases")

// Curator's names for the nodes of an InterProcessSemaphoreV2.
const (
	queueDir  = "locks"
	queueName = "lock-"
	leaseDir  = "leases"
	leaseName = "lease-"
)

// inside is what package lock offers to the recipes of this module.
var inside = locks.Inside

// Semaphore is a semaphore at one path. A holder has a [lock.Hold] for each lease; the Semaphore
// itself has no state, except the shared count that it has read. It is safe for concurrent use.
//
// Acquire with the context of a hold acquires another lease. [lock.WithReentry] is refused.
type Semaphore struct {
	_ nocopy.Mark

	client *framework.Client
	path   string
	queue  *lock.Queue
	leases *lock.Queue
	count  *count // nil: the number of leases is fixed
}

// New returns a semaphore at path with max leases, at least 1. It sends no request. All clients of
// the path must use the same max.
//
// Options apply to the leases; [lock.WithMaxLeases] is not allowed.
//
// Errors are
//   - [framework.ErrBadPath] if path is invalid or the root;
//   - [framework.ErrBadArgument] if client is nil, max is less than 1, an option is invalid or not
//     allowed, or options cannot be combined.
func New(client *framework.Client, path string, max int, opts ...lock.Option) (*Semaphore, error) {
	return newSemaphore(client, path, max, opts)
}

// NewShared returns a semaphore at path whose maximum is the [shared.Int32] at countPath, now and
// after every change: see the package comment. It sends no request.
//
// Errors are
//   - [framework.ErrBadPath] if path or countPath is invalid or the root;
//   - [framework.ErrBadArgument] if client is nil, countPath is path or below it, an option is
//     invalid or not allowed, or options cannot be combined.
func NewShared(client *framework.Client, path, countPath string, opts ...lock.Option) (*Semaphore, error) {
	s, err := newSemaphore(client, path, 1, opts)
	if err != nil {
		return nil, err
	}
	if _, err := shared.Int32(client, countPath); err != nil {
		return nil, err
	}
	if countPath == path || strings.HasPrefix(countPath, path+"/") {
		err := fmt.Errorf("%w: the maximum at %s is not outside the semaphore", framework.ErrBadArgument, countPath)
		return nil, operr.New("semaphore", path, err)
	}
	s.count = &count{client: client, path: countPath, leases: s.leases}
	return s, nil
}

func newSemaphore(client *framework.Client, path string, max int, opts []lock.Option) (s *Semaphore, err error) {
	defer func() { err = operr.New("semaphore", path, err) }()
	leases, err := lock.New(client, path, leaseName, nil, opts...) // as the caller wrote it
	if err != nil {
		return nil, err
	}
	if n := inside.MaxLeases(leases); n != 1 {
		return nil, fmt.Errorf("%w: WithMaxLeases(%d) is not allowed, max sets the number", framework.ErrBadArgument, n)
	}
	if max < 1 {
		return nil, fmt.Errorf("%w: %d leases, must be at least 1", framework.ErrBadArgument, max)
	}
	// A suspended connection does not end a wait: the node exists as long as the session. No
	// observer is notified of it: the caller waits for a lease.
	waiters, err := lock.New(client, framework.Join(path, queueDir), queueName, nil,
		inside.With(locking.Settings[*lock.Queue]{Another: true, Unobserved: true, SuspensionEndsNothing: true}))
	if err != nil {
		return nil, err
	}
	own := inside.With(locking.Settings[*lock.Queue]{Another: true, MaxLeases: max, Front: waiters})
	if leases, err = lock.New(client, framework.Join(path, leaseDir), leaseName, nil, append(slices.Clone(opts), own)...); err != nil {
		return nil, err
	}
	return &Semaphore{client: client, path: path, queue: waiters, leases: leases}, nil
}

// Acquire waits until it holds a lease. If it fails, its nodes are deleted. If the session is lost
// while Acquire waits, or another client deletes its node, it queues again at the end, as often as
// the client's retry policy allows.
//
// Errors are
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [lock.ErrNotAcquired] if no lease was free, or another contender was ahead in the
//     queue. It wraps [framework.ErrSessionLost] if the servers answer too slowly for a hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if there were retries: by default about 90 s
//     after an outage began, or after the session of a waiter was lost in it;
//   - [shared.ErrBadValue] if the shared maximum is negative or cannot be decoded;
//   - the cause of the loss, which wraps [framework.ErrLost], if the lease was lost while a
//     [lock.Observer] was notified of it, or before Acquire returned and the retry policy allows no
//     more tries;
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if the session or a node was lost, and
//     the retry policy allows no more tries;
//   - framework.ErrSessionLost if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - [framework.ErrTooLong] if the node's data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - [framework.ErrBadArgument] if the client is a view of nil or of another client's session;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create a node, or
//     to read its own nodes or the one that it waits for.
//
// To wait for longer in an outage, give the client [framework.WithRetryPolicy] with retry.Forever.
func (s *Semaphore) Acquire(ctx context.Context) (*lock.Hold, error) {
	holds, err := s.acquire(ctx, "acquire", 1, true)
	if err != nil {
		return nil, err
	}
	return holds[0], nil
}

// AcquireN waits until it holds n leases, all or none. If the session is lost while AcquireN waits,
// or another client deletes its node, it queues again at the end, as often as the client's retry
// policy allows. The time set by [lock.WithMaxHold] starts for each lease when it is acquired.
//
// Errors are
//   - [ErrTooMany] if n exceeds a maximum that is not shared;
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [lock.ErrNotAcquired] if fewer than n leases were free, or another contender was
//     ahead in the queue. It wraps [framework.ErrSessionLost] if the servers answer too slowly for
//     a hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if there were retries: by default about 90 s
//     after an outage began, or after the session of a waiter was lost in it;
//   - [shared.ErrBadValue] if the shared maximum is negative or cannot be decoded;
//   - the cause of the loss, which wraps [framework.ErrLost], if a lease was lost while a
//     [lock.Observer] was notified of it, or before all leases were acquired and the retry policy
//     allows no more tries;
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if the session or a node was lost, and
//     the retry policy allows no more tries;
//   - framework.ErrSessionLost if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - [framework.ErrTooLong] if the node's data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - [framework.ErrBadArgument] if n is less than 1, or the client is a view of nil or of another
//     client's session;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create a node, or
//     to read its own nodes or the one that it waits for.
func (s *Semaphore) AcquireN(ctx context.Context, n int) (*lock.Group, error) {
	holds, err := s.acquire(ctx, "acquire", n, true)
	if err != nil {
		return nil, err
	}
	return inside.Group(ctx, holds), nil
}

// TryAcquire acquires a lease without waiting for other clients. A server that lags may still
// report a released lease as taken.
//
// Errors are
//   - [lock.ErrNotAcquired] if no lease is free, or if another contender waits for one;
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [lock.ErrNotAcquired] if no lease was free, or another contender was ahead in the
//     queue. It wraps [framework.ErrSessionLost] if the servers answer too slowly for a hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if there were retries: by default about 90 s
//     after an outage began;
//   - [shared.ErrBadValue] if the shared maximum is negative or cannot be decoded;
//   - the cause of the loss, which wraps [framework.ErrLost], if the lease was lost while a
//     [lock.Observer] was notified of it, or before TryAcquire returned and the retry policy allows
//     no more tries;
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if the session or a node was lost, and
//     the retry policy allows no more tries;
//   - framework.ErrSessionLost if the servers answer too slowly for a hold, or if the client is a
//     view of a lost session: see [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - [framework.ErrTooLong] if the node's data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - [framework.ErrBadArgument] if the client is a view of nil or of another client's session;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create a node, or
//     to read its own.
func (s *Semaphore) TryAcquire(ctx context.Context) (*lock.Hold, error) {
	holds, err := s.acquire(ctx, "try", 1, false)
	if err != nil {
		return nil, err
	}
	return holds[0], nil
}

// TryAcquireN acquires n leases, all or none, without waiting for other clients. A server that lags
// may still report a released lease as taken.
//
// Errors are
//   - [lock.ErrNotAcquired] if fewer than n leases are free, or if another contender waits;
//   - [ErrTooMany] if n exceeds the maximum, except a shared maximum of 0;
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [lock.ErrNotAcquired] if fewer than n leases were free, or another contender was
//     ahead in the queue. It wraps [framework.ErrSessionLost] if the servers answer too slowly for
//     a hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if there were retries: by default about 90 s
//     after an outage began;
//   - [shared.ErrBadValue] if the shared maximum is negative or cannot be decoded;
//   - the cause of the loss, which wraps [framework.ErrLost], if a lease was lost while a
//     [lock.Observer] was notified of it, or before all leases were acquired and the retry policy
//     allows no more tries;
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if the session or a node was lost, and
//     the retry policy allows no more tries;
//   - framework.ErrSessionLost if the servers answer too slowly for a hold, or if the client is a
//     view of a lost session: see [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - [framework.ErrTooLong] if the node's data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - [framework.ErrBadArgument] if n is less than 1, or the client is a view of nil or of another
//     client's session;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create a node, or
//     to read its own.
func (s *Semaphore) TryAcquireN(ctx context.Context, n int) (*lock.Group, error) {
	holds, err := s.acquire(ctx, "try", n, false)
	if err != nil {
		return nil, err
	}
	return inside.Group(ctx, holds), nil
}

// Do acquires a lease, calls f, and releases the lease, even if f panics. f's context derives from
// ctx, and is also cancelled when the lease may be lost: see [lock.Hold.Do]. If Do cannot acquire,
// f is not called.
//
// Errors are
//   - the error of f, joined with the cause of the loss if the lease was lost;
//   - the cause of the loss, which wraps [framework.ErrLost], if the lease is lost before its
//     release;
//   - [framework.ErrBadArgument] if f is nil, or the client is a view of nil or of another client's
//     session;
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [lock.ErrNotAcquired] if no lease was free, or another contender was ahead in the
//     queue. It wraps [framework.ErrSessionLost] if the servers answer too slowly for a hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if there were retries: by default about 90 s
//     after an outage began, or after the session of a waiter was lost in it;
//   - [shared.ErrBadValue] if the shared maximum is negative or cannot be decoded;
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if the session or a node was lost, and
//     the retry policy allows no more tries;
//   - framework.ErrSessionLost if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - [framework.ErrTooLong] if the node's data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create or delete
//     a node, or to read its own nodes or the one that it waits for.
//
// If f returns nil after [framework.ErrSuspended], Do returns nil if the lease's node still existed
// at the release: see [lock.Hold.Release].
func (s *Semaphore) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return locking.Do(ctx, s.path, s.Acquire, f)
}

// Participants lists the holders in the order of the leases, and then the waiters in the order of
// the queue, as the client's server knows them at the time of the call. It omits nodes that are
// deleted at the same time. If the path does not exist, the list is empty.
//
// If a shared count has fallen below the number of holders, Participants omits the holders above
// it, whose nodes look like waiters'.
//
// Errors are
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [shared.ErrBadValue] if the shared maximum is negative or cannot be decoded;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrBadArgument] if the client is a view of nil or of another client's session;
//   - [framework.ErrNotCompressed] if a client [framework.WithCompression] cannot decompress a
//     node's data;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to read a node.
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
		if p.Holds { // the others are in the queue as well, or about to be deleted
			all = append(all, p)
		}
	}
	for _, p := range waiters {
		p.Holds = false // its hold is the queue's
		all = append(all, p)
	}
	return all, nil
}

// Path returns the path of the semaphore.
func (s *Semaphore) Path() string { return s.path }

// Max returns the number of leases. With a shared count it reads the count from the servers.
// Without one the error is nil.
//
// Errors are
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [shared.ErrBadValue] if the shared maximum is negative or cannot be decoded;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrBadArgument] if the client is a view of nil or of another client's session;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to read the count.
func (s *Semaphore) Max(ctx context.Context) (int, error) {
	if s.count != nil {
		if _, err := s.count.read(ctx, s.count.client); err != nil {
			return 0, s.opError("max", err)
		}
	}
	return inside.MaxLeases(s.leases), nil
}

// acquire acquires n leases. It tries the leases first, and queues if it may wait. If a node is
// lost before it has all leases, it starts again.
func (s *Semaphore) acquire(ctx context.Context, op string, n int, mayWait bool) (holds []*lock.Hold, err error) {
	defer func() { err = s.opError(op, err) }()
	if n < 1 {
		return nil, fmt.Errorf("%w: %d leases, must be at least 1", framework.ErrBadArgument, n)
	}
	ctx, done := inside.Observe(ctx, s.leases)
	err = errPanicked // unless the calls below return
	defer func() {
		if err = done(s.opError(op, err), holds...); err != nil {
			holds = nil
		}
	}()
	holds, err = locking.Repeat(ctx, s.client, func() ([]*lock.Hold, error) {
		holds, err := s.free(ctx, n, mayWait)
		if !mayWait || !errors.Is(err, lock.ErrNotAcquired) {
			return holds, err
		}
		holds, err = s.queued(ctx, n)
		if gaveUp := ctx.Err(); gaveUp != nil && errors.Is(err, gaveUp) && !errors.Is(err, zk.ErrNoServer) && !errors.Is(err, lock.ErrNotAcquired) {
			err = fmt.Errorf("%w: %w", lock.ErrNotAcquired, err) // other contenders were ahead all the time
		}
		return holds, err
	})
	if low := s.count.tooLow(n); low != "" && errors.Is(err, lock.ErrNotAcquired) {
		err = fmt.Errorf("%w: %s", err, low)
	}
	return holds, err
}

// errPanicked is the error that an observer gets for an acquire in which a user's function
// panicked.
var errPanicked = errors.New("panicked")

// free acquires n leases if they are free and the queue is empty. A shared maximum may rise while
// the caller waits.
func (s *Semaphore) free(ctx context.Context, n int, mayWait bool) ([]*lock.Hold, error) {
	max, err := s.Max(ctx)
	switch {
	case err != nil:
		return nil, err
	case n > max && s.count != nil && (mayWait || max == 0):
		return nil, lock.ErrNotAcquired
	case n > max:
		return nil, fmt.Errorf("%w: %d requested, the maximum is %d", ErrTooMany, n, max)
	}
	return s.take(ctx, n, locking.How{Reported: true})
}

// useless is why a waiter gave up by itself.
type useless struct{ error }

// queued waits in the queue. The first acquires all of its n leases before the next may acquire
// any.
func (s *Semaphore) queued(ctx context.Context, n int) ([]*lock.Hold, error) {
	front, err := inside.Acquire(ctx, s.queue, locking.How{Wait: true})
	if err != nil {
		return nil, err
	}
	leave := sync.OnceFunc(func() { inside.Leave([]*lock.Hold{front}) })
	defer leave() // also if a function of the user panics
	first, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(front.Context(), func() { cancel(useless{&locking.NodeLost{Cause: front.Err()}}) })()
	followed := make(chan struct{})
	go func() { // ends with first
		defer close(followed)
		if s.count == nil {
			return
		}
		if err := s.follow(first, n); err != nil {
			cancel(useless{err})
		}
	}()
	patient := locking.How{Wait: true, Reported: true}
	holds, err := s.take(first, n, patient)
	var lost *locking.NodeLost
	if errors.As(err, &lost) && first.Err() == nil {
		// It is still this waiter's turn: what it has just released is free, and no other overtakes
		// it.
		holds, err = s.take(first, n, patient)
	}
	gaveUp, byItself := context.Cause(first).(useless)
	cancel(nil)
	<-followed
	leave() // it may wait for the servers
	if err == nil {
		holds, err = alive(holds)
	}
	if err != nil && byItself {
		err = gaveUp.error // ctx had not ended then
	}
	return holds, err
}

// follow adopts every change of the shared maximum until ctx is done. It logs why a waiter for n
// leases cannot acquire, whoever releases.
func (s *Semaphore) follow(ctx context.Context, n int) error {
	said := ""
	return s.count.follow(ctx, func() {
		low := s.count.tooLow(n)
		if low != "" && low != said {
			engine.Of(s.client).Logger().Warn("semaphore waits for its shared maximum", "path", s.path, "leases", n, "reason", low)
		}
		said = low
	})
}

// take acquires n leases, or none. If a shared count falls at the same time, or has fallen since it
// was read, it starts again: they may have been granted by the higher number.
func (s *Semaphore) take(ctx context.Context, n int, how locking.How) ([]*lock.Hold, error) {
	for {
		holds, err := s.takeOnce(ctx, n, how)
		if err != nil || holds != nil {
			return holds, err
		}
	}
}

// takeOnce acquires n leases, one after the other. It returns none, without an error, if the count
// has fallen since it was read.
func (s *Semaphore) takeOnce(ctx context.Context, n int, how locking.How) (_ []*lock.Hold, err error) {
	var holds []*lock.Hold
	taken := false
	defer func() {
		if !taken { // also if a function of the user panics
			inside.Leave(holds)
		}
	}()
	falls := s.count.fallen()
	for len(holds) < n {
		hold, err := inside.Acquire(ctx, s.leases, how)
		if err != nil {
			return nil, err
		}
		holds = append(holds, hold)
	}
	if s.count != nil {
		// What the connection has brought of the count is newer than the leases.
		if !s.count.isCurrent() {
			_, err = s.count.read(ctx, s.count.client)
		}
		if err != nil || s.count.fallen() != falls {
			return nil, err
		}
	}
	taken = true
	return alive(holds)
}

// alive returns holds if none of them was lost. Otherwise it releases the others.
func alive(holds []*lock.Hold) ([]*lock.Hold, error) {
	for _, h := range holds {
		if err := h.Err(); err != nil {
			inside.Leave(holds)
			return nil, &locking.NodeLost{Cause: err}
		}
	}
	return holds, nil
}

// opError names the semaphore in place of its queues.
func (s *Semaphore) opError(op string, err error) error { return operr.New(op, s.path, err) }
