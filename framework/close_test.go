package framework_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
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
