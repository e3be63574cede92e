package semaphore_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/zktest"
)

// TestCountOfAnotherClientIsNotBehind has the count be read by another client than the leases, at a server that is behind.
func TestCountOfAnotherClientIsNotBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		leader, err := cluster.WaitLeader(t.Context())
		require.NoError(t, err)
		follower := cluster.Members()[slices.IndexFunc(cluster.Members(), func(m *zktest.Server) bool { return m != leader })]
		bed := testbed.OnCluster(cluster)
		client, other := bed.Client(t, framework.WithDialer(leader.DialContext)), bed.Client(t, framework.WithDialer(follower.DialContext))
		near, err := semaphore.NewCount(client, "/max", 2)
		require.NoError(t, err)
		far, err := semaphore.NewCount(other, "/max", 2)
		require.NoError(t, err)
		holders, err := semaphore.NewShared(client, "/pool", near)
		require.NoError(t, err)
		s, err := semaphore.NewShared(client, "/pool", far)
		require.NoError(t, err)
		one, two := acquire(t, holders), acquire(t, holders)
		waiter := start(t, t.Context(), s, 1, 1)
		time.Sleep(5 * time.Second) // virtual time: it waits for a lease
		require.NoError(t, cluster.Lag(follower, time.Second))
		require.NoError(t, near.Set(t.Context(), 1))
		release(t, one)
		time.Sleep(500 * time.Millisecond) // virtual time, less than the server is behind, in which nobody may acquire
		synctest.Wait()
		undecided(t, waiter)
		release(t, two)
		got := testbed.Receive(t, waiter, "the lease")
		require.NoError(t, got.err)
		release(t, got.group)
	})
}
