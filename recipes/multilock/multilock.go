// Package multilock combines several locks into one: all are acquired, or none. It is Curator's
// InterProcessMultiLock.
//
//	l, err := multilock.New(from, to) // two mutexes of accounts, always in the same order
//	if err != nil { ... }
//	err = l.Do(ctx, func(ctx context.Context) error { // waits for both
//		return transfer(ctx) // ctx is cancelled before another client can hold either
//	})
//
// The locks are acquired one after the other in the order given, and released in reverse order.
// Callers that combine some of the same locks must give them in the same order. Otherwise two
// callers can wait for each other for ever.
//
// A multilock is not a [lock.Locker], since its holder has several holds: write New(a, b, c), not
// New(a, New(b, c)). To make it revocable, call revocable.Watch with each of [lock.Group.Holds].
//
// # What it promises
//
//   - If an acquire fails, no lock is held, and no node of a lock remains, even if a server carries
//     out a create later.
//   - The holder's context ends as soon as one of the locks is lost.
//   - If a lock is lost while Acquire waits for another, the wait ends. The error has the cause and
//     the path of the lost node.
//
// # What it cannot promise
//
// See package lock for what no lock can promise.
package multilock

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/nocopy"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/locking"
	"github.com/gocurator/curator/recipes/internal/locks"
	"github.com/gocurator/curator/recipes/lock"
)

// inside is what package lock offers to the recipes of this module.
var inside = locks.Inside

// Lock combines several locks. It has no state and is safe for concurrent use.
type Lock struct {
	_ nocopy.Mark

	locks []lock.Locker
}

// New combines locks, which may be of any kind and of different clients. It sends no request.
//
// The only error is [framework.ErrBadArgument] if locks is empty, or if one of them is nil or
// occurs twice.
func New(locks ...lock.Locker) (*Lock, error) {
	if len(locks) == 0 {
		return nil, badArgument("no locks")
	}
	seen := make(map[lock.Locker]bool)
	for i, l := range locks {
		if l == nil {
			return nil, badArgument("lock %d is nil", i)
		}
		if !reflect.ValueOf(l).Comparable() {
			continue // it cannot be compared with another
		}
		if seen[l] {
			return nil, badArgument("lock %d is given twice", i)
		}
		seen[l] = true
	}
	return &Lock{locks: slices.Clone(locks)}, nil
}

func badArgument(format string, args ...any) error {
	return &framework.OpError{Op: "multilock", Err: fmt.Errorf("%w: "+format, append([]any{framework.ErrBadArgument}, args...)...)}
}

// Acquire waits until it holds all locks. If it fails, it holds none, and its nodes are deleted.
//
// Errors are
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [lock.ErrNotAcquired] if another contender was ahead in the queue of a lock, or a
//     lock delay was not over. It wraps [framework.ErrSessionLost] if the servers answer too slowly
//     for a hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if there were retries: by default about 90 s
//     after an outage began, or after the session of a waiter was lost in it;
//   - [lock.ErrHeld] inside a hold of one of the locks, unless that lock has several leases or
//     [lock.WithReentry]. Two objects for one lock return it as well;
//   - [lock.ErrReleased] inside a hold of a released lock, if that lock has [lock.WithReentry];
//   - the cause of the loss, which wraps [framework.ErrLost], if one lock is lost while Acquire
//     waits for another, or while a [lock.Observer] is notified of it, or if ctx derives from a
//     hold that was suspended and is not released. With [lock.WithReentry] also if ctx derives from
//     a hold of a lost lock;
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if a session or a node was lost, and the
//     retry policy allows no more tries;
//   - framework.ErrSessionLost if the client of a lock is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrClosed] if the client of a lock is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below a lock's path have overflowed;
//   - shared.ErrBadValue if the shared maximum of a semaphore is negative or cannot be decoded;
//   - [framework.ErrTooLong] if the data of a lock's node exceed the client's limit of a request,
//     or [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - [framework.ErrBadArgument] if the client of a lock is a view of nil or of another client's
//     session;
//   - the error of a custom [lock.Locker] or [lock.Driver] if it returns one;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create a node, or
//     to read its own node or the one that it waits for.
//
// To wait for longer in an outage, give the clients [framework.WithRetryPolicy] with retry.Forever.
func (l *Lock) Acquire(ctx context.Context) (*lock.Group, error) {
	return l.all(ctx, "acquire", lock.Locker.Acquire)
}

// TryAcquire acquires all locks without waiting for other clients. If it fails, it holds none.
//
// Errors are
//   - [lock.ErrNotAcquired] if another contender holds one of the locks, or a lock delay is not
//     over;
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [lock.ErrNotAcquired] if another contender was ahead in the queue of a lock, or a
//     lock delay was not over. It wraps [framework.ErrSessionLost] if the servers answer too slowly
//     for a hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if there were retries: by default about 90 s
//     after an outage began;
//   - [lock.ErrHeld] inside a hold of one of the locks, unless that lock has several leases or
//     [lock.WithReentry]. Two objects for one lock return it as well;
//   - [lock.ErrReleased] inside a hold of a released lock, if that lock has [lock.WithReentry];
//   - the cause of the loss, which wraps [framework.ErrLost], if one lock is lost while TryAcquire
//     waits for another, or while a [lock.Observer] is notified of it, or if ctx derives from a
//     hold that was suspended and is not released. With [lock.WithReentry] also if ctx derives from
//     a hold of a lost lock;
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if a session or a node was lost, and the
//     retry policy allows no more tries;
//   - framework.ErrSessionLost if the servers answer too slowly for a hold, or if the client of a
//     lock is a view of a lost session: see [framework.Client.In];
//   - [framework.ErrClosed] if the client of a lock is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below a lock's path have overflowed;
//   - shared.ErrBadValue if the shared maximum of a semaphore is negative or cannot be decoded;
//   - [framework.ErrTooLong] if the data of a lock's node exceed the client's limit of a request,
//     or [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - [framework.ErrBadArgument] if the client of a lock is a view of nil or of another client's
//     session;
//   - the error of a custom [lock.Locker] or [lock.Driver] if it returns one;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create a node, or
//     to read its own.
func (l *Lock) TryAcquire(ctx context.Context) (*lock.Group, error) {
	return l.all(ctx, "try", lock.Locker.TryAcquire)
}

// Do acquires all locks, calls f, and releases the locks, even if f panics. f's context derives
// from ctx, and is also cancelled when one of the locks may be lost: see [lock.Group.Do]. If Do
// cannot acquire, f is not called.
//
// Errors are
//   - the error of f, joined with the cause of the loss if a lock was lost;
//   - the cause of the loss, which wraps [framework.ErrLost], if a lock is lost before its release,
//     or ctx derives from a hold that was suspended and is not released. With [lock.WithReentry]
//     also if ctx derives from a hold of a lost lock;
//   - [framework.ErrBadArgument] if f is nil, or the client of a lock is a view of nil or of
//     another client's session;
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [lock.ErrNotAcquired] if another contender was ahead in the queue of a lock, or a
//     lock delay was not over. It wraps [framework.ErrSessionLost] if the servers answer too slowly
//     for a hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if there were retries: by default about 90 s
//     after an outage began, or after the session of a waiter was lost in it;
//   - [lock.ErrHeld] inside a hold of one of the locks, unless that lock has several leases or
//     [lock.WithReentry]. Two objects for one lock return it as well;
//   - [lock.ErrReleased] inside a hold of a released lock, if that lock has [lock.WithReentry];
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if a session or a node was lost, and the
//     retry policy allows no more tries;
//   - framework.ErrSessionLost if the client of a lock is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrClosed] if the client of a lock is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below a lock's path have overflowed;
//   - shared.ErrBadValue if the shared maximum of a semaphore is negative or cannot be decoded;
//   - [framework.ErrTooLong] if the data of a lock's node exceed the client's limit of a request,
//     or [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - the error of a custom [lock.Locker] or [lock.Driver] if it returns one;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create or delete
//     a node, or to read its own node or the one that it waits for.
//
// If f returns nil after [framework.ErrSuspended], Do returns nil if the lost lock's node still
// existed at the release: see [lock.Hold.Release].
func (l *Lock) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return locking.Do(ctx, "", l.Acquire, f)
}

// all acquires one lock after the other.
func (l *Lock) all(ctx context.Context, op string, acquire func(lock.Locker, context.Context) (*lock.Hold, error)) (*lock.Group, error) {
	waiting, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	lossOf := func(h *lock.Hold) error { return &framework.OpError{Op: op, Path: h.Path(), Err: h.Err()} }
	var holds []*lock.Hold
	given := false
	defer func() {
		if !given { // also if one of the locks panics
			slices.Reverse(holds)
			inside.Leave(holds)
		}
	}()
	var err error
	next := waiting
	for _, locker := range l.locks {
		var h *lock.Hold
		if h, err = acquire(locker, next); err != nil {
			break
		}
		defer context.AfterFunc(h.Context(), func() { lost(&loss{lossOf(h)}) })()
		holds = append(holds, h)
		// Each hold's context needs the values of those before, so that the last one re-enters all.
		// It has them from the context that it was acquired with: if next had them as well, each
		// hold would double the time of a look-up. They come before those of the caller's context,
		// which may be that of another hold that ends before.
		next = wait.Join(waiting, h.Context())
	}
	var first *loss
	if errors.As(context.Cause(waiting), &first) {
		err = first.error // that is why the waiting ended, and not ctx
	}
	for _, h := range holds {
		if err == nil && h.Err() != nil { // the waiting ended by itself before
			err = lossOf(h)
		}
	}
	if err != nil {
		return nil, err
	}
	given = true
	return inside.Group(ctx, holds), nil
}

// loss is the loss of a lock during the wait for the next one.
type loss struct{ error }

func (l *loss) Unwrap() error { return l.error }
