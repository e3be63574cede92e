package lock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
)

// TestAcquire_InsideAHold is the table above nested. The context comes from the hold, but does not
// end with it: cells that have no result acquire.
func TestAcquire_InsideAHold(t *testing.T) {
	enough := errors.New("enough")
	for name, c := range map[string]struct {
		opts             []lock.Option
		then             func(t *testing.T, w *testbed.World, h *lock.Hold) // what ends the hold, or nil
		done             bool                                               // the caller's context is done
		refuses, another error                                              // the results of the same Queue and of another, without the option
		reenters         error                                              // the result of the same Queue with it; errAgain is another hold
	}{
		"the lease lives":      {nil, nil, false, lock.ErrHeld, lock.ErrHeld, errAgain},
		"the caller has ended": {nil, nil, true, enough, enough, errAgain},
		"suspended":            {nil, suspend, false, framework.ErrSuspended, framework.ErrSuspended, framework.ErrSuspended},
		"suspended and released": {nil, func(t *testing.T, w *testbed.World, h *lock.Hold) {
			suspend(t, w, h)
			_ = h.Release()
		}, false, nil, nil, framework.ErrSuspended},
		"suspended, and the session has ended": {nil, func(t *testing.T, w *testbed.World, h *lock.Hold) {
			suspend(t, w, h)
			require.NoError(t, w.Server.ExpireSession(h.Session().ID()))
			testbed.Receive(t, h.Session().Done(), "the end of the session")
		}, false, nil, nil, framework.ErrSuspended},
		"suspended, and deleted": {nil, func(t *testing.T, w *testbed.World, h *lock.Hold) {
			suspend(t, w, h)
			require.NoError(t, w.Server.Delete(h.Path()))
		}, false, nil, nil, framework.ErrSuspended},
		"suspended, and held for too long": {[]lock.Option{lock.WithMaxHold(time.Minute)}, func(t *testing.T, w *testbed.World, h *lock.Hold) {
			suspend(t, w, h)
			time.Sleep(time.Minute) // virtual time: the time of WithMaxHold
		}, false, nil, nil, framework.ErrSuspended},
		"deleted": {nil, func(t *testing.T, w *testbed.World, h *lock.Hold) {
			require.NoError(t, w.Server.Delete(h.Path()))
			testbed.Receive(t, h.Done(), "the deletion")
		}, false, nil, nil, lock.ErrNodeDeleted},
		"held for too long": {[]lock.Option{lock.WithMaxHold(time.Minute)}, func(t *testing.T, w *testbed.World, h *lock.Hold) {
			<-h.Done()
		}, false, nil, nil, lock.ErrMaxHold},
		"released": {nil, func(t *testing.T, w *testbed.World, h *lock.Hold) {
			require.NoError(t, h.Release())
		}, false, nil, nil, lock.ErrReleased},
	} {
		for mode, opts := range map[string][]lock.Option{"refuses": c.opts, "reenters": append(c.opts, lock.WithReentry())} {
			testbed.RunWorld(t, name+"/"+mode, func(t *testing.T, w *testbed.World) {
				client := w.Client()
				q, other := newQueue(t, client, "/lock", opts...), newQueue(t, client, "/lock", opts...)
				h := acquire(t, q)
				ctx, cancel := context.WithCancelCause(context.WithoutCancel(h.Context()))
				ctx, stop := context.WithTimeout(ctx, 5*time.Minute) // it would wait for itself
				defer stop()
				defer cancel(nil)
				if c.done {
					cancel(enough)
				}
				if c.then != nil {
					c.then(t, w, h)
					require.NoError(t, client.WaitConnected(t.Context()))
					time.Sleep(100 * time.Millisecond) // virtual time: the reconnect also watches the node
				}
				want := c.refuses
				if mode == "reenters" {
					want = c.reenters
				}
				check := func(q *lock.Queue, acquire func(context.Context) (*lock.Hold, error), want error) {
					w.Server.ResetCounts()
					got, err := acquire(ctx)
					switch want {
					case nil:
						require.NoError(t, err)
						require.NotEqual(t, h.Path(), got.Path())
						require.NoError(t, got.Release())
						return
					case errAgain:
						require.NoError(t, err)
						require.Equal(t, h.Path(), got.Path())
						require.NoError(t, got.Release())
					default:
						require.ErrorIs(t, err, want)
					}
					require.Empty(t, w.Server.Requests().Requests, "refused or granted without a request")
				}
				for _, tries := range []bool{false, true} {
					one, two := q.Acquire, other.Acquire
					if tries {
						one, two = q.TryAcquire, other.TryAcquire
					}
					check(q, one, want)
					check(other, two, c.another)
				}
			})
		}
	}
}

// suspend has the connection of a holder lost, and returns when there is another one.
func suspend(t *testing.T, w *testbed.World, h *lock.Hold) {
	w.Server.CutConnections()
	testbed.Receive(t, h.Done(), "the suspension")
	time.Sleep(100 * time.Millisecond) // virtual time: the reconnect also watches the node
}

// errAgain stands for another hold of the same lease.
var errAgain = errors.New("again")

// TestAcquire_TheLeaseCounts: the hold that the context comes from has been released, while another
// one of its lease lives.
func TestAcquire_TheLeaseCounts(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	q, other := newQueue(t, client, "/lock", lock.WithReentry()), newQueue(t, client, "/lock")
	outer := acquire(t, q)
	inner := acquireIn(t, outer.Context(), q)
	ctx, stop := context.WithTimeout(context.WithoutCancel(inner.Context()), time.Minute) // it would wait for itself
	defer stop()
	require.NoError(t, inner.Release())
	_, err := other.Acquire(ctx)
	require.ErrorIs(t, err, lock.ErrHeld)
	require.ErrorContains(t, err, outer.Path())
	again := acquireIn(t, ctx, q)
	require.NoError(t, outer.Release())
	require.NoError(t, again.Err())
	require.NoError(t, again.Release())
	require.NoError(t, acquireIn(t, ctx, other).Release())
}

// TestAcquire_Place: views of one client meet at the real path. Another client, path or name is
// another lock.
func TestAcquire_Place(t *testing.T) {
	bed := testbed.InProcess(t)
	client := bed.Client(t)
	hold := acquire(t, newQueue(t, testbed.Namespace(t, client, "app"), "/lock"))
	require.ErrorIs(t, testbed.Err(newQueue(t, client, "/app/lock").TryAcquire(hold.Context())), lock.ErrHeld)
	_, err := newQueue(t, bed.Client(t), "/app/lock").TryAcquire(hold.Context())
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NotErrorIs(t, err, lock.ErrHeld)
	require.NoError(t, testbed.Must(newQueue(t, client, "/lock").TryAcquire(hold.Context())).Release())
	named := testbed.Must(lock.New(client, "/app/lock", "other-", nil))
	require.NoError(t, testbed.Must(named.TryAcquire(hold.Context())).Release())
	require.NoError(t, hold.Release())
}

// TestAcquire_RefusedWithoutTheObserver: it is an error of the program, and not a wait.
func TestAcquire_RefusedWithoutTheObserver(t *testing.T) {
	var calls atomic.Int32
	client := testbed.InProcess(t).Client(t, lock.WithObserver(lock.Observer{Acquiring: func(ctx context.Context, _ lock.AcquiringEvent) context.Context {
		calls.Add(1)
		return ctx
	}}))
	q := newQueue(t, client, "/lock")
	hold := acquire(t, q)
	_, err := q.Acquire(hold.Context())
	require.ErrorIs(t, err, lock.ErrHeld)
	require.EqualError(t, err, "acquire /lock: held by the caller already: "+hold.Path()+" (lock.WithReentry allows it, or use a context from outside the hold)")
	require.EqualValues(t, 1, calls.Load())
	require.NoError(t, hold.Release())
}

// TestDo_CarriesTheHolds: of the hold, and of those outside of it.
func TestDo_CarriesTheHolds(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	a, b := newQueue(t, client, "/a"), newQueue(t, client, "/b")
	held := func(ctx context.Context, queues ...*lock.Queue) {
		for _, q := range queues {
			require.ErrorIs(t, testbed.Err(q.TryAcquire(ctx)), lock.ErrHeld, q.Path())
		}
	}
	ctx := testbed.Context(t)
	require.NoError(t, a.Do(ctx, func(ctx context.Context) error {
		held(ctx, a)
		return b.Do(ctx, func(ctx context.Context) error { held(ctx, a, b); return nil })
	}))
	outer := acquire(t, a)
	inner := acquireIn(t, outer.Context(), b)
	require.NoError(t, inner.Do(ctx, func(ctx context.Context) error { held(ctx, a, b); return nil }), "another context")
	require.NoError(t, outer.Do(lock.Outside(ctx), func(ctx context.Context) error { held(ctx, a); return nil }))

	group := lock.NewGroup([]*lock.Hold{acquire(t, b)})
	require.NoError(t, group.Do(ctx, func(ctx context.Context) error { held(ctx, b); return nil }))
	require.NoError(t, a.Do(ctx, func(in context.Context) error {
		return acquireIn(t, ctx, b).Do(in, func(ctx context.Context) error { held(ctx, a, b); return nil })
	}), "the hold of the caller")
}

// TestOutside keeps deadline, cancellation and values.
func TestOutside(t *testing.T) {
	q := newQueue(t, testbed.InProcess(t).Client(t), "/lock")
	ctx, cancel := context.WithTimeoutCause(with(testbed.Context(t), "value", "key"), time.Hour, errors.New("late"))
	defer cancel()
	require.NoError(t, q.Do(ctx, func(in context.Context) error {
		out := lock.Outside(in)
		require.Equal(t, "value", out.Value(valueKey("key")))
		want, _ := ctx.Deadline()
		deadline, _ := out.Deadline()
		require.Equal(t, want, deadline)
		require.ErrorIs(t, testbed.Err(q.TryAcquire(out)), lock.ErrNotAcquired)
		derived, cancel := context.WithCancel(out)
		defer cancel()
		require.ErrorIs(t, testbed.Err(q.TryAcquire(derived)), lock.ErrNotAcquired)
		return nil
	}))
}

// TestAcquire_SeveralLeases: the context of a hold acquires another lease.
func TestAcquire_SeveralLeases(t *testing.T) {
	q := newQueue(t, testbed.InProcess(t).Client(t), "/lock", lock.WithMaxLeases(2))
	one := acquire(t, q)
	two := acquireIn(t, one.Context(), q)
	require.NotEqual(t, one.Path(), two.Path())
	require.ErrorIs(t, testbed.Err(q.TryAcquire(two.Context())), lock.ErrNotAcquired)
	require.NoError(t, two.Release())
	require.NoError(t, one.Release())
}
