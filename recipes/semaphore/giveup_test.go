package semaphore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/zktest"
)

// TestManyLeasesAreGivenUpAsSoonAsOne has a caller with many leases give up, while its servers do not answer.
func TestManyLeasesAreGivenUpAsSoonAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const max = 31
		server := zktest.NewServer(t, zktest.WithInMemory())
		bed := testbed.On(server)
		dial := framework.WithDialer(server.DialContext)
		client := bed.Client(t, dial, framework.WithSessionTimeout(40*time.Second))
		s, err := semaphore.New(client, "/pool", max)
		require.NoError(t, err)
		other, err := semaphore.New(bed.Client(t, dial), "/pool", max)
		require.NoError(t, err)
		hold := acquire(t, other)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waiter := start(t, ctx, s, max, 1) // it has all leases but one
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		server.Freeze(session.ID())
		began := time.Now()
		cancel()
		got := testbed.Receive(t, waiter, "the end")
		require.ErrorIs(t, got.err, context.Canceled)
		require.LessOrEqual(t, time.Since(began), 3*time.Second, "one each for the leases, for the one that it waits for, and for the place in the queue")
		server.Thaw()
		release(t, hold)
		empty(t, client, "/pool")
	})
}

// TestWhyWaitingWasUselessIsTold, and not that a context was cancelled that is the semaphore's own. The time of the caller is over
// while leases are given back.
func TestWhyWaitingWasUselessIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		bed := testbed.On(server)
		dial := framework.WithDialer(server.DialContext)
		shared := func() (*semaphore.Semaphore, *semaphore.Count, *framework.Client) {
			client := bed.Client(t, dial)
			count, err := semaphore.NewCount(client, "/max", 3)
			require.NoError(t, err)
			s, err := semaphore.NewShared(client, "/pool", count)
			require.NoError(t, err)
			return s, count, client
		}
		s, _, client := shared()
		other, count, _ := shared()
		hold := acquire(t, other)
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		waiter := start(t, ctx, s, 3, 1)
		time.Sleep(4800 * time.Millisecond) // virtual time: the caller's is over while it gives back, which takes a second
		defer server.Block(zktest.OnOp(zktest.OpDelete), zktest.OnSession(session.ID())).Open()
		require.NoError(t, count.Set(t.Context(), 2))
		got := testbed.Receive(t, waiter, "the end")
		require.ErrorIs(t, got.err, semaphore.ErrTooMany)
		require.NotErrorIs(t, got.err, context.Canceled)
		release(t, hold)
	})
}

// TestWhoLosesALeaseWhileItWaitsForTheNextKeepsItsPlace has a connection be lost for a moment. With the policy Standard that
// ends a lease, but not the session.
func TestWhoLosesALeaseWhileItWaitsForTheNextKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		bed := testbed.On(server)
		of := func(policy connstate.ErrorPolicy) *semaphore.Semaphore {
			client := bed.Client(t, framework.WithDialer(server.DialContext), framework.WithErrorPolicy(policy))
			s, err := semaphore.New(client, "/pool", 2)
			require.NoError(t, err)
			return s
		}
		holder, first, second := of(connstate.Session), of(connstate.Standard), of(connstate.Session)
		hold := acquire(t, holder)
		both := start(t, t.Context(), first, 2, 1) // it has one
		next := start(t, t.Context(), second, 1, 2)
		synctest.Wait()
		server.CutConnections()
		time.Sleep(time.Second) // virtual time, in which they connect again, and nobody may acquire
		undecided(t, both)
		undecided(t, next)
		release(t, hold)
		got := testbed.Receive(t, both, "both leases")
		require.NoError(t, got.err)
		time.Sleep(time.Second) // virtual time, in which nobody may acquire
		undecided(t, next)
		release(t, got.group)
		got = testbed.Receive(t, next, "a lease")
		require.NoError(t, got.err)
		release(t, got.group)
	})
}
