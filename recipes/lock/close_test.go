package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestCloseEndsAPauseBetweenTries has a waiter lose its node, and its client be closed before it queues again.
func TestCloseEndsAPauseBetweenTries(t *testing.T) {
	virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		other, err := lock.New(client(), "/lock", "lock-", nil)
		require.NoError(t, err)
		hold, err := other.Acquire(t.Context())
		require.NoError(t, err)
		c := client(framework.WithRetryPolicy(retry.Forever(time.Hour)))
		q, err := lock.New(c, "/lock", "lock-", nil)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() {
			_, err := q.Acquire(t.Context())
			done <- err
		}()
		session, err := c.Session(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, server.ExpireSession(session.ID()))
		testbed.Receive(t, session.Done(), "the end of the session")
		synctest.Wait() // it pauses
		began := time.Now()
		require.NoError(t, c.Close())
		require.ErrorIs(t, testbed.Receive(t, done, "the end"), lock.ErrClosed)
		require.Less(t, time.Since(began), time.Minute)
		require.NoError(t, hold.Release())
	})
}
