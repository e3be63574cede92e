package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestTryAcquireAfterAReleaseElsewhere has a view that is behind: the release has returned, and the
// event is still under way.
func TestTryAcquireAfterAReleaseElsewhere(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q, other := newQueue(t, w.Client(), "/lock"), newQueue(t, w.Client(), "/lock")
		for range 2 { // so that there is a view
			require.NoError(t, acquire(t, q).Release())
		}
		require.True(t, q.Viewed())
		session := acquire(t, q)
		require.NoError(t, session.Release())
		held := acquire(t, other)
		refused(t, q)
		synctest.Wait() // the view has the holder's node
		w.Server.Freeze(session.Session().ID())
		require.NoError(t, held.Release())
		got := start(t.Context(), q.TryAcquire)
		synctest.Wait() // it has looked in its view
		w.Server.Thaw()
		require.NoError(t, received(t, got).Release())
	})
}

// In these tests no server can be reached, so it is unknown whether another client holds. An error
// "not free", or only the error of ctx, would be mistaken for a lock that is held.

func requireNoServer(t *testing.T, err error, what string) {
	t.Helper()
	assert.ErrorIs(t, err, zk.ErrNoServer, what)
	assert.ErrorIs(t, err, context.DeadlineExceeded, what)
	assert.NotErrorIs(t, err, lock.ErrNotAcquired, what)
}

// within calls f with a context that ends after d, on a goroutine.
func within(t *testing.T, d time.Duration, f func(context.Context) (*lock.Hold, error)) <-chan error {
	ctx := testbed.Timeout(t, d)
	got := testbed.Go(func() error { _, err := f(ctx); return err })
	synctest.Wait()
	return got
}

func TestWaitInMemoryWithoutAServerSaysSo(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		server := w.Server
		q := handingOff(t, testbed.ClientOf(t, server))
		server.Stop()
		synctest.Wait()
		first := within(t, 3*time.Second, q.Acquire) // has the turn to create a node
		second := within(t, 2*time.Second, q.Acquire)
		third := within(t, 3*time.Second, q.Acquire) // may get the turn when its time is over
		try := within(t, 2*time.Second, q.TryAcquire)
		requireNoServer(t, <-first, "the first")
		requireNoServer(t, <-second, "the second")
		requireNoServer(t, <-third, "the third")
		requireNoServer(t, <-try, "the try")

		require.NoError(t, server.Restart())
		hold := acquire(t, q)
		require.ErrorIs(t, <-within(t, time.Second, q.Acquire), lock.ErrNotAcquired)
		require.ErrorIs(t, <-within(t, time.Second, q.TryAcquire), lock.ErrNotAcquired)
		require.NoError(t, hold.Release())
	})
}

// TestPauseWithoutAServerSaysSo has the session of a waiter end while there is no server. The time
// is over in the pause before it queues again.
func TestPauseWithoutAServerSaysSo(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client(framework.WithSessionTimeout(4*time.Second), framework.WithRetryPolicy(retry.NTimes(3, time.Minute)))
		q := newQueue(t, client, "/lock")
		acquire(t, q) // it ends with its session, too
		waiting := within(t, 20*time.Second, q.Acquire)
		w.Server.Stop()
		requireNoServer(t, <-waiting, "the waiter")
	})
}

// TestAcquireInAnOutageEndsWithTheRetryPolicy: the README says after what time and with which
// error.
func TestAcquireInAnOutageEndsWithTheRetryPolicy(t *testing.T) {
	for name, queued := range map[string]bool{"begun in the outage": false, "waiting when it begins": true} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			q := newQueue(t, testbed.ClientOf(t, w.Server), "/lock")
			var timeout time.Duration
			var waiting <-chan result
			if queued {
				timeout = acquire(t, q).Session().Timeout() // the hold is lost in the outage
				waiting = start(t.Context(), q.Acquire)
				synctest.Wait()
			}
			w.Server.Stop()
			synctest.Wait()
			began := time.Now()
			if !queued {
				waiting = start(t.Context(), q.Acquire)
			}
			err := (<-waiting).err
			took := time.Since(began)
			require.ErrorIs(t, err, retry.ErrExhausted)
			require.ErrorIs(t, err, zk.ErrNoServer)
			require.NotErrorIs(t, err, lock.ErrNotAcquired)
			if queued {
				took -= timeout // until then its node may still be in the queue
			}
			// Six calls of 15 s, and five random pauses, which are less than 6 s together. The
			// session is lost a little before its timeout.
			require.InDelta(t, 93, took.Seconds(), 4)
		})
	}
}

// TestCloseEndsAPauseBetweenTries has a waiter lose its node, and its client be closed before it
// queues again.
func TestCloseEndsAPauseBetweenTries(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		hold := acquire(t, newQueue(t, w.Client(), "/lock"))
		c := w.Client(framework.WithRetryPolicy(retry.Forever(time.Hour)))
		done := start(t.Context(), newQueue(t, c, "/lock").Acquire)
		session := testbed.Session(t, c)
		synctest.Wait()
		require.NoError(t, w.Server.ExpireSession(session.ID()))
		testbed.Receive(t, session.Done(), "the end of the session")
		synctest.Wait() // it pauses
		began := time.Now()
		require.NoError(t, c.Close())
		require.ErrorIs(t, testbed.Receive(t, done, "the end").err, framework.ErrClosed)
		require.Less(t, time.Since(began), time.Minute)
		require.NoError(t, hold.Release())
	})
}

// TestGivingUp_WhileTheQueueIsListedSaysThatOthersAreAhead has a waiter give up at each moment
// around the release of the node before its predecessor, when it lists again.
func TestGivingUp_WhileTheQueueIsListedSaysThatOthersAreAhead(t *testing.T) {
	for patience := 3 * time.Second; patience < 6*time.Second; patience += 50 * time.Millisecond {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			a, b, c := newQueue(t, w.Client(), "/lock"), newQueue(t, w.Client(), "/lock"), newQueue(t, w.Client(), "/lock")
			first := acquire(t, a)
			second := acquiring(t, t.Context(), b, w.Server, 2)
			time.AfterFunc(4*time.Second, func() { _ = first.Release() })
			_, err := c.Acquire(testbed.Timeout(t, patience))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, lock.ErrNotAcquired, "given up after %v", patience)
			require.NoError(t, received(t, second).Release())
		}, zktest.WithLatency(200*time.Millisecond))
	}
}

// TestAcquire_OfServersThatAreTooSlow has servers that answer every request, each after a quarter
// of the session timeout: no hold could be kept.
func TestAcquire_OfServersThatAreTooSlow(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := newQueue(t, w.Client(framework.WithSessionTimeout(4*time.Second)), "/lock")
		began := time.Now()
		_, err := q.TryAcquire(testbed.Timeout(t, time.Minute)) // ends a stuck TryAcquire
		require.ErrorIs(t, err, framework.ErrSessionLost)
		require.ErrorContains(t, err, "in time")
		require.Less(t, time.Since(began), 15*time.Second)
		_, err = q.Acquire(testbed.Timeout(t, time.Minute))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, framework.ErrSessionLost, "the reason")
		time.Sleep(time.Minute) // virtual time, in which late nodes would be created
		length(t, w.Server, q, 0)
	}, zktest.WithLatency(time.Second))
}
