package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/internal/queue"
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
