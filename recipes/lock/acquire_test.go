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
		_, err := q.TryAcquire(t.Context())
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		synctest.Wait() // the view has the holder's node
		w.Server.Freeze(session.Session().ID())
		require.NoError(t, held.Release())
		got := make(chan result, 1)
		go func() {
			h, err := q.TryAcquire(t.Context())
			got <- result{h, err}
		}()
		synctest.Wait() // it has looked in its view
		w.Server.Thaw()
		r := testbed.Receive(t, got, "the lock")
		require.NoError(t, r.err, "it is free")
		require.NoError(t, r.hold.Release())
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
	got := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		_, err := f(ctx)
		got <- err
	}()
	synctest.Wait()
	return got
}

func TestWaitInMemoryWithoutAServerSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client, err := framework.New(server.Servers(), framework.WithDialer(server.DialContext))
		require.NoError(t, err)
		defer client.Close()
		q := handingOff(t, client)
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
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client, err := framework.New(server.Servers(), framework.WithDialer(server.DialContext),
			framework.WithSessionTimeout(4*time.Second), framework.WithRetryPolicy(retry.NTimes(3, time.Minute)))
		require.NoError(t, err)
		defer client.Close()
		q := newQueue(t, client, "/lock")
		acquire(t, q) // it ends with its session, too
		waiting := within(t, 20*time.Second, q.Acquire)
		server.Stop()
		requireNoServer(t, <-waiting, "the waiter")
	})
}

// TestAcquireInAnOutageEndsWithTheRetryPolicy: the README says after what time and with which
// error.
func TestAcquireInAnOutageEndsWithTheRetryPolicy(t *testing.T) {
	for name, queued := range map[string]bool{"begun in the outage": false, "waiting when it begins": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zktest.WithInMemory())
				client, err := framework.New(server.Servers(), framework.WithDialer(server.DialContext))
				require.NoError(t, err)
				defer client.Close()
				q := newQueue(t, client, "/lock")
				var timeout time.Duration
				if queued {
					timeout = acquire(t, q).Session().Timeout() // the hold is lost in the outage
				}
				waiting := make(chan error, 1)
				wait := func() { _, err := q.Acquire(t.Context()); waiting <- err }
				if queued {
					go wait()
					synctest.Wait()
				}
				server.Stop()
				synctest.Wait()
				began := time.Now()
				if !queued {
					go wait()
				}
				err = <-waiting
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
		})
	}
}

// TestCloseEndsAPauseBetweenTries has a waiter lose its node, and its client be closed before it
// queues again.
func TestCloseEndsAPauseBetweenTries(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		other, err := lock.New(w.Client(), "/lock", "lock-", nil)
		require.NoError(t, err)
		hold, err := other.Acquire(t.Context())
		require.NoError(t, err)
		c := w.Client(framework.WithRetryPolicy(retry.Forever(time.Hour)))
		q, err := lock.New(c, "/lock", "lock-", nil)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() {
			_, err := q.Acquire(t.Context())
			done <- err
		}()
		session, err := c.Session(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, w.Server.ExpireSession(session.ID()))
		testbed.Receive(t, session.Done(), "the end of the session")
		synctest.Wait() // it pauses
		began := time.Now()
		require.NoError(t, c.Close())
		require.ErrorIs(t, testbed.Receive(t, done, "the end"), framework.ErrClosed)
		require.Less(t, time.Since(began), time.Minute)
		require.NoError(t, hold.Release())
	})
}
