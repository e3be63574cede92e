package framework_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestTwoClosesAtATime requires that both wait for the same end. Virtual time advances while both
// wait for a silent server.
func TestTwoClosesAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
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
		client = testbed.ClientOf(t, server, framework.WithObserver(framework.Observer{
			Operation: func(_ context.Context, e framework.OperationEvent) {
				if e.Op == "create" {
					client.Close()
				}
			},
		}))
		require.NoError(t, client.WaitConnected(t.Context()))
		var stat zk.Stat
		_, err := client.Create(t.Context(), "/a", nil, framework.Protected(), framework.StatTo(&stat))
		require.ErrorIs(t, err, framework.ErrClosed)
		require.Zero(t, stat)
		require.Equal(t, []string{"zookeeper"}, testbed.ServerChildren(t, server, "/"))
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
			client := testbed.ClientOf(t, server, framework.WithRetryPolicy(retry.NTimes(0, 0)))
			require.NoError(t, client.WaitConnected(t.Context()))
			server.Inject(zktest.LoseReply, 0, zktest.OnCreate())
			require.Error(t, testbed.Err(client.Create(t.Context(), "/p/a", nil, framework.Protected())))
			for range 6 {
				<-server.Inject(zktest.LoseReply, 0).Done()
			}
			server.Inject(zktest.LoseReply, 0)
			client.Close()
			synctest.Wait()
			require.Empty(t, testbed.ServerChildren(t, server, "/p"))
		})
	}
}

// TestClose_OfAView: a view shares its session with all others, so the deferred Close of a tenant
// would cancel everyone's holds.
func TestClose_OfAView(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *zktest.Server, client *framework.Client) {
		session := testbed.Session(t, client)
		tenant := testbed.Namespace(t, client, "tenant")
		_, hold := held(t, client, "/lock")
		refuses := func(view *framework.Client) {
			t.Helper()
			err := view.Close()
			require.ErrorIs(t, err, framework.ErrBadArgument)
			require.EqualError(t, err, "close /: bad argument: a view of a client, close the client itself")
			require.ErrorIs(t, view.Shutdown(t.Context()), framework.ErrBadArgument)
			require.NoError(t, hold.Err())
			require.NoError(t, testbed.Err(view.Exists(t.Context(), "/a")))
		}
		refuses(tenant)
		refuses(client.In(session))
		refuses(tenant.In(session))
		require.NoError(t, client.Follow(t.Context(), func(_ context.Context, in *framework.Client) (<-chan struct{}, error) {
			refuses(in)
			return nil, nil
		}))
		require.NoError(t, hold.Release())
		require.NoError(t, client.Close())
		require.ErrorIs(t, testbed.Err(tenant.Exists(t.Context(), "/a")), framework.ErrClosed)
	})
}

// TestClose_LogsUnreleasedHolds, as Shutdown returns them. A released hold and a kept node are not
// among them.
func TestClose_LogsUnreleasedHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, shutdown := range []bool{false, true} {
			server := zktest.NewServer(t, zktest.WithInMemory())
			var log logged
			client := testbed.ClientOf(t, server, log.keep(slog.LevelInfo))
			var paths []string
			for _, path := range []string{"/a", "/b", "/c"} {
				_, hold := held(t, client, path)
				if path == "/c" {
					require.NoError(t, hold.Release())
					continue
				}
				paths = append(paths, hold.Path())
			}
			require.NoError(t, testbed.Err(node.Keep(t.Context(), client, "/kept", nil)))
			if shutdown {
				require.ErrorContains(t, client.Shutdown(testbed.Cancelled(t)), paths[0])
			}
			require.NoError(t, client.Close())
			require.NoError(t, client.Close())
			want := fmt.Sprintf("level=WARN msg=\"client closed before holds were released\" paths=\"[%s %s]\"", paths[0], paths[1])
			if shutdown {
				require.Empty(t, log.lines("before holds"), "Shutdown has returned them")
			} else {
				require.Len(t, log.lines(want), 1, log.String())
			}
		}
	})
}
