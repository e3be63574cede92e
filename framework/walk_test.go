package framework_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// walked returns the paths of a walk, and its error.
func walked(walk iter.Seq2[string, error]) (paths []string, err error) {
	for path, failed := range walk {
		if failed != nil {
			return paths, failed
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func TestWalk(t *testing.T) {
	_, client := start(t, framework.WithNamespace("ns"))
	ctx := t.Context()
	for _, path := range []string{"/a/c/x", "/a/b", "/a/b-1/y", "/a/b/z"} {
		testbed.Create(t, client, path, nil, framework.PersistentParents(), framework.IfMissing())
	}
	paths := testbed.Must(walked(framework.Walk(ctx, client, "/a")))
	require.Equal(t, []string{"/a", "/a/b", "/a/b/z", "/a/b-1", "/a/b-1/y", "/a/c", "/a/c/x"}, paths)
	paths = testbed.Must(walked(framework.Walk(ctx, client, "/")))
	require.Equal(t, "/", paths[0])
	require.Len(t, paths, 8)
	for path := range framework.Walk(ctx, client, "/a") {
		require.Equal(t, "/a", path)
		break
	}
	_, err := walked(framework.Walk(ctx, client, "/missing"))
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.EqualError(t, err, "walk /missing: zk: node does not exist")
	require.ErrorIs(t, testbed.Err(walked(framework.Walk(ctx, client, "bad"))), framework.ErrBadPath)
	testbed.Create(t, client, "/a/secret", nil, framework.ACL(zk.WorldACL(zk.PermWrite)))
	paths, err = walked(framework.Walk(ctx, client, "/a"))
	require.Empty(t, paths)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	require.ErrorContains(t, err, "walk /a/secret: ")
	require.ErrorIs(t, testbed.Err(walked(framework.Walk(testbed.Cancelled(t), client, "/a"))), context.Canceled)
}

// TestWalk_BesideDeletions: nodes that are deleted between two lists are left out.
func TestWalk_BesideDeletions(t *testing.T) {
	server, client := start(t)
	for i := range 5 {
		testbed.Create(t, client, fmt.Sprintf("/a/%d", i), nil, framework.PersistentParents())
	}
	gate := server.Block(zktest.OnOp("getChildren2"), zktest.OnPath("/a/2"))
	type result struct {
		paths []string
		err   error
	}
	ended := testbed.Go(func() result { // ends with the test
		paths, err := walked(framework.Walk(t.Context(), client, "/a"))
		return result{paths, err}
	})
	<-gate.Arrived()
	require.NoError(t, server.Delete("/a/2"))
	gate.Open()
	got := <-ended
	require.NoError(t, got.err)
	require.Equal(t, []string{"/a", "/a/0", "/a/1", "/a/3", "/a/4"}, got.paths)
}

func TestIfMissing(t *testing.T) {
	server, client := start(t)
	ctx := t.Context()
	for range 2 {
		path := testbed.Create(t, client, "/a/b", []byte("first"), framework.IfMissing(), framework.ContainerParents())
		require.Equal(t, "/a/b", path)
	}
	var stat zk.Stat
	testbed.Create(t, client, "/a/b", []byte("second"), framework.IfMissing(), framework.StatTo(&stat))
	data, want, err := client.Get(ctx, "/a/b")
	require.NoError(t, err)
	require.Equal(t, "first", string(data))
	require.Equal(t, *want, stat)
	require.Zero(t, stat.Version)
	_, err = client.Create(ctx, "/missing/b", nil, framework.IfMissing())
	require.ErrorIs(t, err, zk.ErrNoNode, "only the node itself may exist")

	// A lost reply is no refusal.
	fault := server.Inject(zktest.LoseReply, 0, zktest.OnOp("create"))
	testbed.Create(t, client, "/lost", nil, framework.IfMissing())
	require.True(t, fault.Met())

	// The node is deleted between the create and the read of its stat.
	gate := server.Block(zktest.OnOp("exists"), zktest.OnPath("/lost"))
	ended := testbed.Go(func() error { // ends with the test
		return testbed.Err(client.Create(ctx, "/lost", []byte("again"), framework.IfMissing(), framework.StatTo(&stat)))
	})
	<-gate.Arrived()
	require.NoError(t, server.Delete("/lost"))
	gate.Open()
	require.NoError(t, <-ended)
	require.Equal(t, "again", testbed.Get(t, client, "/lost"))
}
