package lock_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestAHoldOnAKeeperEndsWithItsConnection stops a Keeper in the normal way: it closes the sessions
// of its clients and exits. The holder trusts its session without a connection, and no other server
// can tell it that the session is over.
func TestAHoldOnAKeeperEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory(), zktest.LikeKeeper("recent"))
		leader, err := cluster.WaitLeader(t.Context())
		require.NoError(t, err)
		var followers []*zktest.Server
		for _, member := range cluster.Members() {
			if member != leader {
				followers = append(followers, member)
			}
		}
		client := func(server *zktest.Server) *framework.Client {
			c, err := framework.New(server.Servers(), framework.WithDialer(cluster.DialContext), framework.WithSessionTimeout(10*time.Second),
				framework.WithErrorPolicy(connstate.LostEndsHold), framework.WithRetryPolicy(retry.NTimes(3, time.Second)))
			require.NoError(t, err)
			t.Cleanup(func() { c.Close() })
			return c
		}
		holder, waiter := client(followers[0]), client(followers[1])
		hold := acquire(t, newQueue(t, holder, "/lock"))
		session, err := holder.Session(t.Context())
		require.NoError(t, err)
		next := acquiring(t, testbed.Context(t), newQueue(t, waiter, "/lock"), leader, 2)

		require.NoError(t, cluster.ExpireSession(session.ID()))
		followers[0].Stop()
		got := testbed.Receive(t, next, "the lock")
		require.NoError(t, got.err)
		synctest.Wait()
		require.ErrorIs(t, hold.Err(), framework.ErrSessionLost, "two holders")
		require.ErrorIs(t, session.Err(), framework.ErrSessionLost)
		require.NoError(t, got.hold.Release())
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
			_, err := try(testbed.Context(t))
			require.ErrorIs(t, err, lock.ErrSequenceExhausted)
			require.NoError(t, w.Server.Delete("/lock/x-lock-2147483648"))
		}
		_, err := q.Acquire(testbed.Context(t))
		require.ErrorIs(t, err, lock.ErrSequenceExhausted)
		hold := acquire(t, q)
		require.True(t, strings.HasSuffix(hold.Path(), "-lock-0000000000"), "the path was empty, and was made anew: %s", hold.Path())
		require.NoError(t, hold.Release())
	}, zktest.LikeKeeper("new"))
}
