package docs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
)

// TestRollingRestart is the table of OPERATING.md: the followers of an ensemble are restarted, and
// then the leader.
func TestRollingRestart(t *testing.T) {
	testbed.RunVirtual(t, "of three servers", func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		ctx := testbed.Context(t)
		leader, followers := testbed.Leader(t, cluster)
		holder, waiter := testbed.ClientOf(t, cluster), testbed.ClientOf(t, cluster)
		ended := 0
		lasting := testbed.Must(mutex.New(holder, "/lasting", lock.WithErrorPolicy(connstate.LostEndsHold)))
		last := testbed.Must(lasting.Acquire(ctx))
		for _, member := range append(followers, leader) {
			m := testbed.Must(mutex.New(holder, "/default"))
			hold := testbed.Must(m.Acquire(ctx))
			on := testbed.Must(cluster.MemberOf(hold.Session().ID()))

			member.Stop()
			if on == member || member == leader {
				ended++
				testbed.Receive(t, hold.Done(), "the loss")
				require.ErrorIs(t, hold.Err(), framework.ErrSuspended)
			}
			require.NoError(t, member.Restart())
			visitor := testbed.NewClient(t, member.Servers(), framework.WithDialer(cluster.DialContext))
			require.NoError(t, visitor.WaitConnected(ctx), "it serves again")
			require.NoError(t, holder.WaitConnected(ctx))
			if on != member && member != leader {
				require.NoError(t, hold.Err())
			}
			require.NoError(t, last.Err())
			for _, path := range []string{"/default", "/lasting"} {
				other := testbed.Must(mutex.New(waiter, path))
				_, err := other.TryAcquire(ctx)
				require.ErrorIs(t, err, lock.ErrNotAcquired, "the node is deleted by Release")
			}
			require.NoError(t, hold.Release())
		}
		require.Positive(t, ended)
		require.NoError(t, last.Release())
	})
}
