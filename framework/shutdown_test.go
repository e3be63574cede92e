package framework_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// held returns a hold of a mutex.
func held(t *testing.T, client *framework.Client, path string, opts ...lock.Option) (*mutex.Mutex, *lock.Hold) {
	t.Helper()
	m := testbed.Must(mutex.New(client, path, opts...))
	return m, testbed.Acquire(t, m)
}

// shutdown calls Shutdown on a separate goroutine.
func shutdown(ctx context.Context, client *framework.Client) <-chan error {
	return testbed.Go(func() error { return client.Shutdown(ctx) }) // ends with Shutdown
}

func TestShutdown_WaitsForRelease(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		for name, opts := range map[string][]lock.Option{
			"": nil, "retention": {lock.WithRetention(time.Minute)}, "lost ends hold": {lock.WithErrorPolicy(connstate.LostEndsHold)},
		} {
			c, other := w.Client(), w.Client()
			m, hold := held(t, c, "/lock", opts...)
			waiting := testbed.Go(func() error { return testbed.Err(m.Acquire(t.Context())) }) // ends with the client
			synctest.Wait()
			began := time.Now()
			ended := shutdown(t.Context(), c)
			<-hold.Done()
			require.ErrorIs(t, context.Cause(hold.Context()), framework.ErrShutdown, name)
			require.ErrorIs(t, <-waiting, framework.ErrShutdown, "a waiter does not wait any more")
			_, err := m.Acquire(t.Context())
			require.ErrorIs(t, err, framework.ErrShutdown)
			require.EqualError(t, err, "acquire /lock: client is shutting down")

			time.Sleep(3 * time.Second) // virtual time: the work ends
			require.Len(t, ended, 0)
			require.NoError(t, testbed.Err(c.Exists(t.Context(), "/lock")), "operations work until the end")
			rival := testbed.Must(mutex.New(other, "/lock"))
			_, err = rival.TryAcquire(t.Context())
			require.ErrorIs(t, err, lock.ErrNotAcquired, "the work may still run")
			require.NoError(t, hold.Release())
			require.NoError(t, <-ended)
			require.Equal(t, 3*time.Second, time.Since(began).Truncate(time.Second))
			next := testbed.Must(rival.TryAcquire(t.Context()))
			require.NoError(t, next.Release())
			require.ErrorIs(t, testbed.Err(c.Exists(t.Context(), "/lock")), framework.ErrClosed)
			require.ErrorIs(t, hold.Release(), lock.ErrReleased)
		}
	})
}

// TestShutdown_ReleaseDeletesTheNode, although another hold keeps the session open.
func TestShutdown_ReleaseDeletesTheNode(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		_, hold := held(t, c, "/lock")
		_, other := held(t, c, "/other")
		ended := shutdown(t.Context(), c)
		<-hold.Context().Done()
		require.NoError(t, hold.Release())
		require.False(t, w.Server.Exists(hold.Path()))
		require.True(t, w.Server.Exists(other.Path()))
		require.NoError(t, other.Release())
		require.NoError(t, <-ended)
	})
}

func TestShutdown_NamesWhatWasNotReleased(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		for name, limit := range map[string]time.Duration{"5 s": 5 * time.Second, "ended before": 0} {
			c := w.Client()
			_, hold := held(t, c, "/lock")
			began := time.Now()
			err := c.Shutdown(testbed.Timeout(t, limit))
			require.Equal(t, limit, time.Since(began).Truncate(time.Second), name)
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.EqualError(t, err, "shutdown /: context deadline exceeded: not released: "+hold.Path(), name)
			require.ErrorIs(t, context.Cause(hold.Context()), framework.ErrShutdown, name)
			require.False(t, w.Server.Exists(hold.Path()), name)
			require.ErrorIs(t, hold.Release(), framework.ErrClosed, name)
			require.NoError(t, c.Shutdown(t.Context()), "nothing is left")
		}
	})
}

func TestShutdown_Twice(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		_, hold := held(t, c, "/lock")
		first, second := shutdown(t.Context(), c), shutdown(testbed.Timeout(t, time.Minute), c)
		time.Sleep(time.Second) // virtual time
		require.NoError(t, hold.Release())
		require.NoError(t, <-first)
		require.NoError(t, <-second)
		require.NoError(t, c.Shutdown(t.Context()))
		require.NoError(t, c.Close())
	})
}

// TestShutdown_WithClose: Close does not wait for a hold, and ends the wait of Shutdown.
func TestShutdown_WithClose(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		_, hold := held(t, c, "/lock")
		began := time.Now()
		ended := shutdown(t.Context(), c)
		synctest.Wait()
		require.NoError(t, c.Close())
		require.EqualError(t, <-ended, "shutdown /: client is closed: not released: "+hold.Path())
		require.Less(t, time.Since(began), time.Second)
		require.ErrorIs(t, hold.Release(), framework.ErrClosed)
	})
}

// TestShutdown_InAnOutage: Release waits for a server until the session is lost, and Shutdown until
// its context ends.
func TestShutdown_InAnOutage(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		for name, back := range map[string]bool{"it ends": true, "it lasts": false} {
			c := w.Client()
			_, hold := held(t, c, "/lock", lock.WithErrorPolicy(connstate.LostEndsHold))
			w.Server.RefuseConnections(true)
			w.Server.CutConnections()
			synctest.Wait()
			began := time.Now()
			ended := shutdown(testbed.Timeout(t, 5*time.Second), c)
			<-hold.Done()
			require.ErrorIs(t, context.Cause(hold.Context()), framework.ErrShutdown, name)
			released := testbed.Go(hold.Release) // ends with the client
			time.Sleep(2 * time.Second)          // virtual time: the length of the outage
			w.Server.RefuseConnections(!back)
			err := <-ended
			if back {
				require.NoError(t, err, name)
				require.NoError(t, <-released, name)
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded, name)
				require.ErrorContains(t, err, hold.Path(), name)
				require.ErrorIs(t, <-released, framework.ErrClosed, name)
				require.Less(t, time.Since(began), 7*time.Second, name)
			}
			w.Server.RefuseConnections(false)
		}
	})
}

// TestShutdown_WithdrawsRegistrations at once, and keeps persistent nodes.
func TestShutdown_WithdrawsRegistrations(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		kept := testbed.Must(node.Keep(t.Context(), c, "/service/a", nil))
		member := testbed.Must(node.Join(t.Context(), c, "/group", "a", nil))
		lasting := testbed.Must(node.Keep(t.Context(), c, "/lasting", nil, node.WithPersistence()))
		_, hold := held(t, c, "/lock")
		ended := shutdown(t.Context(), c)
		time.Sleep(time.Second) // virtual time: the hold is not released yet
		require.Len(t, ended, 0)
		require.False(t, w.Server.Exists(kept.Path()))
		require.False(t, w.Server.Exists(member.Path()))
		require.True(t, w.Server.Exists(lasting.Path()))
		require.ErrorIs(t, testbed.Err(node.Keep(t.Context(), c, "/service/b", nil)), framework.ErrShutdown)
		e := testbed.Must(leader.New(c, "/election"))
		require.ErrorIs(t, testbed.Err(e.Campaign(t.Context())), framework.ErrShutdown)
		require.NoError(t, hold.Release())
		require.NoError(t, <-ended)
		require.True(t, w.Server.Exists(lasting.Path()))
		require.NoError(t, kept.Close())
	})
}

// TestShutdown_OfATerm: Run's function returns, and Run with it.
func TestShutdown_OfATerm(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		e := testbed.Must(leader.New(c, "/election"))
		leads := make(chan struct{})
		run := testbed.Go(func() error { // ends with the client
			return e.Run(t.Context(), func(ctx context.Context, _ *leader.Term) error {
				close(leads)
				<-ctx.Done()
				assert.ErrorIs(t, context.Cause(ctx), framework.ErrShutdown)
				time.Sleep(time.Second) // virtual time: it saves its work
				return testbed.Err(c.Create(context.WithoutCancel(ctx), "/saved", nil))
			})
		})
		<-leads
		require.NoError(t, c.Shutdown(t.Context()))
		require.ErrorIs(t, <-run, framework.ErrShutdown)
		require.True(t, w.Server.Exists("/saved"))
	})
}

// TestShutdown_WhenALeaseIsGranted at that moment while another hold delays Shutdown: the Acquire
// fails, and leaves no node.
func TestShutdown_WhenALeaseIsGranted(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		for _, op := range []string{"create", "getChildren2"} {
			c := w.Client()
			_, hold := held(t, c, "/lock")
			m := testbed.Must(mutex.New(c, "/other"))
			gate := w.Server.Block(zktest.OnOp(op))
			acquired := testbed.Go(func() error { return testbed.Err(m.Acquire(t.Context())) }) // ends with the client
			<-gate.Arrived()
			ended := shutdown(t.Context(), c)
			synctest.Wait()
			gate.Open()
			require.ErrorIs(t, <-acquired, framework.ErrShutdown, op)
			require.NoError(t, hold.Release())
			require.NoError(t, <-ended, op)
			if w.Server.Exists("/other") {
				children, err := w.Server.Children("/other")
				require.NoError(t, err, op)
				require.Empty(t, children, op)
			}
		}
	})
}
