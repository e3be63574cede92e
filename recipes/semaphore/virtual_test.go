package semaphore_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestCloseEndsAWaitAtOnce has a client be closed that pauses for an hour between tries: while it
// waits, or in such a pause.
func TestCloseEndsAWaitAtOnce(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, server *zktest.Server, session *framework.Session){
		"waits": func(*testing.T, *zktest.Server, *framework.Session) {},
		"pauses": func(t *testing.T, server *zktest.Server, session *framework.Session) {
			require.NoError(t, server.ExpireSession(session.ID()))
			testbed.Receive(t, session.Done(), "the end of the session")
		},
	} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			server := zktest.NewServer(t, zktest.WithInMemory())
			bed := testbed.On(server)
			dial := framework.WithDialer(server.DialContext)
			other, err := semaphore.New(bed.Client(t, dial), "/pool", 1)
			require.NoError(t, err)
			hold := acquire(t, other)
			client := bed.Client(t, dial, framework.WithRetryPolicy(retry.Forever(time.Hour)))
			s, err := semaphore.New(client, "/pool", 1)
			require.NoError(t, err)
			session := testbed.Session(t, client)
			waiter := start(t, t.Context(), s, 1, 1)
			synctest.Wait()
			before(t, server, session)
			synctest.Wait()
			began := time.Now()
			require.NoError(t, client.Close())
			got := testbed.Receive(t, waiter, "the end")
			require.ErrorIs(t, got.err, framework.ErrClosed)
			require.Less(t, time.Since(began), time.Minute)
			release(t, hold)
		})
	}
}

// TestWaiterDoesNotHurryABusyServer that refuses to read the count, also if the client is not to
// repeat any request.
func TestWaiterDoesNotHurryABusyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		bed := testbed.On(server)
		counted := func(policy retry.Policy) (*semaphore.Semaphore, *shared.Value[int32]) {
			client := bed.Client(t, framework.WithDialer(server.DialContext), framework.WithRetryPolicy(policy))
			return sharedOn(t, client, "/pool", "/max", 1)
		}
		other, count := counted(retry.NTimes(1, time.Second))
		hold := acquire(t, other)
		s, _ := counted(retry.Never())
		waiter := start(t, t.Context(), s, 1, 1)
		synctest.Wait()
		idle := testbed.Busy(server)
		before := server.Requests().Requests["getData"]
		require.NoError(t, count.Set(t.Context(), 2))
		time.Sleep(time.Second) // virtual time: the test counts the requests of a second
		require.LessOrEqual(t, server.Requests().Requests["getData"]-before, 100, "by the waiter, and by the holder")
		idle()
		got := testbed.Receive(t, waiter, "a lease")
		require.NoError(t, got.err)
		release(t, got.group)
		release(t, hold)
	})
}

// TestManyLeasesAreGivenUpAsSoonAsOne has a caller with many leases give up, while its servers do
// not answer.
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
		session := testbed.Session(t, client)
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

// TestAcquireN_WaitsForTheSharedMaximum has a maximum that is too low, or unset, for a while. The
// log and the error of a caller that gives up name it.
func TestAcquireN_WaitsForTheSharedMaximum(t *testing.T) {
	for low, reason := range map[int32]string{-1: "the maximum at /max is not set", 0: "the maximum at /max is 0", 2: "the maximum at /max is 2"} {
		synctest.Test(t, func(t *testing.T) {
			server := zktest.NewServer(t, zktest.WithInMemory())
			var log testbed.Output
			client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext),
				framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			count, err := shared.Int32(client, "/max")
			require.NoError(t, err)
			if low >= 0 {
				require.NoError(t, count.Set(t.Context(), low))
			}
			s, err := semaphore.NewShared(client, "/pool", "/max")
			require.NoError(t, err)

			ctx := testbed.Timeout(t, time.Minute)
			_, err = s.AcquireN(ctx, 3)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			require.ErrorContains(t, err, reason)
			testbed.OneOp(t, err, "acquire", "/pool")
			require.Equal(t, 1, strings.Count(log.String(), reason), log.String())

			waiter := start(t, t.Context(), s, 3, 1)
			time.Sleep(time.Minute) // virtual time
			undecided(t, waiter)
			require.NoError(t, count.Set(t.Context(), 3))
			got := testbed.Receive(t, waiter, "the leases")
			require.NoError(t, got.err)
			release(t, got.group)
			empty(t, client, "/pool")
		})
	}
}

// TestWhyWaitingWasUselessIsReturned, and not that a context was cancelled that is the semaphore's
// own. The time of the caller is over while leases are given back.
func TestWhyWaitingWasUselessIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		bed := testbed.On(server)
		dial := framework.WithDialer(server.DialContext)
		client := bed.Client(t, dial)
		s, _ := sharedOn(t, client, "/pool", "/max", 3)
		other, count := sharedOn(t, bed.Client(t, dial), "/pool", "/max", 3)
		hold := acquire(t, other)
		session := testbed.Session(t, client)
		ctx := testbed.Timeout(t, 5*time.Second)
		waiter := start(t, ctx, s, 3, 1)
		// Virtual time: the caller's context ends during the release, which takes a second.
		time.Sleep(4800 * time.Millisecond)
		defer server.Block(zktest.OnOp("delete"), zktest.OnSession(session.ID())).Open()
		require.NoError(t, count.Set(t.Context(), -1))
		got := testbed.Receive(t, waiter, "the end")
		require.ErrorIs(t, got.err, shared.ErrBadValue)
		require.NotErrorIs(t, got.err, context.Canceled)
		release(t, hold)
	})
}

// TestWhoLosesALeaseWhileItWaitsForTheNextKeepsItsPlace has a connection be lost for a moment. With
// the policy Standard that ends a lease, but not the session.
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
		holder, first, second := of(connstate.LostEndsHold), of(connstate.SuspendedEndsHold), of(connstate.LostEndsHold)
		hold := acquire(t, holder)
		both := start(t, t.Context(), first, 2, 1) // it has one
		next := start(t, t.Context(), second, 1, 2)
		synctest.Wait()
		server.CutConnections()
		time.Sleep(time.Second) // virtual time, in which they reconnect, and no waiter may acquire
		undecided(t, both)
		undecided(t, next)
		release(t, hold)
		got := testbed.Receive(t, both, "both leases")
		require.NoError(t, got.err)
		time.Sleep(time.Second) // virtual time, in which no waiter may acquire
		undecided(t, next)
		release(t, got.group)
		got = testbed.Receive(t, next, "a lease")
		require.NoError(t, got.err)
		release(t, got.group)
	})
}

// TestPauseWithoutAServerSaysSo has the session of a waiter expire without a server. Its context
// ends in the pause before it queues again, so it is unknown whether a lease is free.
func TestPauseWithoutAServerSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client := testbed.ClientOf(t, server,
			framework.WithSessionTimeout(4*time.Second), framework.WithRetryPolicy(retry.NTimes(3, time.Minute)))
		s, err := semaphore.New(client, "/semaphore", 1)
		require.NoError(t, err)
		_, err = s.Acquire(t.Context()) // it ends with its session, too
		require.NoError(t, err)
		ctx := testbed.Timeout(t, 20*time.Second)
		time.AfterFunc(time.Second, server.Stop)
		_, err = s.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrNoServer)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
	})
}

// TestWorkStopsWithTheEnsembleAndGoesOnWithAQuorum stops all servers, and restarts two of three.
func TestWorkStopsWithTheEnsembleAndGoesOnWithAQuorum(t *testing.T) { // CUR-SEM-09
	synctest.Test(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		bed := testbed.OnCluster(cluster)
		var inside, work atomic.Int64
		var workers sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		defer workers.Wait()
		defer cancel()
		worker := func(s *semaphore.Semaphore) {
			hold, err := s.Acquire(ctx)
			if err != nil {
				time.Sleep(time.Second) // virtual time between two tries
				return
			}
			assert.EqualValues(t, 1, inside.Add(1), "two work")
			for range 5 {
				select {
				case <-hold.Done():
				case <-time.After(100 * time.Millisecond):
					work.Add(1)
				}
			}
			inside.Add(-1)
			_ = hold.Release() // in an outage it is lost
		}
		for range 6 {
			client := bed.Client(t, framework.WithDialer(cluster.DialContext))
			s, err := semaphore.New(client, "/pool", 1)
			require.NoError(t, err)
			workers.Go(func() {
				for ctx.Err() == nil {
					worker(s)
				}
			})
		}
		observer := bed.Client(t, framework.WithDialer(cluster.DialContext))
		lost := make(chan connstate.State, 10)
		testbed.Listen(t, observer, func(s connstate.State) {
			if s == connstate.Lost {
				lost <- s
			}
		})
		time.Sleep(time.Minute) // virtual time, in which they work
		require.Greater(t, work.Load(), int64(100))

		for _, member := range cluster.Members() {
			member.Stop()
		}
		<-lost
		synctest.Wait()
		during := work.Load()
		time.Sleep(time.Minute) // virtual time, in which no holder may work
		require.Equal(t, during, work.Load())
		for _, member := range cluster.Members()[:2] {
			require.NoError(t, member.Restart())
		}
		time.Sleep(time.Minute) // virtual time, in which they work again
		require.Greater(t, work.Load(), during+100)
	})
}

// TestNodesOfALostSessionStayUntilRelease has a client give up its session and open another one
// before the servers expire the first.
func TestNodesOfALostSessionStayUntilRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext), framework.WithErrorPolicy(connstate.LostEndsHold))
		s, err := semaphore.New(client, "/pool", 2)
		require.NoError(t, err)
		group, err := s.AcquireN(t.Context(), 2)
		require.NoError(t, err)
		server.Freeze(group.Holds()[0].Session().ID())
		testbed.Receive(t, group.Done(), "word of the loss")
		testbed.Session(t, client) // the next session
		leases := func() int {
			time.Sleep(100 * time.Millisecond) // virtual time, for requests that are under way
			names := testbed.ServerChildren(t, server, "/pool/leases")
			return len(names)
		}
		require.Equal(t, 2, leases(), "the holder's work may still run")
		require.ErrorIs(t, group.Release(), framework.ErrSessionLost)
		require.Zero(t, leases())
		require.Len(t, server.Sessions(), 2, "the servers have not ended the first yet")
	})
}

// TestGivingUp_BetweenTheQueueAndTheLeases has a waiter give up at each moment around its turn in
// the queue: others were ahead of it until then.
func TestGivingUp_BetweenTheQueueAndTheLeases(t *testing.T) {
	for patience := 3 * time.Second; patience < 6*time.Second; patience += 50 * time.Millisecond {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			var pools []*semaphore.Semaphore
			for range 3 {
				s, err := semaphore.New(w.Client(), "/pool", 1)
				require.NoError(t, err)
				pools = append(pools, s)
			}
			first := acquire(t, pools[0])
			second := start(t, t.Context(), pools[1], 1, 1)
			time.Sleep(2 * time.Second) // virtual time
			time.AfterFunc(4*time.Second, func() { _ = first.Release() })
			ctx := testbed.Timeout(t, patience)
			_, err := pools[2].Acquire(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, lock.ErrNotAcquired, "given up after %v", patience)
			got := testbed.Receive(t, second, "the lease")
			require.NoError(t, got.err)
			require.NoError(t, got.group.Release())
		}, zktest.WithLatency(200*time.Millisecond))
	}
}
