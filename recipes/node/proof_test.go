package node_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// TestNoHurryWhileNothingIsProven has the node be made just after the connection has come to life again: what was answered then
// is proven by a write some time later only. The simulation found it (seed 9003938), in a world where requests take no time, and
// where it went on for ever.
func TestNoHurryWhileNothingIsProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithLatency(time.Millisecond))
		require.NoError(t, server.Create("/n", []byte("of another")))
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext), framework.WithSessionTimeout(4*time.Second),
			framework.WithExpirationPercent(60)) // it counts as lost after 2.35 s
		require.NoError(t, client.WaitConnected(t.Context()))
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		kept := make(chan *node.Node, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		go func() { // ends with ctx
			n, err := node.Keep(ctx, client, "/n", nil)
			assert.NoError(t, err)
			kept <- n
		}()
		time.Sleep(time.Minute) // nobody depends on the session, so the leader is not asked
		server.ResetCounts()
		for server.Requests().Requests[zktest.OpPing] == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		server.Freeze(session.ID()) // the next ping is answered late
		time.Sleep(2270 * time.Millisecond)
		server.Thaw(session.ID())
		time.Sleep(100 * time.Millisecond)
		server.ResetCounts()
		require.NoError(t, server.Delete("/n"))
		n := <-kept
		require.NoError(t, session.Err())
		writes := server.Requests().Requests[zktest.OpMulti]
		require.Positive(t, writes, "nothing was proven")
		require.Less(t, writes, 40)
		require.NoError(t, n.Close())
	})
}
