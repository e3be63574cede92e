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
	"github.com/gocurator/curator/zktest"
)

// TestGivingUp_WhileTheQueueIsListedSaysThatOthersAreAhead has a waiter give up at each moment
// around the release of the node before its predecessor, when it lists again.
func TestGivingUp_WhileTheQueueIsListedSaysThatOthersAreAhead(t *testing.T) {
	for patience := 3 * time.Second; patience < 6*time.Second; patience += 50 * time.Millisecond {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			a, b, c := newQueue(t, w.Client(), "/lock"), newQueue(t, w.Client(), "/lock"), newQueue(t, w.Client(), "/lock")
			first := acquire(t, a)
			second := acquiring(t, t.Context(), b, w.Server, 2)
			time.AfterFunc(4*time.Second, func() { _ = first.Release() })
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := c.Acquire(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, lock.ErrNotAcquired, "given up after %v", patience)
			got := testbed.Receive(t, second, "the lock")
			require.NoError(t, got.err)
			require.NoError(t, got.hold.Release())
		}, zktest.WithLatency(200*time.Millisecond))
	}
}

// TestAcquire_OfServersThatAreTooSlow has servers that answer every request, each after a quarter
// of the session timeout: no hold could be kept.
func TestAcquire_OfServersThatAreTooSlow(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := newQueue(t, w.Client(framework.WithSessionTimeout(4*time.Second)), "/lock")
		began := time.Now()
		trying, stop := context.WithTimeout(t.Context(), time.Minute) // ends a stuck TryAcquire
		defer stop()
		_, err := q.TryAcquire(trying)
		require.ErrorIs(t, err, framework.ErrSessionLost)
		require.ErrorContains(t, err, "in time")
		require.Less(t, time.Since(began), 15*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = q.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, errors.Is(err, framework.ErrSessionLost), "the reason: %v", err)
		time.Sleep(time.Minute) // virtual time
		length(t, w.Server, q, 0)
	}, zktest.WithLatency(time.Second))
}
