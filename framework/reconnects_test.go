package framework_test

import (
	"runtime"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/zktest"
)

// TestManyReconnectsLeaveNothingBehind: each connection had watches of all kinds, a dependent of its session, and a protected create.
func TestManyReconnectsLeaveNothingBehind(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, newClient func(...framework.Option) *framework.Client) {
		client := newClient()
		ctx := t.Context()
		require.NoError(t, server.Create("/a", nil))
		reconnect := func() {
			session, err := client.Session(ctx)
			require.NoError(t, err)
			stop, err := session.Depend(connstate.Session, func(error) {})
			require.NoError(t, err)
			for _, mode := range []framework.WatchMode{framework.WatchPersistent, framework.WatchRecursive} {
				_, err = client.AddWatch(ctx, "/a", mode, func(zk.Event) {})
				require.NoError(t, err)
			}
			_, _, data, err := client.GetW(ctx, "/a")
			require.NoError(t, err)
			_, _, missing, err := client.ExistsW(ctx, "/none")
			require.NoError(t, err)
			_, _, _, err = client.ChildrenW(ctx, "/a")
			require.NoError(t, err)
			node, err := client.Create(ctx, "/a/n-", nil, framework.Protected(), framework.As(framework.PersistentSequential))
			require.NoError(t, err)
			require.NoError(t, client.Delete(ctx, node, -1))
			server.CutConnections()
			<-data.Done()
			<-missing.Done()
			stop()
		}
		use := func(n int) (heap uint64, goroutines int) {
			for range n {
				reconnect()
			}
			_, err := client.Session(ctx)
			require.NoError(t, err)
			var m runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc, runtime.NumGoroutine()
		}
		heap, goroutines := use(200)
		later, more := use(2000)
		require.Less(t, int64(later)-int64(heap), int64(2000*50), "bytes")
		require.InDelta(t, goroutines, more, 5)
	})
}
