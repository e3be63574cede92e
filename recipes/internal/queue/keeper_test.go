package queue_test

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
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/internal/queue"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestAHoldOnAKeeperEndsWithItsConnection has a Keeper be stopped in the normal way: it ends the sessions of its clients, and is gone.
// The holder trusts its session without a connection, and reaches no other server that could say that the session is over.
func TestAHoldOnAKeeperEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory(), zktest.LikeKeeper(zktest.KeeperRecent))
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
				framework.WithErrorPolicy(connstate.Session), framework.WithRetryPolicy(retry.NTimes(3, time.Second)))
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
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		q := newQueue(t, client(), "/lock")
		require.NoError(t, acquire(t, q).Release())
		require.NoError(t, server.SetSequence("/lock", math.MinInt32)) // 2^31
		for _, try := range []func(context.Context) (*queue.Hold, error){q.Acquire, q.TryAcquire} {
			require.NoError(t, server.Create("/lock/x-lock-2147483648", nil))
			_, err := try(testbed.Context(t))
			require.ErrorIs(t, err, queue.ErrSequenceExhausted)
			require.NoError(t, server.Delete("/lock/x-lock-2147483648"))
		}
		_, err := q.Acquire(testbed.Context(t))
		require.ErrorIs(t, err, queue.ErrSequenceExhausted)
		hold := acquire(t, q)
		require.True(t, strings.HasSuffix(hold.Path(), "-lock-0000000000"), "the path was empty, and was made anew: %s", hold.Path())
		require.NoError(t, hold.Release())
	}, zktest.LikeKeeper(zktest.KeeperNew))
}
