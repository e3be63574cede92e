package node_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// TestKeep_ThatFailsLeavesNoPersistentNode closes the client at once or later.
func TestKeep_ThatFailsLeavesNoPersistentNode(t *testing.T) {
	for name, protected := range map[string][]node.Option{"plain": nil, "protected": {node.WithProtection()}} {
		for _, late := range []time.Duration{0, time.Millisecond, time.Second} {
			virtualRun(t, fmt.Sprint(name, ", closed after ", late), func(t *testing.T, w world) {
				readOnly := func(string) []zk.ACL { return zk.WorldACL(zk.PermAll &^ zk.PermWrite) }
				client := w.client(framework.WithACLProvider(readOnly))
				ctx := testbed.Timeout(t, time.Second)
				// It is written once after its creation.
				_, err := node.Keep(ctx, client, "/a", nil, append(protected, node.WithPersistence())...)
				require.ErrorIs(t, err, zk.ErrNoAuth)
				time.Sleep(late) // virtual time: how late the client is closed
				client.Close()
				require.Equal(t, []string{"zookeeper"}, testbed.ServerChildren(t, w.Server, "/"))
			}, zktest.WithLatency(5*time.Millisecond))
		}
	}
}

// TestKeep_LeavesItsPersistentNodeToTheEndOfTheClient, which keeps it, and so does a Keep that
// fails beside it.
func TestKeep_LeavesItsPersistentNodeToTheEndOfTheClient(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		require.NoError(t, testbed.Err(node.Keep(t.Context(), client, "/a", []byte("kept"), node.WithPersistence())))
		_, err := node.Keep(testbed.Timeout(t, time.Second), client, "/a", nil, node.WithPersistence())
		require.ErrorIs(t, err, node.ErrTaken)
		client.Close()
		require.Equal(t, "kept", testbed.ServerData(t, w.Server, "/a"))
	})
}
