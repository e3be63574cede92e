package semaphore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestCloseEndsAWaitAtOnce has a client be closed that pauses for an hour between tries: while it waits, or in such a pause.
func TestCloseEndsAWaitAtOnce(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, server *zktest.Server, session *framework.Session){
		"waits": func(*testing.T, *zktest.Server, *framework.Session) {},
		"pauses": func(t *testing.T, server *zktest.Server, session *framework.Session) {
			require.NoError(t, server.ExpireSession(session.ID()))
			testbed.Receive(t, session.Done(), "the end of the session")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zktest.WithInMemory())
				bed := testbed.On(server)
				dial := framework.WithDialer(server.DialContext)
				other, err := semaphore.New(bed.Client(t, dial), "/pool", 1)
				require.NoError(t, err)
				hold := acquire(t, other)
				client := bed.Client(t, dial, framework.WithRetryPolicy(retry.Forever(time.Hour)))
				s, err := semaphore.New(client, "/pool", 1)
				require.NoError(t, err)
				session, err := client.Session(t.Context())
				require.NoError(t, err)
				waiter := start(t, t.Context(), s, 1, 1)
				synctest.Wait()
				before(t, server, session)
				synctest.Wait()
				began := time.Now()
				require.NoError(t, client.Close())
				got := testbed.Receive(t, waiter, "the end")
				require.ErrorIs(t, got.err, lock.ErrClosed)
				require.Less(t, time.Since(began), time.Minute)
				release(t, hold)
			})
		})
	}
}

// TestWaiterDoesNotHurryABusyServer that refuses to read the count, also if the client is not to repeat any request.
func TestWaiterDoesNotHurryABusyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		bed := testbed.On(server)
		shared := func(policy retry.Policy) (*semaphore.Semaphore, *semaphore.Count) {
			client := bed.Client(t, framework.WithDialer(server.DialContext), framework.WithRetryPolicy(policy))
			count, err := semaphore.NewCount(client, "/max", 1)
			require.NoError(t, err)
			s, err := semaphore.NewShared(client, "/pool", count)
			require.NoError(t, err)
			return s, count
		}
		other, count := shared(retry.OneTime(time.Second))
		hold := acquire(t, other)
		s, _ := shared(retry.Never())
		waiter := start(t, t.Context(), s, 1, 1)
		synctest.Wait()
		idle := testbed.Busy(server)
		before := server.Requests().Requests[zktest.OpGetData]
		require.NoError(t, count.Set(t.Context(), 2))
		time.Sleep(time.Second) // virtual time: what is counted is the requests of a second
		require.LessOrEqual(t, server.Requests().Requests[zktest.OpGetData]-before, 100, "by the waiter, and by the holder")
		idle()
		got := testbed.Receive(t, waiter, "a lease")
		require.NoError(t, got.err)
		release(t, got.group)
		release(t, hold)
	})
}

// TestAServerThatRefusesCredentialsEndsNoWait has it refuse those of the client that reads the count, for a while.
func TestAServerThatRefusesCredentialsEndsNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		bed := testbed.On(server)
		dial := framework.WithDialer(server.DialContext)
		client := bed.Client(t, dial, framework.WithErrorPolicy(connstate.Session))
		refuses := testbed.RefuseCredentials(server)
		counting := bed.Client(t, dial, framework.WithAuth("digest", []byte("user:password")))
		count, err := semaphore.NewCount(counting, "/max", 1)
		require.NoError(t, err)
		s, err := semaphore.NewShared(client, "/pool", count)
		require.NoError(t, err)
		hold := acquire(t, s)
		waiter := start(t, t.Context(), s, 1, 1)
		synctest.Wait()
		refuses.Store(true)
		server.CutConnections()
		time.Sleep(4 * time.Second) // virtual time: the refusal lasts that long
		undecided(t, waiter)
		refuses.Store(false)
		testbed.Eventually(t, func() bool { return counting.WaitConnected(t.Context()) == nil }, "the client of the count connects again")
		release(t, hold)
		got := testbed.Receive(t, waiter, "the lease")
		require.NoError(t, got.err)
		release(t, got.group)
	})
}
