package node_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/session"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// TestNoHurryWhileNothingIsProven has the node be made just after the machine was suspended: what was answered before does not count
// any more, and what is answered now is proven by a write some time later only. The simulation found it (seed 9003938), after a lost
// connection, in a world where requests take no time, and where it went on for ever.
func TestNoHurryWhileNothingIsProven(t *testing.T) {
	var stood atomic.Int64
	before := session.Suspended
	session.Suspended = func() time.Duration { return time.Duration(stood.Load()) }
	defer func() { session.Suspended = before }()
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithLatency(time.Millisecond))
		require.NoError(t, server.Create("/n", []byte("of another")))
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext), framework.WithSessionTimeout(4*time.Second))
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
		time.Sleep(time.Minute) // virtual time: nobody depends on the session, so the leader is not asked
		server.ResetCounts()
		for server.Requests().Requests[zktest.OpPing] == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		stood.Store(int64(2400 * time.Millisecond))
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
