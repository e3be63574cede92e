package lock_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// TestAHoldOnAKeeperEndsWithItsConnection stops a Keeper in the normal way: it closes the sessions
// of its clients and exits. The holder trusts its session without a connection, and no other server
// can tell it that the session is over.
func TestAHoldOnAKeeperEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory(), zktest.LikeKeeper("recent"))
		leader, followers := testbed.Leader(t, cluster)
		queue := func(server *zktest.Server) *lock.Queue {
			client := patientClient(t, 10*time.Second, server.Servers(), framework.WithDialer(cluster.DialContext))
			return newQueue(t, client, "/lock")
		}
		hold := acquire(t, queue(followers[0]))
		session := hold.Session()
		next := acquiring(t, testbed.Context(t), queue(followers[1]), leader, 2)

		require.NoError(t, cluster.ExpireSession(session.ID()))
		followers[0].Stop()
		got := received(t, next)
		synctest.Wait()
		require.ErrorIs(t, hold.Err(), framework.ErrSessionLost, "two holders")
		require.ErrorIs(t, session.Err(), framework.ErrSessionLost)
		require.NoError(t, got.Release())
	})
}

// TestANumberAboveAllIsRefused: new Keepers count on where ZooKeeper's numbers become negative.
func TestANumberAboveAllIsRefused(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := newQueue(t, w.Client(), "/lock")
		require.NoError(t, acquire(t, q).Release())
		require.NoError(t, w.Server.SetSequence("/lock", math.MinInt32)) // 2^31
		for _, try := range []func(context.Context) (*lock.Hold, error){q.Acquire, q.TryAcquire} {
			require.NoError(t, w.Server.Create("/lock/x-lock-2147483648", nil))
			require.ErrorIs(t, testbed.Err(try(testbed.Context(t))), lock.ErrSequenceExhausted)
			require.NoError(t, w.Server.Delete("/lock/x-lock-2147483648"))
		}
		require.ErrorIs(t, testbed.Err(q.Acquire(testbed.Context(t))), lock.ErrSequenceExhausted)
		hold := acquire(t, q)
		require.True(t, strings.HasSuffix(hold.Path(), "-lock-0000000000"), "the path was empty, and was made anew: %s", hold.Path())
		require.NoError(t, hold.Release())
	}, zktest.LikeKeeper("new"))
}
