package rwlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/rwlock"
)

// TestAcquire_InsideAHold is the table of the package comment. A second Lock of the client refuses
// in both modes.
func TestAcquire_InsideAHold(t *testing.T) {
	read, write := (*rwlock.Lock).Read, (*rwlock.Lock).Write
	reading := func(t *testing.T, l *rwlock.Lock) context.Context { return acquire(t, l.Read()).Context() }
	writing := func(t *testing.T, l *rwlock.Lock) context.Context { return acquire(t, l.Write()).Context() }
	downgrading := func(t *testing.T, l *rwlock.Lock) context.Context {
		w := acquire(t, l.Write())
		r := downgraded(t, l, w)
		release(t, w)
		return r.Context()
	}
	for name, c := range map[string]struct {
		outside  func(t *testing.T, l *rwlock.Lock) context.Context
		acquires func(*rwlock.Lock) *rwlock.Side
		refused  error // without the option
		reenters error // with it
		says     string
	}{
		"a read in a read":       {reading, read, lock.ErrHeld, nil, "lock.WithReentry"},
		"a read in a write":      {writing, read, lock.ErrHeld, nil, "Lock.Downgrade"},
		"a read in a downgrade":  {downgrading, read, lock.ErrHeld, nil, "lock.WithReentry"},
		"a write in a write":     {writing, write, lock.ErrHeld, nil, "lock.WithReentry"},
		"a write in a read":      {reading, write, rwlock.ErrUpgrade, rwlock.ErrUpgrade, "release it first"},
		"a write in a downgrade": {downgrading, write, rwlock.ErrUpgrade, rwlock.ErrUpgrade, "release it first"},
	} {
		for mode, opts := range map[string][]lock.Option{"refuses": nil, "reenters": {lock.WithReentry()}} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
					client := w.Client()
					l, other := lockOn(client, "/lock", opts...), lockOn(client, "/lock", opts...)
					ctx, cancel := context.WithTimeout(context.WithoutCancel(c.outside(t, l)), 20*time.Second) // it would wait for itself
					defer cancel()
					time.Sleep(100 * time.Millisecond) // virtual time: the node of a holder without a view is watched after a while
					refused := func(l *rwlock.Lock, want error, says string) {
						w.Server.ResetCounts()
						_, err := c.acquires(l).Acquire(ctx)
						require.ErrorIs(t, err, want)
						require.ErrorIs(t, err, lock.ErrHeld)
						require.NotErrorIs(t, err, lock.ErrNotAcquired)
						require.ErrorContains(t, err, says)
						require.ErrorIs(t, testbed.Err(c.acquires(l).TryAcquire(ctx)), want)
						require.ErrorIs(t, c.acquires(l).Do(ctx, func(context.Context) error { return nil }), want)
						require.Empty(t, w.Server.Requests().Requests)
					}
					want := c.refused
					if opts != nil {
						want = c.reenters
					}
					if want != nil {
						refused(l, want, c.says)
					} else {
						release(t, testbed.Must(c.acquires(l).Acquire(ctx)))
					}
					refused(other, c.refused, "another object")
				})
			})
		}
	}
}

// TestAcquire_AfterTheHold: what was released is in no one's way. The reader queues as any other.
func TestAcquire_AfterTheHold(t *testing.T) {
	l, _ := newLock(t, testbed.InProcess(t), "/lock")
	w := acquire(t, l.Write())
	r := downgraded(t, l, w)
	ctx := context.WithoutCancel(r.Context())
	release(t, w, r)
	for _, side := range []*rwlock.Side{l.Write(), l.Read()} {
		hold := acquireIn(t, ctx, side)
		require.NotEqual(t, w.Path(), hold.Path())
		require.NotContains(t, hold.Path(), "__READ__"+w.Path()[len(w.Path())-10:], "not in the writer's place")
		release(t, hold)
	}
	queued(t, l, 0)
}

func TestDowngrade(t *testing.T) {
	for mode, opts := range map[string][]lock.Option{"refuses": nil, "reenters": {lock.WithReentry()}} {
		t.Run(mode, func(t *testing.T) {
			bed := testbed.InProcess(t)
			l, client := newLock(t, bed, "/lock", opts...)
			other := lockOn(client, "/lock", opts...)
			rival, _ := newLock(t, bed, "/lock")

			w := acquire(t, l.Write())
			for l, ctx := range map[*rwlock.Lock]context.Context{l: testbed.Context(t), other: w.Context()} {
				_, err := l.Downgrade(ctx)
				require.ErrorIs(t, err, framework.ErrBadArgument)
				testbed.OneOp(t, err, "downgrade", "/lock")
			}
			release(t, w)
			reader := acquire(t, l.Read())
			require.ErrorIs(t, testbed.Err(l.Downgrade(reader.Context())), framework.ErrBadArgument, "not a writer")
			release(t, reader)
			queued(t, l, 0)

			var r *lock.Hold
			require.NoError(t, l.Write().Do(testbed.Context(t), func(ctx context.Context) error {
				r = testbed.Must(l.Downgrade(ctx))
				release(t, downgraded(t, l, r))
				require.NoError(t, ctx.Err(), "the write hold continues")
				refused(t, rival.Read())
				return nil
			}))
			require.NoError(t, r.Err())
			joined := try(t, rival.Read())
			refused(t, rival.Write())
			release(t, joined, r)
			release(t, try(t, rival.Write()))
			queued(t, l, 0)
		})
	}
}
