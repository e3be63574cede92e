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

// TestANodeThatWentWithItsParentDoesNotComeBack has an answer about it come after the new parent was found. The simulation
// found it.
func TestANodeThatWentWithItsParentDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		require.NoError(t, server.Create("/c/p/a", []byte("old")))
		var hold, met atomic.Bool
		goOn := make(chan struct{})
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext),
			framework.WithObserver(framework.Observer{Operation: func(_ context.Context, e framework.OperationEvent) {
				if e.Op == "get" && e.Path == "/c/p/a" && hold.CompareAndSwap(true, false) {
					met.Store(true)
					<-goOn
				}
			}}))
		c, err := cache.New(client, "/c", cache.StandardWatches())
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.Sync(t.Context()))
		var kinds []cache.Kind
		go func() { // ends with the cache
			for ch := range c.Changes(t.Context()) {
				if ch.Path == "/c/p/a" {
					kinds = append(kinds, ch.Kind)
				}
			}
		}()
		hold.Store(true)
		require.NoError(t, server.Set("/c/p/a", []byte("newer")))
		settle()
		require.True(t, met.Load(), "the node is being read")
		require.NoError(t, server.Delete("/c/p"))
		require.NoError(t, server.Create("/c/p", nil))
		settle()
		close(goOn)
		settle()
		require.Equal(t, []cache.Kind{cache.Created, cache.Deleted}, kinds)
	})
}

// settle lets virtual time pass: for reads that are put off.
func settle() {
	time.Sleep(10 * time.Second)
	synctest.Wait()
}
