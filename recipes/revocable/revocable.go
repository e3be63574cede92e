// Package revocable asks holders of a lock to release it: the revocable shared locks of the
// ZooKeeper documentation, and Curator's Revocable, RevocationListener and Revoker.
//
// # On the wire
//
// A holder watches the data of its own node. Another client asks for the lock by a message to that
// node:
//
//	<lock's path>/_c_<uuid>-lock-<sequence>  "__REVOKE__"
//
// Holders understand "__REVOKE__" (Curator's message, which this package sends) and "unlock" (the
// documentation's). The message replaces the node's data and stays, so a holder also sees a
// message that was written before it began to watch.
//
// # Several locks
//
// A message is for one node, and the holder of a multilock.Lock has several. So a multilock.Lock
// is not a [lock.Locker]: call [Watch] with each of [lock.Group.Holds]. Do the same for several
// leases of a semaphore.
//
// With [lock.WithRetention] a node may have one holder after the other. A message to a holder
// without this package then reaches the next holder.
//
// # What it promises
//
//   - A holder that can reach a server notices the message, even if it was written while it waited
//     for the lock. (Not for a lease of a semaphore.Semaphore: its waiters have another node than
//     its holders.)
//   - A revocation does not end a hold: the holder releases when it wants to.
//   - WithForce ends a hold: its node is deleted, and its context ends with [ErrRevoked].
//
// # What it cannot promise
//
// A holder need not release. WithForce deletes the holder's node, as an operator might: another
// client may acquire shortly before the holder notices. If something must never happen twice, check
// the lock where it happens: [lock.Hold.Guard].
package revocable

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/nocopy"
	"github.com/gocurator/curator/recipes/internal/locks"
	"github.com/gocurator/curator/recipes/lock"
)

// The messages that holders understand.
const (
	revokeMessage = "__REVOKE__" // Curator's, which this package sends
	unlockMessage = "unlock"     // of the ZooKeeper documentation
)

// ErrRevoked is the cause of a hold's context if the holder was asked to release, did not, and its
// node was deleted. It wraps [lock.ErrNodeDeleted]. If the node is deleted before the holder has
// read the message, the cause is lock.ErrNodeDeleted alone.
var ErrRevoked = fmt.Errorf("revoked: %w", lock.ErrNodeDeleted)

// inside is what package lock offers to the recipes of this module.
var inside = locks.Inside

// Lock is a lock whose holders can be asked to release. It has no state and is safe for concurrent
// use.
type Lock struct {
	_      nocopy.Mark
	locker lock.Locker
}

// New wraps a lock so that other clients can ask its holders to release. It sends no request.
//
// The lock itself does not change. Contenders that use it without this package are in the same
// queue, but do not notice a revocation. The only error is [framework.ErrBadArgument] if locker is
// nil.
func New(locker lock.Locker) (*Lock, error) {
	if locker == nil {
		return nil, badArgument("nil lock")
	}
	return &Lock{locker: locker}, nil
}

func badArgument(what string) error {
	return &framework.OpError{Op: "revocable", Err: fmt.Errorf("%w: %s", framework.ErrBadArgument, what)}
}

// Acquire waits until it holds the lock that was passed to [New]. If it fails, its node is deleted.
// A revocation applies to all holds of a lease.
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
//   - [lock.ErrHeld] inside a hold of the same lock, unless it has several leases or
//     [lock.WithReentry];
//   - [lock.ErrReleased] inside a hold of a released lease, with [lock.WithReentry];
//   - the cause of the loss, which wraps [framework.ErrLost], if the lease was lost while a
//     [lock.Observer] was notified of it, or if ctx derives from a hold that was suspended and is
//     not released. With [lock.WithReentry] also if ctx derives from a hold of a lost lease;
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if the session or the node was lost, and
//     the retry policy allows no more tries;
//   - framework.ErrSessionLost if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - shared.ErrBadValue if the lock is a semaphore whose shared maximum is negative or cannot be
//     decoded;
//   - [framework.ErrTooLong] if the node's data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - [framework.ErrBadArgument] if the client is a view of nil or of another client's session;
//   - the error of a custom [lock.Locker] or [lock.Driver] if it returns one;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create a node, or
//     to read its own node or the one that it waits for.
//
// To wait for longer in an outage, give the client [framework.WithRetryPolicy] with retry.Forever.
func (l *Lock) Acquire(ctx context.Context) (*Hold, error) {
	hold, err := l.locker.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return Watch(hold)
}

// TryAcquire acquires the lock without waiting for other clients. A server that lags may still
// report a released lock as taken.
//
// Errors are
//   - [lock.ErrNotAcquired] if it would have to wait;
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [lock.ErrNotAcquired] if another contender was ahead in the queue, or a lock delay
//     was not over. It wraps [framework.ErrSessionLost] if the servers answer too slowly for a
//     hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if there were retries: by default about 90 s
//     after an outage began;
//   - [lock.ErrHeld] inside a hold of the same lock, unless it has several leases or
//     [lock.WithReentry];
//   - [lock.ErrReleased] inside a hold of a released lease, with [lock.WithReentry];
//   - the cause of the loss, which wraps [framework.ErrLost], if the lease was lost while a
//     [lock.Observer] was notified of it, or if ctx derives from a hold that was suspended and is
//     not released. With [lock.WithReentry] also if ctx derives from a hold of a lost lease;
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if the session or the node was lost, and
//     the retry policy allows no more tries;
//   - framework.ErrSessionLost if the servers answer too slowly for a hold, or if the client is a
//     view of a lost session: see [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - shared.ErrBadValue if the lock is a semaphore whose shared maximum is negative or cannot be
//     decoded;
//   - [framework.ErrTooLong] if the node's data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - [framework.ErrBadArgument] if the client is a view of nil or of another client's session;
//   - the error of a custom [lock.Locker] or [lock.Driver] if it returns one;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create a node, or
//     to read its own.
func (l *Lock) TryAcquire(ctx context.Context) (*Hold, error) {
	hold, err := l.locker.TryAcquire(ctx)
	if err != nil {
		return nil, err
	}
	return Watch(hold)
}

// Do acquires the lock, calls f, and releases the lock, even if f panics. f's context derives from
// ctx, and is also cancelled when the lock may be lost. When revoked is closed, f's context is not
// cancelled: f should finish its work soon.
//
// If Do cannot acquire, f is not called.
//
// Errors are
//   - the error of f, joined with the cause of the loss if the lease was lost;
//   - the cause of the loss, which wraps [framework.ErrLost], if the lease is lost before its
//     release, or ctx derives from a hold that was suspended and is not released. With
//     [lock.WithReentry] also if ctx derives from a hold of a lost lease;
//   - [ErrRevoked], which wraps [lock.ErrNodeDeleted], if the node was deleted after a request to
//     release;
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
//   - [lock.ErrHeld] inside a hold of the same lock, unless it has several leases or
//     [lock.WithReentry];
//   - [lock.ErrReleased] inside a hold of a released lease, with [lock.WithReentry];
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if the session or the node was lost, and
//     the retry policy allows no more tries;
//   - framework.ErrSessionLost if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - shared.ErrBadValue if the lock is a semaphore whose shared maximum is negative or cannot be
//     decoded;
//   - [framework.ErrTooLong] if the node's data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - the error of a custom [lock.Locker] or [lock.Driver] if it returns one;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create or delete
//     a node, or to read its own node or the one that it waits for.
//
// If f returns nil after [framework.ErrSuspended], Do returns nil if the lease's node still existed
// at the release: see [lock.Hold.Release].
func (l *Lock) Do(ctx context.Context, f func(ctx context.Context, revoked <-chan struct{}) error) error {
	if f == nil {
		return badArgument("nil function")
	}
	hold, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	return hold.Do(ctx, func(ctx context.Context) error { return f(ctx, hold.Revoked()) })
}

// Hold is a [lock.Hold] whose holder can be asked to release. All methods are safe for concurrent
// use.
type Hold struct {
	_ nocopy.Mark

	*lock.Hold
	revoked chan struct{}
}

// Watch lets other clients ask an existing hold to release. It returns at once, and sends one
// request in the background. Either Hold may be released: both end together.
//
// A message that was written before is reported as well. The only error is
// [framework.ErrBadArgument] if hold is nil.
func Watch(hold *lock.Hold) (*Hold, error) {
	if hold == nil {
		return nil, badArgument("nil hold")
	}
	inside.Pin(hold) // a message stays in the node, and is for this holder
	h := &Hold{Hold: hold, revoked: make(chan struct{})}
	go h.watch() // ends with the hold, or when revoked is closed
	return h, nil
}

// Revoked returns a channel that is closed when another client asks the holder to release. If the
// hold ends without a request, it is never closed: select on Done as well.
func (h *Hold) Revoked() <-chan struct{} { return h.revoked }

// watch is the holder's side of the protocol. It reads before it waits, so it sees a message that
// was written between the node's creation and the first read.
func (h *Hold) watch() {
	client := inside.Client(h.Hold)
	err := client.In(h.Session()).Follow(h.Context(), func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
		data, stat, watch, err := in.GetW(ctx, h.Path())
		if err != nil {
			return nil, err
		}
		// The first version is the holder's own data and not a message, whatever it contains.
		if stat.Version == 0 || !understood(string(data)) {
			return watch.Done(), nil
		}
		// Before the holder can notice: a deletion from here on is a revocation.
		inside.ExpectDeletion(h.Hold, ErrRevoked)
		close(h.revoked)
		return nil, nil
	})
	if err != nil && h.Err() == nil && !errors.Is(err, zk.ErrNoNode) { // the hold's own watch finds that
		engine.Of(client).Logger().Warn("requests to release the lock are not noticed", "path", h.Path(), "reason", err)
	}
}

func understood(message string) bool { return message == revokeMessage || message == unlockMessage }
