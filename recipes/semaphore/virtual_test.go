package semaphore_test

import (
	"context"
	"fmt"
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
	for _, pauses := range []bool{false, true} {
		testbed.RunWorld(t, fmt.Sprint("pauses ", pauses), func(t *testing.T, w *testbed.World) {
			hold := acquire(t, fixedOn(w.Client(), "/pool", 1))
			client := w.Client(framework.WithRetryPolicy(retry.Forever(time.Hour)))
			session := testbed.Session(t, client)
			waiter := start(t, t.Context(), fixedOn(client, "/pool", 1), 1, 1)
			synctest.Wait()
			if pauses {
				require.NoError(t, w.Server.ExpireSession(session.ID()))
				testbed.Receive(t, session.Done(), "the end of the session")
				synctest.Wait()
			}
			began := time.Now()
			require.NoError(t, client.Close())
			require.ErrorIs(t, testbed.Receive(t, waiter, "the end").err, framework.ErrClosed)
			require.Less(t, time.Since(began), time.Minute)
			release(t, hold)
		})
	}
}

// TestWaiterDoesNotHurryABusyServer that refuses to read the count, also if the client is not to
// repeat any request.
func TestWaiterDoesNotHurryABusyServer(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		counted := func(policy retry.Policy) (*semaphore.Semaphore, *shared.Value[int32]) {
			return sharedOn(t, w.Client(framework.WithRetryPolicy(policy)), "/pool", "/max", 1)
		}
		other, count := counted(retry.NTimes(1, time.Second))
		hold := acquire(t, other)
		s, _ := counted(retry.Never())
		waiter := start(t, t.Context(), s, 1, 1)
		synctest.Wait()
		idle := testbed.Busy(w.Server)
		before := w.Server.Requests().Requests["getData"]
		require.NoError(t, count.Set(t.Context(), 2))
		time.Sleep(time.Second) // virtual time: the test counts the requests of a second
		require.LessOrEqual(t, w.Server.Requests().Requests["getData"]-before, 100, "by the waiter, and by the holder")
		idle()
		release(t, granted(t, waiter), hold)
	})
}

// TestManyLeasesAreGivenUpAsSoonAsOne has a caller with many leases give up, while its servers do
// not answer.
func TestManyLeasesAreGivenUpAsSoonAsOne(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		const max = 31
		client := w.Client(framework.WithSessionTimeout(40 * time.Second))
		hold := acquire(t, fixedOn(w.Client(), "/pool", max))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waiter := start(t, ctx, fixedOn(client, "/pool", max), max, 1) // it has all leases but one
		synctest.Wait()
		w.Server.Freeze(testbed.Session(t, client).ID())
		began := time.Now()
		cancel()
		require.ErrorIs(t, testbed.Receive(t, waiter, "the end").err, context.Canceled)
		require.LessOrEqual(t, time.Since(began), 3*time.Second, "one each for the leases, for the one that it waits for, and for the place in the queue")
		w.Server.Thaw()
		release(t, hold)
		empty(t, client, "/pool")
	})
}

// TestAcquireN_WaitsForTheSharedMaximum has a maximum that is too low, or unset, for a while. The
// log and the error of a caller that gives up name it.
func TestAcquireN_WaitsForTheSharedMaximum(t *testing.T) {
	for low, reason := range map[int32]string{-1: "the maximum at /max is not set", 0: "the maximum at /max is 0", 2: "the maximum at /max is 2"} {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			var log testbed.Output
			client := w.Client(framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			count := testbed.Must(shared.Int32(client, "/max"))
			if low >= 0 {
				require.NoError(t, count.Set(t.Context(), low))
			}
			s := testbed.Must(semaphore.NewShared(client, "/pool", "/max"))

			_, err := s.AcquireN(testbed.Timeout(t, time.Minute), 3)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			require.ErrorContains(t, err, reason)
			testbed.OneOp(t, err, "acquire", "/pool")
			require.Equal(t, 1, strings.Count(log.String(), reason), log.String())

			waiter := start(t, t.Context(), s, 3, 1)
			time.Sleep(time.Minute) // virtual time
			undecided(t, waiter)
			require.NoError(t, count.Set(t.Context(), 3))
			release(t, granted(t, waiter))
			empty(t, client, "/pool")
		})
	}
}

// TestWhyWaitingWasUselessIsReturned, and not that a context was cancelled that is the semaphore's
// own. The time of the caller is over while leases are given back.
func TestWhyWaitingWasUselessIsReturned(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		s, _ := sharedOn(t, client, "/pool", "/max", 3)
		other, count := sharedOn(t, w.Client(), "/pool", "/max", 3)
		hold := acquire(t, other)
		session := testbed.Session(t, client)
		waiter := start(t, testbed.Timeout(t, 5*time.Second), s, 3, 1)
		// Virtual time: the caller's context ends during the release, which takes a second.
		time.Sleep(4800 * time.Millisecond)
		defer w.Server.Block(zktest.OnOp("delete"), zktest.OnSession(session.ID())).Open()
		require.NoError(t, count.Set(t.Context(), -1))
		err := testbed.Receive(t, waiter, "the end").err
		require.ErrorIs(t, err, shared.ErrBadValue)
		require.NotErrorIs(t, err, context.Canceled)
		release(t, hold)
	})
}

// TestWhoLosesALeaseWhileItWaitsForTheNextKeepsItsPlace has a connection be lost for a moment. With
// the policy Standard that ends a lease, but not the session.
func TestWhoLosesALeaseWhileItWaitsForTheNextKeepsItsPlace(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		of := func(policy connstate.ErrorPolicy) *semaphore.Semaphore {
			return fixedOn(w.Client(framework.WithErrorPolicy(policy)), "/pool", 2)
		}
		holder, first, second := of(connstate.LostEndsHold), of(connstate.SuspendedEndsHold), of(connstate.LostEndsHold)
		hold := acquire(t, holder)
		both := start(t, t.Context(), first, 2, 1) // it has one
		next := start(t, t.Context(), second, 1, 2)
		synctest.Wait()
		w.Server.CutConnections()
		time.Sleep(time.Second) // virtual time, in which they reconnect, and no waiter may acquire
		undecided(t, both)
		undecided(t, next)
		release(t, hold)
		group := granted(t, both)
		time.Sleep(time.Second) // virtual time, in which no waiter may acquire
		undecided(t, next)
		release(t, group)
		release(t, granted(t, next))
	})
}

// TestPauseWithoutAServerSaysSo has the session of a waiter expire without a server. Its context
// ends in the pause before it queues again, so it is unknown whether a lease is free.
func TestPauseWithoutAServerSaysSo(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		policy := framework.WithRetryPolicy(retry.NTimes(3, time.Minute))
		s := fixedOn(w.Client(framework.WithSessionTimeout(4*time.Second), policy), "/semaphore", 1)
		acquire(t, s) // it ends with its session, too
		time.AfterFunc(time.Second, w.Server.Stop)
		_, err := s.Acquire(testbed.Timeout(t, 20*time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrNoServer)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
	})
}

// TestWorkStopsWithTheEnsembleAndGoesOnWithAQuorum stops all servers, and restarts two of three.
func TestWorkStopsWithTheEnsembleAndGoesOnWithAQuorum(t *testing.T) { // CUR-SEM-09
	testbed.Bubble(t, func(t *testing.T) {
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
			s := fixedOn(bed.Client(t, framework.WithDialer(cluster.DialContext)), "/pool", 1)
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
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client(framework.WithErrorPolicy(connstate.LostEndsHold))
		group := testbed.Must(fixedOn(client, "/pool", 2).AcquireN(t.Context(), 2))
		w.Server.Freeze(group.Holds()[0].Session().ID())
		testbed.Receive(t, group.Done(), "word of the loss")
		testbed.Session(t, client) // the next session
		leases := func() int {
			time.Sleep(100 * time.Millisecond) // virtual time, for requests that are under way
			return len(testbed.ServerChildren(t, w.Server, "/pool/leases"))
		}
		require.Equal(t, 2, leases(), "the holder's work may still run")
		require.ErrorIs(t, group.Release(), framework.ErrSessionLost)
		require.Zero(t, leases())
		require.Len(t, w.Server.Sessions(), 2, "the servers have not ended the first yet")
	})
}

// TestGivingUp_BetweenTheQueueAndTheLeases has a waiter give up at each moment around its turn in
// the queue: others were ahead of it until then.
func TestGivingUp_BetweenTheQueueAndTheLeases(t *testing.T) {
	for patience := 3 * time.Second; patience < 6*time.Second; patience += 50 * time.Millisecond {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			first := acquire(t, fixedOn(w.Client(), "/pool", 1))
			second := start(t, t.Context(), fixedOn(w.Client(), "/pool", 1), 1, 1)
			third := fixedOn(w.Client(), "/pool", 1)
			time.Sleep(2 * time.Second) // virtual time
			time.AfterFunc(4*time.Second, func() { _ = first.Release() })
			_, err := third.Acquire(testbed.Timeout(t, patience))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, lock.ErrNotAcquired, "given up after %v", patience)
			release(t, granted(t, second))
		}, zktest.WithLatency(200*time.Millisecond))
	}
}
