package node_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// TestKeepsOfDifferentKindsLeaveNothing has a Keep make an ephemeral node and another one of the same client want a persistent node
// in its place, and the other way round. The first is closed, and then the second gives up before it has done anything.
func TestKeepsOfDifferentKindsLeaveNothing(t *testing.T) {
	for name, opts := range map[string][2][]node.Option{
		"ephemeral, persistent": {nil, {node.Persistent(), node.IfTaken(node.Replace)}},
		"persistent, ephemeral": {{node.Persistent()}, {node.IfTaken(node.Replace)}},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) {
				client := w.client()
				first := keep(t, client, "/group/a", "first", opts[0]...)
				gate := w.Block(zktest.OnOp(zktest.OpCreate))
				ctx, cancel := context.WithCancel(t.Context())
				second := begin(ctx, client, "second", opts[1]...)
				testbed.Receive(t, gate.Arrived(), "the second create")
				closed := make(chan error, 1)
				go func() { closed <- first.Close() }()
				synctest.Wait()
				cancel()
				synctest.Wait()
				gate.Open()
				require.NoError(t, testbed.Receive(t, closed, "the end of Close"))
				w.settle()
				require.Empty(t, second)
				require.Empty(t, w.nodes("/group"))
			})
		})
	}
}

// TestAClosedPersistentKeepLeavesAnothersNode has another client replace the node just before it is deleted.
func TestAClosedPersistentKeepLeavesAnothersNode(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), w.client()
		n := keep(t, client, "/group/a", "a", node.Persistent())
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		gate := w.Block(zktest.OnOp(zktest.OpDelete), zktest.OnSession(session.ID()))
		closed := make(chan error, 1)
		go func() { closed <- n.Close() }()
		testbed.Receive(t, gate.Arrived(), "the deletion")
		second := keep(t, other, "/group/a", "second", node.IfTaken(node.Replace))
		before, err := w.Stat("/group/a")
		require.NoError(t, err)
		gate.Open()
		require.NoError(t, testbed.Receive(t, closed, "the end of Close"))
		w.settle()
		w.one(second, "second")
		after, err := w.Stat("/group/a")
		require.NoError(t, err)
		require.Equal(t, before.Czxid, after.Czxid, "it was never touched")
	})
}

// TestAPersistentNodeThatComesAfterItsSessionGoes has the create of a persistent node stand still in a server for longer than we trust
// the session, and not as long as the servers do.
func TestAPersistentNodeThatComesAfterItsSessionGoes(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client(framework.WithExpirationPercent(50))
		require.NoError(t, w.Create("/group", nil))
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		gate := w.Block(zktest.OnOp(zktest.OpCreate))
		ctx, cancel := context.WithCancel(t.Context())
		kept := begin(ctx, client, "a", node.Persistent())
		testbed.Receive(t, gate.Arrived(), "the create")
		w.Freeze(session.ID())
		testbed.Receive(t, session.Done(), "the end of the session")
		cancel()
		time.Sleep(time.Second) // virtual time, in which the Keep has left
		gate.Open()
		w.settle()
		require.Empty(t, kept)
		require.Empty(t, w.nodes("/group"))
	})
}
