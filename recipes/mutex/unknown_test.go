package mutex_test

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestLostReplyUnderAHoldsContextIsUnknown: the lost connection fails the write, and a moment later it ends the context of the
// hold. The error must say that the write may have been carried out.
func TestLostReplyUnderAHoldsContextIsUnknown(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	_, err := bed.Client(t).Create(testbed.Context(t), "/n", nil)
	require.NoError(t, err)
	for range 200 {
		client := bed.Client(t)
		m, err := mutex.New(client, "/lock")
		require.NoError(t, err)
		hold, err := m.Acquire(testbed.Context(t))
		require.NoError(t, err)
		_, before, err := client.Exists(testbed.Context(t), "/n")
		require.NoError(t, err)
		server.Inject(zktest.LoseReply, 0, zktest.OnOp(zktest.OpMulti))
		_, failed := client.Multi(hold.Context(), hold.Guard(), &zk.SetDataRequest{Path: "/n", Data: []byte("x"), Version: -1})
		_, after, err := client.Exists(testbed.Context(t), "/n")
		require.NoError(t, err)
		if failed != nil && after.Version != before.Version {
			require.True(t, retry.Unknown(failed), "%v", failed)
		}
		_ = hold.Release()
		require.NoError(t, client.Close())
	}
}
