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
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// In these tests no server can be reached, so nobody knows whether somebody else holds. An error that says "held by another",
// or nothing but that ctx is done, would be taken for a lock that others hold.

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
		q := handingOff(t, client, 10)
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

// TestPauseWithoutAServerSaysSo has the session of a waiter end while there is no server. The time is over in the pause before it
// queues again.
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
