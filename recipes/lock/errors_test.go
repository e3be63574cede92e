package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// refusing is a driver that fails to create a node.
type refusing struct{ lock.Standard }

var errRefusing = errors.New("no node today")

func (refusing) Create(context.Context, *framework.Client, lock.Node) (string, error) {
	return "", errRefusing
}

// TestErrors_OfAnAcquire has the rare errors of Acquire, TryAcquire and Do, which their comments
// list.
func TestErrors_OfAnAcquire(t *testing.T) {
	bed := testbed.On(zktest.NewServer(t))
	client := bed.Client(t)
	lostView := func() *framework.Client {
		other := bed.Client(t)
		session := testbed.Session(t, other)
		bed.ExpireSession(t, other)
		testbed.Receive(t, session.Done(), "the end of the session")
		return other.In(session)
	}
	within := func(q *lock.Queue, end func(*lock.Hold)) context.Context {
		hold := acquire(t, q)
		end(hold)
		return hold.Context()
	}
	long := make([]byte, 2<<20)
	again := newQueue(t, client, "/lock", lock.WithReentry())
	short := newQueue(t, client, "/lock", lock.WithReentry(), lock.WithMaxHold(time.Millisecond))
	closed := bed.Client(t)
	require.NoError(t, closed.Close())

	for name, c := range map[string]struct {
		queue *lock.Queue
		ctx   context.Context
		want  error
		own   error
	}{
		"data that are too long": {queue: newQueue(t, client, "/lock", lock.WithDataFunc(func(context.Context) []byte { return long })),
			want: framework.ErrTooLong},
		"data that are too large to decompress": {queue: newQueue(t,
			bed.Client(t, framework.WithCompression(), framework.WithMaxDecompressed(1024)), "/lock", lock.WithData(long)),
			want: framework.ErrTooLarge},
		"a view of nil":            {queue: newQueue(t, client.In(nil), "/lock"), want: framework.ErrBadArgument},
		"a view of a lost session": {queue: newQueue(t, lostView(), "/lock"), want: framework.ErrSessionLost},
		"a custom driver":          {queue: driven(client, refusing{}), want: errRefusing, own: errRefusing},
		"a closed client":          {queue: newQueue(t, closed, "/lock"), want: framework.ErrClosed},
		"re-entry after the release": {queue: again, want: lock.ErrReleased,
			ctx: within(again, func(h *lock.Hold) { require.NoError(t, h.Release()) })},
		"re-entry after the loss": {queue: short, want: lock.ErrMaxHold,
			ctx: within(short, func(h *lock.Hold) { testbed.Receive(t, h.Done(), "the end of the hold") })},
		"a done context": {queue: again, want: context.Canceled, ctx: testbed.Cancelled(t)},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := c.ctx
			if ctx == nil {
				ctx = testbed.Context(t)
			}
			var own []error
			if c.own != nil {
				own = append(own, c.own)
			}
			_, err := c.queue.Acquire(ctx)
			require.ErrorIs(t, testbed.Listed(t, c.queue, "Acquire", err, own...), c.want)
			_, err = c.queue.TryAcquire(ctx)
			require.ErrorIs(t, testbed.Listed(t, c.queue, "TryAcquire", err, own...), c.want)
			err = c.queue.Do(ctx, func(context.Context) error { panic("not called") })
			require.ErrorIs(t, testbed.Listed(t, c.queue, "Do", err, own...), c.want)
		})
	}
}

// TestErrors_OfAnOutage lists what an acquire returns while no server runs.
func TestErrors_OfAnOutage(t *testing.T) {
	for name, c := range map[string]struct {
		policy retry.Policy
		want   error
	}{
		"no retry":    {retry.NTimes(0, 0), errors.New("zk: could not connect to a server")},
		"two retries": {retry.NTimes(2, time.Millisecond), retry.ErrExhausted},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			q := newQueue(t, w.Client(framework.WithRetryPolicy(c.policy)), "/lock")
			hold := testbed.Acquire(t, q)
			w.Server.Stop()
			testbed.Receive(t, hold.Done(), "the end of the hold")
			_, err := q.Acquire(t.Context())
			require.ErrorContains(t, testbed.Listed(t, q, "Acquire", err), c.want.Error())
			_, err = q.TryAcquire(t.Context())
			require.ErrorContains(t, testbed.Listed(t, q, "TryAcquire", err), c.want.Error())
			_, err = q.Participants(t.Context())
			require.ErrorContains(t, testbed.Listed(t, q, "Participants", err), c.want.Error())
			testbed.Listed(t, hold, "Release", hold.Release())
		})
	}
}

// TestErrors_OfAHold has the errors of a hold that has ended, or is given nil.
func TestErrors_OfAHold(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	ctx := testbed.Context(t)
	q := newQueue(t, client, "/lock")
	calls := map[string]func(h *lock.Hold, ops ...any) error{
		"Release":      func(h *lock.Hold, _ ...any) error { return h.Release() },
		"ReleaseWith":  func(h *lock.Hold, ops ...any) error { _, err := h.ReleaseWith(ctx, ops...); return err },
		"Multi":        func(h *lock.Hold, ops ...any) error { _, err := h.Multi(ctx, ops...); return err },
		"FencingToken": func(h *lock.Hold, _ ...any) error { _, err := h.FencingToken(ctx); return err },
		"Do":           func(h *lock.Hold, _ ...any) error { return h.Do(ctx, func(context.Context) error { return nil }) },
	}
	ends := map[string]func(h *lock.Hold){
		"released": func(h *lock.Hold) { require.NoError(t, h.Release()) },
		"deleted": func(h *lock.Hold) {
			require.NoError(t, client.Delete(ctx, h.Path()))
			testbed.Receive(t, h.Done(), "the end of the hold")
		},
	}
	for method, call := range calls {
		for name, end := range ends {
			hold := testbed.Acquire(t, q)
			end(hold)
			require.Error(t, testbed.Listed(t, hold, method, call(hold, framework.CheckOp("/"))), name)
		}
	}
	for _, method := range []string{"Multi", "ReleaseWith"} {
		for _, op := range []any{nil, 5, framework.CheckOp("relative"), framework.CheckOp("/missing"), framework.SetOp("/lock", make([]byte, 2<<20))} {
			hold := testbed.Acquire(t, q)
			require.Error(t, testbed.Listed(t, hold, method, calls[method](hold, op)), "%v", op)
			_ = hold.Release() // after ReleaseWith it is released
		}
	}
	hold := testbed.Acquire(t, q)
	require.ErrorIs(t, testbed.Listed(t, hold, "Do", hold.Do(ctx, nil)), framework.ErrBadArgument)
	require.ErrorIs(t, hold.Err(), lock.ErrReleased)

	hold = testbed.Acquire(t, newQueue(t, client, "/kept", lock.WithRetention(time.Hour)))
	require.NoError(t, hold.Release())
	require.ErrorIs(t, testbed.Listed(t, hold, "FencingToken", calls["FencingToken"](hold)), lock.ErrReleased)
}
