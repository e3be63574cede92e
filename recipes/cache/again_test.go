package cache_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/zktest"
)

// TestANodeThatIsMadeAgainWhileItsEndIsReadIsFound has the answer that there is no such node come after the list that
// shows it again. The simulation found it.
func TestANodeThatIsMadeAgainWhileItsEndIsReadIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		require.NoError(t, server.Create("/c/a", []byte("old")))
		var met atomic.Bool
		goOn := make(chan struct{})
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext),
			framework.WithObserver(framework.Observer{Operation: func(_ context.Context, e framework.OperationEvent) {
				if e.Op == "get" && e.Path == "/c/a" && errors.Is(e.Err, zk.ErrNoNode) && met.CompareAndSwap(false, true) {
					<-goOn
				}
			}}))
		c, err := cache.New(client, "/c", cache.StandardWatches())
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.Sync(t.Context()))
		require.NoError(t, server.Delete("/c/a"))
		settle()
		require.True(t, met.Load(), "the node's end is being read")
		require.NoError(t, server.Create("/c/a", []byte("new")))
		settle()
		close(goOn)
		settle()
		n, ok := c.Get("/c/a")
		require.True(t, ok)
		require.Equal(t, "new", string(n.Data))
	})
}

// settle lets virtual time pass: for reads that are put off.
func settle() {
	time.Sleep(10 * time.Second)
	synctest.Wait()
}
