// Package locking is the part of package lock that is for the recipes of this module and for no
// others. Package lock fills it in: see lock.Inside.
package locking

import (
	"context"
	"errors"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
)

// Settings are what a recipe sets of a queue beyond the options of users.
type Settings[Queue any] struct {
	// Noun is what a hold is called in the log. The default is "lock".
	Noun string

	// Data are the data of the nodes, in place of those of lock.WithData. nil changes nothing.
	Data []byte

	// MaxLeases is as that of lock.WithMaxLeases. 0 changes nothing.
	MaxLeases int

	// NoReentry has an Acquire with the context of a hold acquire another one.
	NoReentry bool

	// Unobserved has no observer notified.
	Unobserved bool

	// SuspensionEndsNothing has a suspended connection not end a hold, whatever the client's error
	// policy is.
	SuspensionEndsNothing bool

	// Numbered says of the driver that its nodes have the name of the queue and the next number, as
	// those of lock.Standard.
	Numbered bool

	// Front is the queue that must be empty for TryAcquire. Acquire ignores it. nil: there is none.
	Front Queue
}

// How says how to acquire.
type How struct {
	Wait     bool               // false: as TryAcquire
	Reported bool               // the caller notifies the observer: see Lock.Observe
	Session  *framework.Session // in which the node is created, in one try; nil: in one session after the other
}

// Lock is what package lock offers to recipes.
type Lock[Queue, Hold, Group, Participant, Option any] struct {
	// With is an option with the settings of a recipe.
	With func(s Settings[Queue]) Option

	// Acquire is Queue.Acquire or Queue.TryAcquire. The error has no operation.
	Acquire func(ctx context.Context, q Queue, how How) (Hold, error)

	// Again re-enters: it returns another hold of the same lease, with the values of ctx. The error
	// is why h has ended.
	Again func(ctx context.Context, h Hold) (Hold, error)

	// HeldIn returns the hold of a queue that ctx comes from, or nil. The hold may have ended.
	HeldIn func(ctx context.Context, q Queue) Hold

	// SetMaxLeases changes how many can hold at a time, for this Queue only: all Queues at the path
	// must be changed. A higher number wakes waiters. With a lower number no holder loses its
	// lease; with 0 no contender acquires until the number is higher. n must not be negative, and
	// the Queue must have neither retention nor a lock delay.
	SetMaxLeases func(q Queue, n int)

	// Observe notifies the observer that an acquire begins. The caller acquires with the context
	// and How.Reported, and calls done with the result: its holds, or the error of the whole
	// acquire. If a hold was lost while the observer was notified, the error of done is the cause,
	// and all holds have been released.
	Observe func(ctx context.Context, q Queue) (observed context.Context, done func(err error, holds ...Hold) error)

	// Leave releases holds that are not needed any more, in this order. Unlike Release it waits at
	// most a second for the servers, for all holds together, and not at all for a server that is
	// out of reach; what is left to do continues in the background.
	Leave func(holds []Hold)

	// Group combines holds, of which there must be at least one, in the order in which they were
	// acquired.
	Group func(holds []Hold) Group

	// Client returns the client that the queue of a hold was created with.
	Client func(h Hold) *framework.Client

	// ClientOf returns the client of the queue that listed p, or nil.
	ClientOf func(p Participant) *framework.Client

	// Pin has the node deleted at the release: it is neither handed over nor kept.
	Pin func(h Hold)

	// ExpectDeletion sets the cause of the hold's end if another client deletes its node from now
	// on, in place of lock.ErrNodeDeleted, which cause must wrap. It is the cause for all holds of
	// the lease.
	ExpectDeletion func(h Hold, cause error)

	// Sort returns the nodes with a name that the Standard driver gives, in its order. The error is
	// lock.ErrSequenceExhausted.
	Sort func(children []string, name string) ([]string, error)
}

// TokenDriver is a driver whose nodes can have the fencing token of another node of the same
// holder.
type TokenDriver interface {
	// CreateWithToken is Create of the driver. It also returns the token, or 0 if it is the node's
	// own.
	CreateWithToken(ctx context.Context, client *framework.Client, base, name string, data []byte) (path string, token int64, err error)
}

// NodeLost means that a node of this client was deleted before the caller had all that it acquires,
// by the end of the session or by another client. The acquire may begin again: see [Repeat].
type NodeLost struct{ Cause error }

func (e *NodeLost) Error() string { return e.Cause.Error() }
func (e *NodeLost) Unwrap() error { return e.Cause }

// Repeat calls acquire, and again after each [NodeLost], as often as the retry policy of the client
// allows.
func Repeat[T any](ctx context.Context, client *framework.Client, acquire func() (T, error)) (acquired T, err error) {
	var pauses backoff.BackOff
	for {
		if acquired, err = acquire(); err == nil {
			return acquired, nil
		}
		var lost *NodeLost
		if !errors.As(err, &lost) {
			return acquired, err
		}
		if pauses == nil {
			pauses = engine.Of(client).RetryPolicy().NewBackOff()
		}
		pause := pauses.NextBackOff()
		if pause == backoff.Stop {
			return acquired, lost.Cause
		}
		if err = engine.Sleep(ctx, engine.Of(client), pause); ctx.Err() != nil {
			return acquired, engine.Of(client).GaveUp(ctx, nil)
		} else if err != nil {
			return acquired, err
		}
	}
}
