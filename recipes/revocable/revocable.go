// Package revocable lets a lock be asked for while somebody holds it: the revocable shared
// locks of the ZooKeeper documentation, and Curator's Revocable, RevocationListener
// and Revoker.
//
// # On the wire
//
// A holder watches the data of its own node. Whoever wants the lock writes to that node:
//
//	<lock's path>/_c_<uuid>-lock-<sequence>  "__REVOKE__"
//
// Holders understand "__REVOKE__" (Curator's, which is sent) and "unlock" (the
// documentation's). The message takes the place of the data that the node had, and
// stays: what was written before the holder began to watch is seen as well.
//
// # What it promises
//
//   - A holder that can reach a server is told, once, also if it was asked while it
//     waited for the lock.
//   - Asking takes nothing away: the holder consents by releasing.
//   - Unless it is done with force, and then the holder's context ends with [ErrRevoked].
//
// # What it cannot promise
//
// That anybody lets go. And force deletes the holder's node, as an operator might: the
// next one may come in before the holder has heard of it, by the time that takes.
// What must never happen twice needs a check where it happens: [lock.Hold.Guard].
package revocable

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/lockapi"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
)

// What holders understand.
const (
	MessageRevoke = "__REVOKE__" // Curator's
	MessageUnlock = "unlock"     // of the ZooKeeper documentation
)

// ErrRevoked is the cause of a hold's end if it was asked to let go, did not, and its node
// was deleted. errors.Is finds [lock.ErrNodeDeleted] in it. A holder whose node
// is deleted before it has read the message sees that one alone.
var ErrRevoked = fmt.Errorf("revoked: %w", lock.ErrNodeDeleted)

// Locker is what can be made revocable: a mutex.Mutex, either side of an rwlock.Lock, a
// lock.Queue.
type Locker interface {
	Acquire(ctx context.Context) (*lock.Hold, error)
	TryAcquire(ctx context.Context) (*lock.Hold, error)
}

// Option configures a [Lock] or a [Hold].
type Option func(*config) error

type config struct {
	told func(*Hold)
}

// OnRevoke has f called when a hold is asked for, at most once for each, after the hold's
// Revoked channel was closed. f runs on a goroutine of its own: it may take its time, and
// may release. The default is not to call anything.
func OnRevoke(f func(*Hold)) Option {
	return func(c *config) error {
		if f == nil {
			return fmt.Errorf("%w: nil function", lock.ErrBadArgument)
		}
		c.told = f
		return nil
	}
}

// Lock is a lock whose holds can be asked for. It keeps no state, and any number of
// goroutines may use it.
type Lock struct {
	locker Locker
	opts   []Option
}

// New makes a revocable lock of any other. Nothing is sent. The error is
// [lock.ErrBadArgument].
//
// The lock stays what it was: contenders that use it without this package are in
// the same queue, but do not hear that they are asked.
func New(locker Locker, opts ...Option) (*Lock, error) {
	if locker == nil {
		return nil, fmt.Errorf("revocable: %w: nil lock", lock.ErrBadArgument)
	}
	if _, err := configure(opts); err != nil {
		return nil, err
	}
	return &Lock{locker, opts}, nil
}

func configure(opts []Option) (config, error) {
	var c config
	for _, opt := range opts {
		if opt == nil {
			return c, fmt.Errorf("revocable: %w: nil option", lock.ErrBadArgument)
		}
		if err := opt(&c); err != nil {
			return c, fmt.Errorf("revocable: %w", err)
		}
	}
	return c, nil
}

// Acquire waits until it holds the lock, or ctx is done. Errors are those of the lock under
// it. With the context of a hold it re-enters, if the lock does, and the new hold is
// asked along with the others of its lease.
func (l *Lock) Acquire(ctx context.Context) (*Hold, error) {
	hold, err := l.locker.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return Watch(hold, l.opts...)
}

// TryAcquire is Acquire without waiting for others: the error is [lock.ErrNotAcquired]
// when somebody is in the way.
func (l *Lock) TryAcquire(ctx context.Context) (*Hold, error) {
	hold, err := l.locker.TryAcquire(ctx)
	if err != nil {
		return nil, err
	}
	return Watch(hold, l.opts...)
}

// Do acquires, calls f and releases. f should return soon after revoked is closed. Its
// context ends when the lock may no longer be ours, as well as with ctx, but not when
// f is asked: there may be something to finish. The error is Acquire's, or f's and
// Release's joined. If f panics, the lock is released.
func (l *Lock) Do(ctx context.Context, f func(ctx context.Context, revoked <-chan struct{}) error) error {
	hold, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	return hold.Do(ctx, func(ctx context.Context) error { return f(ctx, hold.Revoked()) })
}

// Hold is a [lock.Hold] that can be asked for. All methods are safe for concurrent use.
type Hold struct {
	*lock.Hold
	revoked chan struct{}
}

// Watch makes a hold revocable that was acquired elsewhere. It returns at once; one request
// is sent in the background. What has been written to the hold's node since it was
// made is seen, however long ago. The error is [lock.ErrBadArgument].
//
// It is all the same whether hold or the Hold returned is released. With the first one's
// context both end.
func Watch(hold *lock.Hold, opts ...Option) (*Hold, error) {
	if hold == nil {
		return nil, fmt.Errorf("revocable: %w: nil hold", lock.ErrBadArgument)
	}
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	h := &Hold{Hold: hold, revoked: make(chan struct{})}
	go h.watch(c.told) // ends with the hold, or when told has been called
	return h, nil
}

// Revoked is closed when somebody asks for the lock. It is never closed if the hold
// ends unasked: select on Done as well.
func (h *Hold) Revoked() <-chan struct{} { return h.revoked }

// watch is the holder's side of the protocol. It looks first and waits then: who wrote
// between our node's making and the first look is heard.
func (h *Hold) watch(told func(*Hold)) {
	ctx := framework.InSession(h.Context(), h.Session())
	for {
		data, stat, watch, err := h.Client().GetW(ctx, h.Path())
		switch {
		case h.Err() != nil:
			return
		case retry.Retryable(err):
			continue // out of reach; whether that is trouble is for the session to say
		case errors.Is(err, zk.ErrNoNode):
			return // the hold's own watch tells of that
		case err != nil:
			h.Client().Logger().Warn("lock cannot be asked for", "path", h.Path(), "reason", err)
			return
		}
		// The first version is not a message, whatever it says: it is ours.
		if stat.Version > 0 && understood(string(data)) {
			// Before anyone may act on it: a deletion from here on has been announced.
			lockapi.ExpectDeletion(h.Hold, ErrRevoked)
			close(h.revoked)
			if told != nil {
				told(h)
			}
			return
		}
		select {
		case <-watch.Done():
			// Written to, gone, or the connection was lost: look again.
		case <-h.Done():
			return
		}
	}
}

func understood(message string) bool { return message == MessageRevoke || message == MessageUnlock }
