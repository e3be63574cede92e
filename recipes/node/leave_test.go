package node_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// TestCloseInEachState closes a node while its goroutine waits for something in one of its states.
// Each case brings it there, and returns what lets it continue. The node at the end is not
// this client's.
func TestCloseInEachState(t *testing.T) {
	nothing := map[string]string{}
	absent := func(t *testing.T, w world, _ *framework.Client, _ *node.Node) func() {
		gate := w.Block(zktest.OnOp("create"))
		require.NoError(t, w.Delete("/group/a"))
		testbed.Receive(t, gate.Arrived(), "the create")
		return gate.Open
	}
	for name, c := range map[string]struct {
		opts    []node.Option
		disturb func(t *testing.T, w world, client *framework.Client, n *node.Node) (goOn func())
		stays   map[string]string
	}{
		"unseen": {nil, func(t *testing.T, w world, client *framework.Client, n *node.Node) func() {
			gate := w.Block(zktest.OnOp("exists"))
			require.NoError(t, w.Set("/group/a", []byte("by hand")))
			testbed.Receive(t, gate.Arrived(), "the look")
			return gate.Open
		}, nothing},
		"absent":             {nil, absent, nothing},
		"absent, persistent": {[]node.Option{node.WithPersistence()}, absent, nothing},
		"ours, while it is written": {nil, func(t *testing.T, w world, client *framework.Client, n *node.Node) func() {
			gate := w.Block(zktest.OnOp("setData"))
			set := testbed.Go(func() error { return n.Set(t.Context(), []byte("b")) })
			testbed.Receive(t, gate.Arrived(), "the write")
			return func() {
				assert.ErrorIs(t, testbed.Receive(t, set, "the end of Set"), framework.ErrEnded)
				gate.Open()
			}
		}, nothing},
		"left": {nil, func(t *testing.T, w world, client *framework.Client, n *node.Node) func() {
			session := testbed.Session(t, client)
			gate := w.Block(zktest.OnOp("multi"), zktest.OnPath("/group/a"))
			w.Freeze(session.ID())
			testbed.Receive(t, gate.Arrived(), "the deletion of the old node")
			return gate.Open
		}, nothing},
		"left, and not writable": {nil, func(t *testing.T, w world, client *framework.Client, n *node.Node) func() {
			testbed.SetACL(t, w.client(), "/group/a", perms(zk.PermAll&^zk.PermWrite))
			w.Freeze(testbed.Session(t, client).ID())
			await(t, n, reason(zk.ErrNoAuth))
			return func() {}
		}, nothing},
		"taken": {nil, func(t *testing.T, w world, client *framework.Client, n *node.Node) func() {
			_, err := w.client().Multi(t.Context(), &zk.DeleteRequest{Path: "/group/a", Version: -1},
				&zk.CreateRequest{Path: "/group/a", Data: []byte("another's"), Flags: zk.FlagEphemeral})
			require.NoError(t, err)
			await(t, n, reason(node.ErrTaken))
			return func() {}
		}, map[string]string{"a": "another's"}},
		"during a pause": {nil, func(t *testing.T, w world, client *framework.Client, n *node.Node) func() {
			testbed.SetACL(t, w.client(), "/group", perms(zk.PermAll&^zk.PermCreate))
			require.NoError(t, w.Delete("/group/a"))
			await(t, n, reason(zk.ErrNoAuth))
			time.Sleep(time.Hour) // virtual time: the pauses are long by now
			return func() {}
		}, nothing},
	} {
		virtualRun(t, name, func(t *testing.T, w world) {
			client := w.client(framework.WithExpirationPercent(50))
			require.NoError(t, w.Create("/group", nil))
			n := keep(t, client, "/group/a", "a", c.opts...)
			goOn := c.disturb(t, w, client, n)
			synctest.Wait()
			closed, began := make(chan error, 1), time.Now()
			go func() { closed <- n.Close() }()
			synctest.Wait()
			require.False(t, present(n))
			require.ErrorIs(t, n.Problem(), framework.ErrEnded)
			if name == "absent" {
				require.Empty(t, closed, "the create may still be carried out")
			}
			goOn()
			require.NoError(t, testbed.Receive(t, closed, "the end of Close"))
			require.Less(t, time.Since(began), time.Second, "it waits for the servers only")
			if name != "left" { // the servers may take that one along later
				require.Equal(t, c.stays, w.nodes("/group"))
			}
			w.settle()
			require.Equal(t, c.stays, w.nodes("/group"))
		})
	}
}

// TestGivingUpWhileAnothersNodeIsReplaced has Keep's context end while the transaction is in a
// server that stands still. It is carried out.
func TestGivingUpWhileAnothersNodeIsReplaced(t *testing.T) {
	for name, block := range map[string]func(*zktest.Server, ...zktest.Match) *zktest.Gate{
		"request": (*zktest.Server).Block, "reply": (*zktest.Server).BlockReplies,
	} {
		virtualRun(t, name, func(t *testing.T, w world) {
			keep(t, w.client(), "/group/a", "another's", node.WithIfTaken(node.Fail))
			gate := block(w.Server, zktest.OnOp("multi"), zktest.OnPath("/group/a"))
			ctx, cancel := context.WithCancel(t.Context())
			kept := begin(ctx, w.client(), "ours", node.WithIfTaken(node.Replace))
			testbed.Receive(t, gate.Arrived(), "the transaction")
			cancel()
			synctest.Wait()
			gate.Open()
			w.settle()
			require.Empty(t, kept)
			require.Equal(t, map[string]string{"a": "another's"}, w.nodes("/group"), "its owner has made it again")
		})
	}
}

// TestAKeepThatIsRefusedFreesThePathAtOnce: it has created nothing, so the next Keep of the client
// waits for no server.
func TestAKeepThatIsRefusedFreesThePathAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		session := testbed.Session(t, client)
		keep(t, w.client(), "/group/a", "another's")
		// The first request at the end of a Keep that may have created a node.
		gate := w.Block(zktest.On(heartbeat), zktest.OnSession(session.ID()))
		_, err := node.Keep(t.Context(), client, "/group/a", nil, node.WithIfTaken(node.Fail))
		require.ErrorIs(t, err, node.ErrTaken)
		n := keep(t, client, "/group/a", "ours", node.WithIfTaken(node.Replace))
		gate.Open()
		w.one(n, "ours")
		require.NoError(t, n.Close())
	})
}

// TestAKeepThatWaitsHasThePath: another Keep of the client waits for its end, or fails, as if it
// had the node.
func TestAKeepThatWaitsHasThePath(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		ctx, cancel := context.WithCancel(t.Context())
		waits := begin(ctx, client, "waits", node.WithoutParents())
		synctest.Wait()
		_, err := node.Keep(minutes(t), client, "/group/a", nil, node.WithIfTaken(node.Fail))
		require.ErrorIs(t, err, node.ErrTaken)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "another Keep of this client")
		next := begin(day(t), client, "next")
		w.settle()
		require.Empty(t, next)
		cancel()
		n := testbed.Receive(t, next, "the node")
		require.Empty(t, waits)
		w.one(n, "next")
		require.NoError(t, n.Close())
	})
}

// TestCloseDeletesANodeThatSomebodyWritesTo while the delete, which names the version, is under
// way.
func TestCloseDeletesANodeThatSomebodyWritesTo(t *testing.T) {
	for name, opts := range map[string][]node.Option{"ephemeral": nil, "persistent": {node.WithPersistence()}} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			n := keep(t, w.Client(), "/group/a", "a", opts...)
			gate := w.Server.Block(zktest.OnOp("delete"))
			closed := testbed.Go(n.Close)
			testbed.Receive(t, gate.Arrived(), "the delete")
			require.NoError(t, w.Server.Set("/group/a", []byte("by hand")))
			gate.Open()
			require.NoError(t, testbed.Receive(t, closed, "the end of Close"))
			require.False(t, w.Server.Exists("/group/a"))
		})
	}
}
