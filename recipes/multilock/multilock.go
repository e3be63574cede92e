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

// New combines locks, which may be of any kind and of different clients. It sends no request. It
// returns [framework.ErrBadArgument] if locks is empty, or if one is nil or occurs twice.
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

// Acquire waits until it holds all locks. If it fails, it holds none.
//
// Errors are
//   - the errors of the locks' Acquire, such as the error of ctx, wrapped with zk.ErrNoServer or
//     [lock.ErrNotAcquired], and retry.ErrExhausted;
//   - the cause of the loss, if one lock is lost while Acquire waits for another;
//   - [lock.ErrHeld] inside a hold of one of the locks, unless that lock re-enters: see
//     [lock.WithReentry]. Two objects for one lock return it as well.
func (l *Lock) Acquire(ctx context.Context) (*lock.Group, error) {
	return l.all(ctx, "acquire", lock.Locker.Acquire)
}

// TryAcquire acquires all locks without waiting for other clients.
//
// Errors are
//   - [lock.ErrNotAcquired] if another client holds one of the locks;
//   - the errors of [Lock.Acquire].
func (l *Lock) TryAcquire(ctx context.Context) (*lock.Group, error) {
	return l.all(ctx, "try", lock.Locker.TryAcquire)
}

// Do acquires all locks, calls f, and releases the locks, even if f panics. f's context derives
// from ctx, and is also cancelled when one of the locks may be lost: see [lock.Group.Do].
//
// Errors are
//   - [framework.ErrBadArgument] if f is nil;
//   - the errors of Acquire: f was not called;
//   - the error of f, joined with the error of Release, which wraps [framework.ErrLost] after a
//     loss.
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
