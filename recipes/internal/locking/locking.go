// Package locking is the part of package lock that is for the recipes of this module and for no
// others. Package lock fills it in: see package locks.
package locking

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/retry"
)

// Settings are settings of a queue that only recipes of this module can change.
type Settings[Queue any] struct {
	// Noun is the word for a hold in the log. The default is "lock".
	Noun string

	// Data, if not nil, overrides the data set by lock.WithData.
	Data []byte

	// MaxLeases, if not 0, overrides the number set by lock.WithMaxLeases.
	MaxLeases int

	// Another makes Acquire with the context of a hold acquire another lease, as if the queue had
	// several.
	Another bool

	// Unobserved turns off the observer.
	Unobserved bool

	// SuspensionEndsNothing keeps holds during a suspended connection, whatever the client's error
	// policy.
	SuspensionEndsNothing bool

	// Numbered declares that the driver names its nodes by the name of the queue and the next
	// number, as lock.Standard does.
	Numbered bool

	// Front is the queue that must be empty for TryAcquire, or nil. Acquire ignores it.
	Front Queue

	// Remains returns operations that delete what the recipe keeps below the path, and operations
	// that create it again. The queue deletes and creates its path in between, in one transaction,
	// so that its numbers start again long before they overflow. nil: the recipe keeps nothing.
	Remains func(ctx context.Context) (deletions, creations []any, err error)
}

// How describes how to acquire.
type How struct {
	Wait     bool               // wait for other contenders; false: fail if one is ahead
	Reported bool               // the caller notifies the observer: see Lock.Observe
	Session  *framework.Session // the only session in which the node is created; nil: any session
	News     News               // may end the wait; nil: only the lock is waited for
}

// News is what a waiter with the Standard driver waits for besides the lock. Such a waiter watches
// only the node ahead, and lists when it is deleted.
type News interface {
	// Watch is called before each wait, with the number of nodes ahead. The wait also ends when the
	// channel is closed; nil never is. An error ends the acquire.
	Watch(ctx context.Context, ahead int) (<-chan struct{}, error)

	// Look is called after each wait, before the waiter looks at the queue. An error ends the
	// acquire.
	Look(ctx context.Context) error
}

// Lock is the part of package lock that is reserved for recipes.
type Lock[Queue, Hold, Group, Participant, Option any] struct {
	// With returns an option that applies the settings of a recipe.
	With func(s Settings[Queue]) Option

	// Acquire acquires a lease of q, and waits for it if how says so. Its errors do not name the
	// operation.
	Acquire func(ctx context.Context, q Queue, how How) (Hold, error)

	// Again returns another hold of the same lease, with the same values. If h has ended, it
	// returns the cause.
	Again func(h Hold) (Hold, error)

	// HeldIn returns the hold of a queue from whose context ctx derives, or nil. The hold may have
	// ended.
	HeldIn func(ctx context.Context, q Queue) Hold

	// Refuse returns why a caller whose context comes from a hold at the place of q must not wait
	// for that hold, or nil. It is held, with the node and the way out, if the hold's lease lives.
	// A hold that re-enters q is not refused.
	Refuse func(ctx context.Context, q Queue, held error, wayOut string) error

	// Without returns ctx without the holds at the place of q.
	Without func(ctx context.Context, q Queue) context.Context

	// Reenters reports whether q was created with lock.WithReentry.
	Reenters func(q Queue) bool

	// MaxLeases returns the number of leases of q.
	MaxLeases func(q Queue) int

	// SetMaxLeases changes the number of leases for this Queue only: the caller must change all
	// Queues at the path. A higher number wakes waiters. With a lower number the holders keep
	// their leases; with 0, no contender acquires until the number is raised.
	//
	// n must not be negative, and the Queue must have neither retention nor a lock delay.
	SetMaxLeases func(q Queue, n int)

	// Observe notifies the observer that an acquire starts. The caller acquires with the returned
	// context and How.Reported, and calls done with its holds, or with the error of the whole
	// acquire. If a hold was lost while the observer was notified, done releases all holds and
	// returns the cause.
	Observe func(ctx context.Context, q Queue) (observed context.Context, done func(err error, holds ...Hold) error)

	// Leave releases holds that are not needed any more, in the given order. Unlike Release it
	// waits for the servers at most a second, for all holds together, and not at all if no server
	// can be reached. The rest continues in the background.
	Leave func(holds []Hold)

	// Group combines holds, of which there must be at least one, in the order in which they were
	// acquired. ctx is the context that the caller passed to the recipe.
	Group func(ctx context.Context, holds []Hold) Group

	// Conclude releases a hold and applies operations in one transaction, which is repeated while
	// the lock's node exists: after a lost request or reply, and after a suspension. A copy that
	// arrives late does nothing.
	//
	// ops returns the operations, at least one. Their data are sent as they are, not compressed. If
	// one of them is refused, nothing was applied and the lock is still held: ops is called again,
	// with the refusal, whose Index counts from the first of its operations. An error of ops ends
	// the attempt, unless it may pass.
	//
	// The lease is released in any case. If the hold has ended before, the error is the cause, and
	// nothing was sent. After an error, retry.Unknown reports whether a copy of the transaction may
	// have been applied, or may still be while the lock's node exists.
	Conclude func(h Hold, ops func(refused *framework.MultiError) ([]any, error)) ([]zk.MultiResponse, error)

	// Describe returns the data of a queue's nodes, or nil for the client's default, and whether it
	// keeps nodes without a holder.
	Describe func(q Queue) (data []byte, keeps bool)

	// Client returns the client that the queue of a hold was created with.
	Client func(h Hold) *framework.Client

	// ClientOf returns the client of the queue that listed p, or nil.
	ClientOf func(p Participant) *framework.Client

	// Pin makes Release delete the node, instead of handing it over or keeping it.
	Pin func(h Hold)

	// ExpectDeletion sets the cause of the hold's context, and of all other holds of the lease, if
	// another client deletes the node from now on. cause must wrap lock.ErrNodeDeleted, which it
	// replaces.
	ExpectDeletion func(h Hold, cause error)

	// Sort returns the nodes whose names the Standard driver gives, in its order. It returns
	// lock.ErrSequenceExhausted if their numbers have overflowed.
	Sort func(children []string, name string) ([]string, error)
}

// Filled is the Lock of package lock, which sets it in its init. Package locks has it with its
// type.
var Filled any

// TokenDriver is a driver whose nodes can share the fencing token of another node of the same
// holder.
type TokenDriver interface {
	// CreateWithToken creates the driver's node below base and returns its path. It also returns
	// the token, or 0 if it is the node's own.
	CreateWithToken(ctx context.Context, client *framework.Client, base, name string, data []byte) (path string, token int64, err error)
}

// NodeLost means that a node of this client was deleted, by the servers or by another client,
// before the acquire was complete. The acquire may start again: see [Repeat].
type NodeLost struct{ Cause error }

func (e *NodeLost) Error() string { return e.Cause.Error() }
func (e *NodeLost) Unwrap() error { return e.Cause }

// Repeat calls acquire, and calls it again after each [NodeLost], as often as the retry policy of
// the client allows.
func Repeat[T any](ctx context.Context, client *framework.Client, acquire func() (T, error)) (acquired T, err error) {
	var pauses retry.BackOff
	for {
		if acquired, err = acquire(); err == nil {
			return acquired, nil
		}
		var lost *NodeLost
		if !errors.As(err, &lost) {
			return acquired, err
		}
		if pauses == nil {
			pauses = engine.Of(client).Pauses()
		}
		pause := pauses.NextBackOff()
		if pause < 0 {
			return acquired, lost.Cause
		}
		if err = engine.Sleep(ctx, engine.Of(client), pause); ctx.Err() != nil {
			return acquired, engine.Of(client).GaveUp(ctx, nil)
		} else if err != nil {
			return acquired, err
		}
	}
}

// Do acquires, calls f, and releases, for the Do of a recipe. The errors are
// framework.ErrBadArgument if f is nil, the error of acquire, and the error of the Do of what
// acquire returns.
func Do[H interface {
	Do(ctx context.Context, f func(ctx context.Context) error) error
}](ctx context.Context, path string, acquire func(ctx context.Context) (H, error), f func(ctx context.Context) error) error {
	if f == nil {
		return &framework.OpError{Op: "do", Path: path, Err: fmt.Errorf("%w: nil function", framework.ErrBadArgument)}
	}
	h, err := acquire(ctx)
	if err != nil {
		return err
	}
	return h.Do(ctx, f)
}
