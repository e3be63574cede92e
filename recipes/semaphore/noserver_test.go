package semaphore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestPauseWithoutAServerSaysSo has the session of a waiter end while there is no server. The time is over in the pause before it
// queues again. Nobody knows then whether a lease is free.
func TestPauseWithoutAServerSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client, err := framework.New(server.Servers(), framework.WithDialer(server.DialContext),
			framework.WithSessionTimeout(4*time.Second), framework.WithRetryPolicy(retry.NTimes(3, time.Minute)))
		require.NoError(t, err)
		defer client.Close()
		s, err := semaphore.New(client, "/semaphore", 1)
		require.NoError(t, err)
		_, err = s.Acquire(t.Context()) // it ends with its session, too
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		time.AfterFunc(time.Second, server.Stop)
		_, err = s.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrNoServer)
		require.NotErrorIs(t, err, semaphore.ErrNotAcquired)
	})
}
