// Package mutex is a lock with one holder at a time, across all processes that
// use the same path of a ZooKeeper ensemble. It is Curator's InterProcessMutex.
//
//	m, err := mutex.New(client, "/billing/nightly")
//	if err != nil { ... }
//	err = m.Do(ctx, func(ctx context.Context) error { // waits; ctx ends the waiting
//		return bill(ctx) // ctx is cancelled before another client can hold the mutex
//	})
//
// [Mutex.Acquire] and [Mutex.TryAcquire] return a [lock.Hold] instead, which has a fencing token
// and a guard, and ends with Release.
//
// # On the wire
//
// Every contender creates an ephemeral sequential node below the lock's path:
//
//	<path>/_c_<uuid>-lock-<sequence>
//
// The node with the lowest sequence number holds. The others wait until no node is ahead of theirs.
// This is the lock recipe of the ZooKeeper documentation with Curator's names, so Java and Go
// exclude each other on one path. [PROTOCOL] has the details.
//
// # What it promises
//
//   - At most one holder has a live context. It is cancelled before another client can acquire.
//   - First come, first served, in the order in which ZooKeeper created the nodes.
//   - After a crash of the holder the servers release the lock when they expire its session: after
//     the negotiated timeout, rounded up to their next tick.
//
// # What it cannot promise
//
// See package lock for the limits of every lock: a suspended process, a node that another client
// deletes, servers that are too slow.
//
// [PROTOCOL]: https://github.com/gocurator/curator/blob/main/docs/PROTOCOL.md
package mutex

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/nocopy"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/recipes/internal/locks"
	"github.com/gocurator/curator/recipes/lock"
)

// nodeName is Curator's name for the nodes of an InterProcessMutex.
const nodeName = "lock-"

// Mutex is a distributed mutex at one path. Acquire returns a [lock.Hold]; the Mutex itself has no
// state. It is safe for concurrent use: goroutines exclude each other as processes do.
type Mutex struct {
	_ nocopy.Mark

	queue *lock.Queue
}

// New returns a mutex at path. It sends no request. Errors are [framework.ErrBadPath] and
// [framework.ErrBadArgument]; a mutex accepts no [lock.WithMaxLeases] other than 1.
func New(client *framework.Client, path string, opts ...lock.Option) (*Mutex, error) {
	queue, err := lock.New(client, path, nodeName, lock.Standard{}, opts...)
	if err == nil && locks.Inside.MaxLeases(queue) != 1 {
		err = fmt.Errorf("%w: %d leases, a mutex has one", framework.ErrBadArgument, locks.Inside.MaxLeases(queue))
	}
	if err != nil {
		return nil, operr.New("mutex", path, err)
	}
	return &Mutex{queue: queue}, nil
}

// Acquire waits until it holds the mutex, until ctx is done, or until no server could be reached
// for as long as the client's retry policy allows: about 90 s by default. If it fails, its node is
// deleted. Inside a hold of the mutex it returns [lock.ErrHeld], or re-enters: see
// [lock.WithReentry].
//
// Errors are
//   - the error of ctx, wrapped with zk.ErrNoServer if no server could be reached, and otherwise
//     with [lock.ErrNotAcquired] if another client was ahead in the queue;
//   - retry.ErrExhausted if the retry policy allows no more retries, about 90 s after an outage
//     began by default;
//   - [lock.ErrHeld] inside a hold of the same mutex;
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted], if the session or the node was lost and
//     the retry policy allows no more tries, or if the servers are too slow for a hold;
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [framework.ErrBadArgument] and [lock.ErrSequenceExhausted], and the server's errors, such as
//     zk.ErrNoAuth.
//
// Package lock has the details, under "Errors of Acquire".
func (m *Mutex) Acquire(ctx context.Context) (*lock.Hold, error) { return m.queue.Acquire(ctx) }

// TryAcquire acquires the mutex without waiting for other clients.
//
// Errors are
//   - [lock.ErrNotAcquired] if another client holds the mutex;
//   - the errors of Acquire: [lock.ErrHeld] inside a hold, the error of ctx, wrapped with
//     zk.ErrNoServer, or retry.ErrExhausted in an outage, [framework.ErrClosed], and the server's
//     errors.
func (m *Mutex) TryAcquire(ctx context.Context) (*lock.Hold, error) { return m.queue.TryAcquire(ctx) }

// Do acquires the mutex, calls f, and releases the mutex, even if f panics. f's context derives
// from ctx, and is also cancelled when the mutex may be lost: see [lock.Hold.Do].
//
// Errors are
//   - [framework.ErrBadArgument] if f is nil;
//   - the errors of Acquire: f was not called;
//   - the error of f, joined with the error of Release, which wraps [framework.ErrLost] after a
//     loss.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.queue.Do(ctx, f)
}

// Participants lists the holder and the waiters, in the order of the queue: see
// [lock.Queue.Participants].
func (m *Mutex) Participants(ctx context.Context) ([]lock.Participant, error) {
	return m.queue.Participants(ctx)
}

// Path returns the path of the mutex.
func (m *Mutex) Path() string { return m.queue.Path() }
