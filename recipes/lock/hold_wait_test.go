package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
)

// TestReleaseWith_OfALostHoldDoesNotWaitForARelease has another goroutine release the hold while no
// server can be reached, which takes as long as the session lasts.
func TestReleaseWith_OfALostHoldDoesNotWaitForARelease(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		hold := acquire(t, newQueue(t, w.Client(), "/lock"))
		w.Server.RefuseConnections(true)
		w.Server.CutConnections()
		testbed.Receive(t, hold.Done(), "word of the loss")
		released := make(chan error, 1)
		go func() { released <- hold.Release() }()
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := hold.ReleaseWith(ctx)
		require.ErrorIs(t, err, framework.ErrSuspended)
		require.LessOrEqual(t, time.Since(began), time.Second)
		w.Server.RefuseConnections(false)
		require.NoError(t, testbed.Receive(t, released, "the release"))
	})
}

// TestReleaseWith_OfALostHoldLeavesTheNodeToOthers has a holder that re-entered release after a
// loss of the connection, while its other hold is not released: its work may continue.
func TestReleaseWith_OfALostHoldLeavesTheNodeToOthers(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := newQueue(t, w.Client(), "/lock", lock.WithReentry())
		outer := acquire(t, q)
		inner, err := q.Acquire(outer.Context())
		require.NoError(t, err)
		w.Server.CutConnections()
		testbed.Receive(t, outer.Done(), "word of the loss")
		_, err = outer.ReleaseWith(t.Context())
		require.ErrorIs(t, err, framework.ErrSuspended)
		time.Sleep(time.Minute) // virtual time
		length(t, w.Server, q, 1)
		require.NoError(t, inner.Release())
		length(t, w.Server, q, 0)
	})
}
