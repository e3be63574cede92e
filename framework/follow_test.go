package framework_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestFollowReadsEachChange(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		c := client()
		require.NoError(t, server.Create("/a", []byte("1")))
		seen, ended := make(chan string, 10), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			ended <- c.Follow(ctx, func(ctx context.Context) (<-chan struct{}, error) {
				data, _, watch, err := c.GetW(ctx, "/a")
				if err != nil {
					return nil, err
				}
				seen <- string(data)
				return watch.Done(), nil
			})
		}()
		require.Equal(t, "1", <-seen)
		require.NoError(t, server.Set("/a", []byte("2")))
		require.Equal(t, "2", <-seen)
		server.RefuseConnections(true)
		server.CutConnections()
		require.NoError(t, server.Set("/a", []byte("3")))
		time.Sleep(5 * time.Second) // virtual time: an outage
		server.RefuseConnections(false)
		require.Equal(t, "3", <-seen)
		server.RefuseConnections(true)
		server.CutConnections()
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

// TestFollowGoesOnInTheNextSession also if a read is under way when the session ends. One that is bound to a session ends with it.
func TestFollowGoesOnInTheNextSession(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		c := client()
		require.NoError(t, server.Create("/a", []byte("1")))
		follow := func(ctx context.Context) error {
			gate := server.Block(zktest.OnOp(zktest.OpGetData))
			ended := make(chan error, 1)
			go func() {
				ended <- c.Follow(ctx, func(ctx context.Context) (<-chan struct{}, error) {
					_, _, err := c.Get(ctx, "/a")
					return nil, err
				})
			}()
			<-gate.Arrived()
			session, err := c.Session(t.Context())
			require.NoError(t, err)
			server.ExpireSession(session.ID())
			gate.Open()
			return <-ended
		}
		require.NoError(t, follow(t.Context()))
		session, err := c.Session(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, follow(framework.InSession(t.Context(), session)), framework.ErrSessionLost)
	})
}

func TestFollowEndsWhenThereIsNothingToWaitForAndOnErrors(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		c := client()
		require.NoError(t, c.Follow(t.Context(), func(context.Context) (<-chan struct{}, error) { return nil, nil }))
		err := c.Follow(t.Context(), func(ctx context.Context) (<-chan struct{}, error) {
			_, _, err := c.Get(ctx, "/missing")
			return nil, err
		})
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.EqualError(t, err, "get /missing: zk: node does not exist")
		require.NoError(t, c.Close())
		require.ErrorIs(t, c.Follow(t.Context(), func(context.Context) (<-chan struct{}, error) { return nil, nil }), framework.ErrClosed)
	})
}

// TestCloseEndsFollowAtOnce also while the server is silent, for which Close waits.
func TestCloseEndsFollowAtOnce(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		c := client()
		reading := make(chan struct{}, 1)
		result := make(chan error, 1)
		go func() {
			result <- c.Follow(t.Context(), func(context.Context) (<-chan struct{}, error) {
				reading <- struct{}{}
				return make(chan struct{}), nil
			})
		}()
		<-reading
		synctest.Wait()
		server.Freeze()
		began := time.Now()
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		require.ErrorIs(t, <-result, framework.ErrClosed)
		require.Zero(t, time.Since(began))
		require.NoError(t, <-closed)
	})
}

func TestFollowOfNoFunctionIsRefused(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	require.ErrorIs(t, client.Follow(t.Context(), nil), framework.ErrBadArgument)
}
