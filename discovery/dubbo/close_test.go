package dubbo_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
)

// An orchestrator kills a process that does not end soon.
func TestClose_WithoutAServerNamesTheNodesThatRemain(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client(framework.WithSessionTimeout(40 * time.Second))
		r := register(t, client, app(1, "a.B", "a.C"))
		w.Server.RefuseConnections(true)
		w.Server.CutConnections()
		began := time.Now()
		err := r.Close()
		require.Equal(t, 5*time.Second, time.Since(began))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrNoServer)
		testbed.OneOp(t, err, "close", r.Path())
		for _, path := range []string{"/dubbo/mapping/a.B", "/dubbo/mapping/a.C", "/dubbo/metadata/orders/" + r.Revision()} {
			require.ErrorContains(t, err, path)
		}
		require.False(t, strings.Contains(err.Error(), "\n"), "%v", err)
		w.Server.RefuseConnections(false)
		require.NoError(t, client.WaitConnected(t.Context()))
		synctest.Wait() // the client has sent its deletions
		require.False(t, w.Server.Exists(r.Path()), "the client deletes it")
	})
}

// Dubbo neither writes nor reads compressed nodes.
func TestRegister_OnACompressingClient(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		require.NoError(t, w.Server.Create("/services/orders/other", []byte("x")))
		require.NoError(t, w.Server.Create("/dubbo/mapping/a.B", []byte("java")))
		r := register(t, w.Client(framework.WithCompression()), app(1, "a.B"))
		require.Equal(t, "java,orders", testbed.ServerData(t, w.Server, "/dubbo/mapping/a.B"))
		require.Contains(t, testbed.ServerData(t, w.Server, r.Path()), r.Revision())
		require.NoError(t, r.Close())
		require.False(t, w.Server.Exists("/dubbo/metadata/orders"))
	})
}
