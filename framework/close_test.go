package framework_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestTwoClosesAtATime requires that both wait for the same end. Virtual time advances while both
// wait for a silent server.
func TestTwoClosesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t)
		server.Freeze()
		defer server.Thaw()
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() { client.Close() })
		}
		group.Wait()
		require.Zero(t, client.State())
	})
}

// TestACreateThatCloseHasUndoneLeavesNoStat: the server has created the node, and Close deletes it
// before Create returns.
func TestACreateThatCloseHasUndoneLeavesNoStat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		var client *framework.Client
		client, err := framework.New(server.Servers(), framework.WithDialer(server.DialContext), framework.WithObserver(framework.Observer{
			Operation: func(_ context.Context, e framework.OperationEvent) {
				if e.Op == "create" {
					client.Close()
				}
			},
		}))
		require.NoError(t, err)
		require.NoError(t, client.WaitConnected(t.Context()))
		var stat zk.Stat
		_, err = client.Create(t.Context(), "/a", nil, framework.Protected(), framework.StatTo(&stat))
		require.ErrorIs(t, err, framework.ErrClosed)
		require.Zero(t, stat)
		names, err := server.Children("/")
		require.NoError(t, err)
		require.Equal(t, []string{"zookeeper"}, names)
	})
}

// TestCloseHasItsOwnPauses: six connections in a row were useless, so the pauses between them have
// grown to a second, which is all the time that Close has. Close loses one more reply, and deletes
// the node.
func TestCloseHasItsOwnPauses(t *testing.T) {
	for range 50 { // the pauses are random
		synctest.Test(t, func(t *testing.T) {
			server := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithLatency(10*time.Millisecond))
			require.NoError(t, server.Create("/p", nil))
			client, err := framework.New(server.Servers(), framework.WithDialer(server.DialContext), framework.WithRetryPolicy(retry.NTimes(0, 0)))
			require.NoError(t, err)
			require.NoError(t, client.WaitConnected(t.Context()))
			server.Inject(zktest.LoseReply, 0, zktest.OnCreate())
			_, err = client.Create(t.Context(), "/p/a", nil, framework.Protected())
			require.Error(t, err)
			for range 6 {
				<-server.Inject(zktest.LoseReply, 0).Done()
			}
			server.Inject(zktest.LoseReply, 0)
			client.Close()
			synctest.Wait()
			names, err := server.Children("/p")
			require.NoError(t, err)
			require.Empty(t, names)
		})
	}
}
