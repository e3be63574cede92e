package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/internal/queue"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// TestRequeueOfALostHoldDoesNotWaitForARelease has another goroutine release the hold while no server can be reached, which takes as long
// as the session lasts.
func TestRequeueOfALostHoldDoesNotWaitForARelease(t *testing.T) {
	for name, end := range map[string]func(context.Context, *queue.Hold) error{
		"Requeue":     func(ctx context.Context, h *queue.Hold) error { _, err := h.Requeue(ctx); return err },
		"ReleaseWith": func(ctx context.Context, h *queue.Hold) error { _, err := h.ReleaseWith(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
				hold := acquire(t, newQueue(t, client(), "/lock"))
				server.RefuseConnections(true)
				server.CutConnections()
				testbed.Receive(t, hold.Done(), "word of the loss")
				released := make(chan error, 1)
				go func() { released <- hold.Release() }()
				synctest.Wait()
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.ErrorIs(t, end(ctx, hold), framework.ErrSuspended)
				require.LessOrEqual(t, time.Since(began), time.Second)
				server.RefuseConnections(false)
				require.NoError(t, testbed.Receive(t, released, "the release"))
			})
		})
	}
}

// TestRequeueWithALocalHandOffEndsWithItsContext has a holder that trusts its session requeue while no server can be reached.
func TestRequeueWithALocalHandOffEndsWithItsContext(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		q := newQueue(t, client(), "/lock", lock.WithLocalHandOff(10, time.Minute), lock.WithErrorPolicy(connstate.Session))
		hold := acquire(t, q)
		server.RefuseConnections(true)
		server.CutConnections()
		time.Sleep(100 * time.Millisecond) // virtual time
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := hold.Requeue(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrNoServer)
		require.LessOrEqual(t, time.Since(began), 2*time.Second)
		server.RefuseConnections(false)
		require.NoError(t, acquire(t, q).Release())
		length(t, server, q, 0)
	})
}

// TestRequeueOfALostHoldLeavesTheNodeToOthers has a holder that re-entered requeue after a loss of the connection, while its other hold is
// not released: its work may go on.
func TestRequeueOfALostHoldLeavesTheNodeToOthers(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		q := newQueue(t, client(), "/lock")
		outer := acquire(t, q)
		inner, err := q.Acquire(outer.Context())
		require.NoError(t, err)
		server.CutConnections()
		testbed.Receive(t, outer.Done(), "word of the loss")
		_, err = outer.Requeue(t.Context())
		require.ErrorIs(t, err, framework.ErrSuspended)
		time.Sleep(time.Minute) // virtual time
		length(t, server, q, 1)
		require.NoError(t, inner.Release())
		length(t, server, q, 0)
	})
}
