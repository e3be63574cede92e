// Package mutex is a lock that one holder at a time can have, across all processes that
// use the same path of a ZooKeeper ensemble. It is Curator's InterProcessMutex.
//
// # On the wire
//
// Every contender makes an ephemeral sequential node below the lock's path:
//
//	<path>/_c_<uuid>-lock-<sequence>
//
// The lowest sequence holds; each of the others watches the node just ahead and looks
// again when it goes. This is the lock recipe of the ZooKeeper documentation with
// Curator's names, so Java and Go exclude each other on one path.
//
// # What it promises
//
//   - One holder at a time whose context is not done.
//   - First come, first served, in the order in which ZooKeeper made the nodes.
//   - A crash frees the lock when the servers end the session: after the negotiated
//     timeout, rounded up to their next tick.
//
// # What it cannot promise
//
// A process that was stopped for a while does not know how late it is. What must
// never happen twice needs a check where it happens: [lock.Hold.Guard] in
// ZooKeeper, [lock.Hold.FencingToken] anywhere else.
package mutex

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
)

// ErrNotAcquired is [lock.ErrNotAcquired]: what TryAcquire returns when someone else holds.
var ErrNotAcquired = lock.ErrNotAcquired

// nodeName is what Curator calls the nodes of an InterProcessMutex.
const nodeName = "lock-"

// Mutex is a distributed mutex at one path. What a caller has after Acquire is a
// [lock.Hold]; the Mutex itself keeps no state, and any number of goroutines may use it.
// They exclude each other as processes do.
type Mutex struct {
	queue *lock.Queue
}

// New makes a mutex at path. Nothing is sent. Errors are [lock.ErrBadPath] and
// [lock.ErrBadArgument]; a mutex cannot have [lock.WithMaxLeases] other than 1.
func New(client *framework.Client, path string, opts ...lock.Option) (*Mutex, error) {
	queue, err := lock.New(client, path, nodeName, lock.Standard{}, opts...)
	if err != nil {
		return nil, err
	}
	if n := queue.MaxLeases(); n != 1 {
		return nil, fmt.Errorf("mutex: %w: %d leases", lock.ErrBadArgument, n)
	}
	return &Mutex{queue}, nil
}

// Acquire waits until it holds the mutex, or ctx is done: the error is then that of
// ctx. With the context of a hold of this Mutex it re-enters. After an error no
// node of ours stays. For the other errors see [lock.Queue.Acquire].
func (m *Mutex) Acquire(ctx context.Context) (*lock.Hold, error) { return m.queue.Acquire(ctx) }

// TryAcquire is Acquire without waiting for others: the error is [ErrNotAcquired] when
// someone else holds.
func (m *Mutex) TryAcquire(ctx context.Context) (*lock.Hold, error) { return m.queue.TryAcquire(ctx) }

// Do acquires, calls f and releases. f's context ends when the mutex may no longer be
// ours, as well as with ctx. The error is Acquire's, or f's and Release's joined.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.queue.Do(ctx, f)
}

// Participants lists who holds and who waits, in the order of the queue, without taking
// part in it.
func (m *Mutex) Participants(ctx context.Context) ([]lock.Participant, error) {
	return m.queue.Participants(ctx)
}

// Path is the path of the mutex.
func (m *Mutex) Path() string { return m.queue.Path() }
