package framework_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

func TestDeleteTree(t *testing.T) { // CUR-CLI-30, CURATOR-430
	server, client := start(t, framework.WithNamespace("ns"))
	ctx := testbed.Context(t)
	for i := range 5 {
		for j := range 5 {
			testbed.Create(t, client, fmt.Sprintf("/a/%d/%d", i, j), nil, framework.PersistentParents())
		}
	}
	testbed.Create(t, client, "/b", []byte("x"))
	for _, fault := range testbed.Faults {
		server.Inject(fault, 3, zktest.OnOp("delete"))
	}
	require.NoError(t, client.Delete(ctx, "/a", framework.IfExists(), framework.WithChildren()))
	require.Equal(t, "/ns \"\"\n/ns/b \"x\"\n", server.Tree())
	require.NoError(t, client.Delete(ctx, "/a", framework.IfExists(), framework.WithChildren()), "it is gone")
	require.ErrorIs(t, client.Delete(ctx, "a", framework.IfExists(), framework.WithChildren()), framework.ErrBadPath)
	root := testbed.Namespace(t, client, "")
	require.ErrorIs(t, root.Delete(ctx, "/", framework.IfExists(), framework.WithChildren()), framework.ErrBadPath)
	require.NoError(t, client.Delete(ctx, "/", framework.IfExists(), framework.WithChildren()), "of a namespace")
	require.Empty(t, server.Tree())
}

// TestDeleteTreeKeepsManyRequestsInFlight: with a round trip of 5 ms, one request after the other
// for 1,110 nodes takes 11 s.
func TestDeleteTreeKeepsManyRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithLatency(5*time.Millisecond))
		client := testbed.ClientOf(t, server)
		require.NoError(t, server.Create("/a", nil))
		for i := range 10 {
			require.NoError(t, server.Create(fmt.Sprintf("/a/%d", i), nil))
			for j := range 110 {
				require.NoError(t, server.Create(fmt.Sprintf("/a/%d/%d", i, j), nil))
			}
		}
		require.NoError(t, client.WaitConnected(t.Context()))
		began := time.Now()
		require.NoError(t, client.Delete(t.Context(), "/a", framework.WithChildren()))
		require.Less(t, time.Since(began), 200*time.Millisecond, "virtual time")
		require.Empty(t, server.Tree())
		require.ErrorIs(t, client.Delete(t.Context(), "/a", framework.WithChildren()), zk.ErrNoNode)
	})
}

// TestDeleteTreeWithAnyFault fails each request in each way, with and without the guarantee.
func TestDeleteTreeWithAnyFault(t *testing.T) {
	for name, opts := range map[string][]framework.DeleteOption{
		"plain":      {framework.WithChildren(), framework.IfExists()},
		"guaranteed": {framework.WithChildren(), framework.IfExists(), framework.Guaranteed()},
	} {
		t.Run(name, func(t *testing.T) {
			testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
				for _, path := range []string{"/a", "/a/b", "/a/b/c", "/a/d"} {
					require.NoError(t, s.Server.Create(path, nil))
				}
				require.NoError(t, s.Subject.Delete(t.Context(), "/a", opts...))
				require.Empty(t, s.Server.Tree())
			})
		})
	}
}

// TestDeleteTreeOfANodeThatKeepsGettingChildren ends, with the error of the server.
func TestDeleteTreeOfANodeThatKeepsGettingChildren(t *testing.T) {
	server := zktest.NewServer(t)
	require.NoError(t, server.Create("/a", nil))
	require.NoError(t, server.Create("/a/0", nil))
	ofTop := func(r zktest.Request) bool { return r.Path == "/a" }
	gate := server.Block(zktest.OnOp("delete"), zktest.On(ofTop))
	defer func() { gate.Open() }()
	result := testbed.Go(func() error { return newClient(t, server).Delete(testbed.Context(t), "/a", framework.WithChildren()) })
	for i := 1; ; i++ {
		select {
		case <-gate.Arrived():
			require.NoError(t, server.Create(fmt.Sprintf("/a/%d", i), nil))
			next := server.Block(zktest.OnOp("delete"), zktest.On(ofTop))
			gate.Open()
			gate = next
			continue
		case err := <-result:
			require.ErrorIs(t, err, zk.ErrNotEmpty)
			require.EqualError(t, err, "delete /a: zk: node has children")
			require.Equal(t, 11, i, "tries, and one more")
		}
		return
	}
}

// TestDeleteOfATreeIfVersion is about the node itself.
func TestDeleteOfATreeIfVersion(t *testing.T) {
	server := zktest.NewServer(t)
	require.NoError(t, server.Create("/a", nil))
	require.NoError(t, server.Create("/a/b", nil))
	require.NoError(t, server.Set("/a/b", nil))
	client, ctx := newClient(t, server), testbed.Context(t)
	require.ErrorIs(t, client.Delete(ctx, "/a", framework.WithChildren(), framework.IfVersion(1)), zk.ErrBadVersion)
	require.True(t, server.Exists("/a/b"))
	require.NoError(t, client.Delete(ctx, "/a", framework.WithChildren(), framework.IfVersion(0)))
	require.Empty(t, server.Tree())
}

// TestDeleteTreeByMany has several clients delete the same tree.
func TestDeleteTreeByMany(t *testing.T) {
	server, first := start(t)
	for i := range 30 {
		testbed.Create(t, first, fmt.Sprintf("/a/%d/x", i), nil, framework.PersistentParents())
	}
	var results []<-chan error
	for range 3 {
		client := newClient(t, server)
		results = append(results, testbed.Go(func() error {
			return client.Delete(testbed.Context(t), "/a", framework.IfExists(), framework.WithChildren())
		}))
	}
	for _, result := range results {
		require.NoError(t, <-result)
	}
	require.Empty(t, server.Tree())
}

func TestDeleteTreeSaysWhatItCannotDelete(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	testbed.Create(t, client, "/a/b", nil, framework.PersistentParents())
	testbed.SetACL(t, client, "/a", zk.WorldACL(zk.PermAll&^zk.PermDelete))
	err := client.Delete(testbed.Context(t), "/a", framework.IfExists(), framework.WithChildren())
	require.EqualError(t, err, "delete /a/b: zk: not authenticated")
}

func TestCreateOrSet(t *testing.T) { // CUR-CLI-40
	server, client := start(t)
	ctx := testbed.Context(t)
	var stat zk.Stat
	for i, data := range []string{"1", "2"} {
		path := testbed.Create(t, client, "/a/b", []byte(data), framework.PersistentParents(), framework.OrSet(), framework.StatTo(&stat))
		require.Equal(t, "/a/b", path)
		require.EqualValues(t, i, stat.Version)
	}
	require.Equal(t, "/a \"\"\n/a/b \"2\"\n", server.Tree())
	require.ErrorIs(t, testbed.Err(client.Create(ctx, "/none/b", nil, framework.OrSet())), zk.ErrNoNode)
	for _, fault := range testbed.Faults {
		server.Inject(fault, 0, zktest.OnOp("create"))
		server.Inject(fault, 0, zktest.OnOp("setData"))
		testbed.Create(t, client, "/a/c", []byte(fault.String()), framework.OrSet())
		require.Equal(t, fault.String(), testbed.ServerData(t, server, "/a/c"))
	}
	never := newClient(t, server, framework.WithRetryPolicy(retry.Never()))
	server.Inject(zktest.LoseReply, 0, zktest.OnOp("create"))
	_, err := never.Create(ctx, "/d", nil, framework.OrSet())
	require.Error(t, err)
	require.True(t, retry.Unknown(err))
}

// TestCreateOrSetMeetsADelete has the node be deleted between the two requests.
func TestCreateOrSetMeetsADelete(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := newClient(t, server), newClient(t, server)
	ctx := testbed.Context(t)
	testbed.Create(t, client, "/a", nil)
	gate := server.Block(zktest.OnOp("setData"))
	defer gate.Open()
	result := testbed.Go(func() error { return testbed.Err(client.Create(ctx, "/a", []byte("x"), framework.OrSet())) })
	testbed.Receive(t, gate.Arrived(), "the set")
	require.NoError(t, other.Delete(ctx, "/a"))
	gate.Open()
	require.NoError(t, testbed.Receive(t, result, "the answer"))
	require.Equal(t, "/a \"x\"\n", server.Tree())
}

// TestCreateOrSetThatFailsAfterACreateIsUnknown loses the reply to the create. The next try finds
// the node, and its set fails for certain. That error would say that nothing was carried out, but
// this call has created the node.
func TestCreateOrSetThatFailsAfterACreateIsUnknown(t *testing.T) {
	server, client := start(t)
	server.Inject(zktest.LoseReply, 0, zktest.OnOp("create"))
	_, err := client.Create(testbed.Context(t), "/a", []byte("x"), framework.ACL(zk.WorldACL(zk.PermRead)), framework.OrSet())
	require.ErrorIs(t, err, zk.ErrNoAuth)
	require.Equal(t, "/a \"x\"\n", server.Tree(), "it was made")
	require.True(t, retry.Unknown(err), "%v: so it may have been carried out", err)
}

// TestCreateOrSetIsOfTheSessionThatLives: the existing node is of this call's earlier session.
func TestCreateOrSetIsOfTheSessionThatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A reconnect begins another session.
		server := zktest.NewServer(t, zktest.WithInMemory(), zktest.LikeKeeper("recent"))
		client := testbed.ClientOf(t, server, framework.WithSessionTimeout(10*time.Second))
		server.Inject(zktest.LoseReply, 0, zktest.OnOp("create"))
		testbed.Create(t, client, "/a", []byte("x"), framework.As(framework.Ephemeral), framework.OrSet())
		time.Sleep(time.Minute) // virtual time; the client's session lives
		require.Equal(t, "x", testbed.ServerData(t, server, "/a"))
	})
}
