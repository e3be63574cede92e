// Package mutex is a lock with one holder at a time, across all processes that use the same path of
// a ZooKeeper ensemble. It is Curator's InterProcessMutex.
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

// New returns a mutex at path. It sends no request.
//
// Errors are
//   - [framework.ErrBadPath] if path is invalid or the root;
//   - [framework.ErrBadArgument] if client is nil, an option is invalid, options cannot be
//     combined, or [lock.WithMaxLeases] is other than 1.
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

// Acquire waits until it holds the mutex. If it fails, its node is deleted. If the session is lost
// while Acquire waits, or another client deletes its node, it queues again at the end, as often as
// the client's retry policy allows.
//
// Errors are
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [lock.ErrNotAcquired] if another contender was ahead in the queue, or a lock delay
//     was not over. It wraps [framework.ErrSessionLost] if the servers answer too slowly for a
//     hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if there were retries: by default about 90 s
//     after an outage began, or after the session of a waiter was lost in it;
//   - [lock.ErrHeld] inside a hold of the same mutex, except with [lock.WithReentry];
//   - [lock.ErrReleased] inside a hold of a released mutex, with [lock.WithReentry];
//   - the cause of the loss, which wraps [framework.ErrLost], if the mutex was lost while a
//     [lock.Observer] was notified of it, or if ctx derives from a hold that was suspended and is
//     not released. With [lock.WithReentry] also if ctx derives from a hold of a lost mutex;
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if the session or the node was lost, and
//     the retry policy allows no more tries;
//   - framework.ErrSessionLost if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - [framework.ErrTooLong] if the node's data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - [framework.ErrBadArgument] if the client is a view of nil or of another client's session;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create a node, or
//     to read its own node or the one that it waits for.
//
// To wait for longer in an outage, give the client [framework.WithRetryPolicy] with retry.Forever.
func (m *Mutex) Acquire(ctx context.Context) (*lock.Hold, error) { return m.queue.Acquire(ctx) }

// TryAcquire acquires the mutex without waiting for other clients. A server that lags may still
// report a released mutex as taken.
//
// Errors are
//   - [lock.ErrNotAcquired] if another contender holds the mutex, or the delay of
//     [lock.WithLockDelay] is not over;
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [lock.ErrNotAcquired] if another contender was ahead in the queue, or a lock delay
//     was not over. It wraps [framework.ErrSessionLost] if the servers answer too slowly for a
//     hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if there were retries: by default about 90 s
//     after an outage began;
//   - [lock.ErrHeld] inside a hold of the same mutex, except with [lock.WithReentry];
//   - [lock.ErrReleased] inside a hold of a released mutex, with [lock.WithReentry];
//   - the cause of the loss, which wraps [framework.ErrLost], if the mutex was lost while a
//     [lock.Observer] was notified of it, or if ctx derives from a hold that was suspended and is
//     not released. With [lock.WithReentry] also if ctx derives from a hold of a lost mutex;
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if the session or the node was lost, and
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
func (m *Mutex) TryAcquire(ctx context.Context) (*lock.Hold, error) { return m.queue.TryAcquire(ctx) }

// Do acquires the mutex, calls f, and releases the mutex, even if f panics. f's context derives
// from ctx, and is also cancelled when the mutex may be lost: see [lock.Hold.Do]. If Do cannot
// acquire, f is not called.
//
// Errors are
//   - the error of f, joined with the cause of the loss if the mutex was lost;
//   - the cause of the loss, which wraps [framework.ErrLost], if the mutex is lost before its
//     release, or ctx derives from a hold that was suspended and is not released. With
//     [lock.WithReentry] also if ctx derives from a hold of a lost mutex;
//   - [framework.ErrBadArgument] if f is nil, or the client is a view of nil or of another client's
//     session;
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [lock.ErrNotAcquired] if another contender was ahead in the queue, or a lock delay
//     was not over. It wraps [framework.ErrSessionLost] if the servers answer too slowly for a
//     hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if there were retries: by default about 90 s
//     after an outage began, or after the session of a waiter was lost in it;
//   - [lock.ErrHeld] inside a hold of the same mutex, except with [lock.WithReentry];
//   - [lock.ErrReleased] inside a hold of a released mutex, with [lock.WithReentry];
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if the session or the node was lost, and
//     the retry policy allows no more tries;
//   - framework.ErrSessionLost if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - [framework.ErrTooLong] if the node's data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create or delete
//     a node, or to read its own node or the one that it waits for.
//
// If f returns nil after [framework.ErrSuspended], Do returns nil if the mutex's node still existed
// at the release: see [lock.Hold.Release].
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.queue.Do(ctx, f)
}

// Participants lists the holder and the waiters in the order of the queue, as the client's server
// knows them at the time of the call. It omits nodes that are deleted at the same time. If the path
// does not exist, the list is empty.
//
// Errors are
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrBadArgument] if the client is a view of nil or of another client's session;
//   - [framework.ErrNotCompressed] if a client [framework.WithCompression] cannot decompress a
//     node's data;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to read a node.
func (m *Mutex) Participants(ctx context.Context) ([]lock.Participant, error) {
	return m.queue.Participants(ctx)
}

// Path returns the path of the mutex.
func (m *Mutex) Path() string { return m.queue.Path() }
