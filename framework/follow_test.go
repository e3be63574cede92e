package framework_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestFollowReadsEachChange(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		require.NoError(t, w.Server.Create("/a", []byte("1")))
		seen := make(chan string, 10)
		ctx, cancel := context.WithCancel(t.Context())
		ended := testbed.Go(func() error {
			return c.Follow(ctx, func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
				data, _, watch, err := in.GetW(ctx, "/a")
				if err != nil {
					return nil, err
				}
				seen <- string(data)
				return watch.Done(), nil
			})
		})
		require.Equal(t, "1", <-seen)
		require.NoError(t, w.Server.Set("/a", []byte("2")))
		require.Equal(t, "2", <-seen)
		w.Server.RefuseConnections(true)
		w.Server.CutConnections()
		require.NoError(t, w.Server.Set("/a", []byte("3")))
		time.Sleep(5 * time.Second) // virtual time: an outage
		w.Server.RefuseConnections(false)
		require.Equal(t, "3", <-seen)
		w.Server.RefuseConnections(true)
		w.Server.CutConnections()
		time.Sleep(time.Second) // virtual time: an outage
		cancel()
		err := <-ended
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, zk.ErrNoServer)
		var op *framework.OpError
		require.ErrorAs(t, err, &op)
		require.Equal(t, "follow", op.Op)
	})
}

// TestFollowGoesOnInTheNextSession ends the session between reads and during a read. A Follow that
// is bound to a session ends with it.
func TestFollowGoesOnInTheNextSession(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		require.NoError(t, w.Server.Create("/a", []byte("1")))
		follow := func(c *framework.Client) error {
			gate := w.Server.Block(zktest.OnOp("getData"))
			ended := testbed.Go(func() error {
				return c.Follow(t.Context(), func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
					_, _, err := in.Get(ctx, "/a")
					return nil, err
				})
			})
			<-gate.Arrived()
			w.Server.ExpireSession(testbed.Session(t, c).ID())
			gate.Open()
			return <-ended
		}
		require.NoError(t, follow(c))
		require.ErrorIs(t, follow(c.In(testbed.Session(t, c))), framework.ErrSessionLost)
	})
}

// TestFollowReadsAgainAtOnce when read asks for it.
func TestFollowReadsAgainAtOnce(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c, calls, began := w.Client(), 0, time.Now()
		require.NoError(t, c.Follow(t.Context(), func(context.Context, *framework.Client) (<-chan struct{}, error) {
			if calls++; calls < 3 {
				return framework.Again, nil
			}
			return nil, nil
		}))
		require.Equal(t, 3, calls)
		require.Zero(t, time.Since(began), "virtual time")
	})
}

func TestFollowEndsWhenThereIsNothingToWaitForAndOnErrors(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		require.NoError(t, c.Follow(t.Context(), func(context.Context, *framework.Client) (<-chan struct{}, error) { return nil, nil }))
		err := c.Follow(t.Context(), func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
			_, _, err := in.Get(ctx, "/missing")
			return nil, err
		})
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.EqualError(t, err, "get /missing: zk: node does not exist")
		require.NoError(t, c.Close())
		require.ErrorIs(t, c.Follow(t.Context(), func(context.Context, *framework.Client) (<-chan struct{}, error) { return nil, nil }), framework.ErrClosed)
	})
}

// TestCloseEndsFollowAtOnce also while the server is silent, for which Close waits.
func TestCloseEndsFollowAtOnce(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		reading := make(chan struct{}, 1)
		result := testbed.Go(func() error {
			return c.Follow(t.Context(), func(context.Context, *framework.Client) (<-chan struct{}, error) {
				reading <- struct{}{}
				return make(chan struct{}), nil
			})
		})
		<-reading
		synctest.Wait()
		w.Server.Freeze()
		began := time.Now()
		closed := testbed.Go(c.Close)
		require.ErrorIs(t, <-result, framework.ErrClosed)
		require.Zero(t, time.Since(began))
		require.NoError(t, <-closed)
	})
}
