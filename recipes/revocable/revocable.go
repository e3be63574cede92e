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

// New wraps a lock so that other clients can ask its holders to release. It sends no request. It
// returns [framework.ErrBadArgument] if locker is nil.
//
// The lock itself does not change. Contenders that use it without this package are in the same
// queue, but do not notice a revocation.
func New(locker lock.Locker) (*Lock, error) {
	if locker == nil {
		return nil, badArgument("nil lock")
	}
	return &Lock{locker: locker}, nil
}

func badArgument(what string) error {
	return &framework.OpError{Op: "revocable", Err: fmt.Errorf("%w: %s", framework.ErrBadArgument, what)}
}

// Acquire acquires the lock passed to [New]. A revocation applies to all holds of a lease.
//
// Errors are the errors of that lock's Acquire, such as
//   - the error of ctx, wrapped with zk.ErrNoServer or [lock.ErrNotAcquired];
//   - retry.ErrExhausted after an outage, [lock.ErrHeld] inside a hold of the same lock,
//     [framework.ErrClosed], and the server's errors.
func (l *Lock) Acquire(ctx context.Context) (*Hold, error) {
	hold, err := l.locker.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return Watch(hold)
}

// TryAcquire acquires the lock without waiting for other clients.
//
// Errors are
//   - [lock.ErrNotAcquired] if it would have to wait;
//   - the errors of [Lock.Acquire].
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
// Errors are
//   - [framework.ErrBadArgument] if f is nil;
//   - the errors of Acquire: f was not called;
//   - the error of f, joined with the error of Release, which wraps [framework.ErrLost] after a
//     loss.
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
// request in the background.
//
// A message that was written before is reported as well. Watch returns [framework.ErrBadArgument]
// if hold is nil.
//
// Either Hold may be released. Both end together.
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
