package node_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/node"
)

// TestTheNodeOfTheNextKeepIsNotDeleted closes a persistent Keep while there is no server, and begins another one at the same path. The
// deletion of the first, in the background, stands still until the next one is there.
func TestTheNodeOfTheNextKeepIsNotDeleted(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		var armed atomic.Bool
		goOn := make(chan struct{})
		client := w.client(framework.WithObserver(framework.Observer{Operation: func(_ context.Context, e framework.OperationEvent) {
			if e.Op == "multi" && armed.CompareAndSwap(true, false) {
				<-goOn
			}
		}}))
		first := keep(t, client, "/group/a", "first", node.Persistent())
		w.RefuseConnections(true)
		w.CutConnections()
		synctest.Wait()
		require.NoError(t, first.Close())
		require.True(t, w.Exists("/group/a"))
		armed.Store(true)
		kept := begin(day(t), client, "next", node.Persistent())
		w.RefuseConnections(false)
		time.Sleep(time.Minute) // virtual time: an outage longer than the session, and what follows it
		shown := len(kept) > 0
		before, err := w.Stat("/group/a")
		require.NoError(t, err)
		close(goOn)
		next := testbed.Receive(t, kept, "the next one")
		w.settle()
		w.one(next, "next")
		after, err := w.Stat("/group/a")
		require.NoError(t, err)
		require.False(t, shown && after.Czxid != before.Czxid, "it was shown and deleted")
		require.NoError(t, next.Close())
	})
}
