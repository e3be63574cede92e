package framework_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

func TestDeleteTree(t *testing.T) { // CUR-CLI-30, CURATOR-430
	server := zktest.NewServer(t)
	client := newClient(t, server, framework.WithNamespace("ns"))
	ctx := testbed.Context(t)
	for i := range 5 {
		for j := range 5 {
			_, err := client.Create(ctx, fmt.Sprintf("/a/%d/%d", i, j), nil, framework.PersistentParents())
			require.NoError(t, err)
		}
	}
	_, err := client.Create(ctx, "/b", []byte("x"))
	require.NoError(t, err)
	for _, fault := range testbed.Faults {
		server.Inject(fault, 3, zktest.OnOp(zktest.OpDelete))
	}
	require.NoError(t, client.DeleteTree(ctx, "/a"))
	require.Equal(t, "/ns \"\"\n/ns/b \"x\"\n", server.Tree())
	require.NoError(t, client.DeleteTree(ctx, "/a"), "it is gone")
	require.ErrorIs(t, client.DeleteTree(ctx, "a"), framework.ErrBadPath)
	root, err := client.Namespace("")
	require.NoError(t, err)
	require.ErrorIs(t, root.DeleteTree(ctx, "/"), framework.ErrBadPath)
	require.NoError(t, client.DeleteTree(ctx, "/"), "of a namespace")
	require.Empty(t, server.Tree())
}

// TestDeleteTreeByMany has several clients delete the same tree.
func TestDeleteTreeByMany(t *testing.T) {
	server := zktest.NewServer(t)
	ctx := testbed.Context(t)
	first := newClient(t, server)
	for i := range 30 {
		_, err := first.Create(ctx, fmt.Sprintf("/a/%d/x", i), nil, framework.PersistentParents())
		require.NoError(t, err)
	}
	var wg sync.WaitGroup
	errs := make(chan error, 3)
	for range 3 {
		client := newClient(t, server)
		wg.Go(func() { errs <- client.DeleteTree(ctx, "/a") })
	}
	wg.Wait()
	for range 3 {
		require.NoError(t, <-errs)
	}
	require.Empty(t, server.Tree())
}

func TestDeleteTreeSaysWhatItCannotDelete(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	ctx := testbed.Context(t)
	_, err := client.Create(ctx, "/a/b", nil, framework.PersistentParents())
	require.NoError(t, err)
	_, err = client.SetACL(ctx, "/a", zk.WorldACL(zk.PermAll&^zk.PermDelete), -1)
	require.NoError(t, err)
	err = client.DeleteTree(ctx, "/a")
	require.EqualError(t, err, "delete /a/b: zk: not authenticated")
}

func TestDeleteIfExists(t *testing.T) { // CUR-CLI-33, -37
	client := newClient(t, zktest.NewServer(t))
	ctx := testbed.Context(t)
	found, err := client.DeleteIfExists(ctx, "/a", -1)
	require.NoError(t, err)
	require.False(t, found)
	_, err = client.Create(ctx, "/a", nil)
	require.NoError(t, err)
	_, err = client.DeleteIfExists(ctx, "/a", 7)
	require.ErrorIs(t, err, zk.ErrBadVersion)
	found, err = client.DeleteIfExists(ctx, "/a", 0)
	require.NoError(t, err)
	require.True(t, found)
}

func TestCreateOrSet(t *testing.T) { // CUR-CLI-40
	server := zktest.NewServer(t)
	client := newClient(t, server)
	ctx := testbed.Context(t)
	created, err := client.CreateOrSet(ctx, "/a/b", []byte("1"), framework.PersistentParents())
	require.NoError(t, err)
	require.True(t, created)
	created, err = client.CreateOrSet(ctx, "/a/b", []byte("2"), framework.PersistentParents())
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, "/a \"\"\n/a/b \"2\"\n", server.Tree())
	_, err = client.CreateOrSet(ctx, "/none/b", nil)
	require.ErrorIs(t, err, zk.ErrNoNode)
	for _, opt := range []framework.CreateOption{framework.Protected(), framework.As(framework.EphemeralSequential), nil} {
		_, err = client.CreateOrSet(ctx, "/a", nil, opt)
		require.ErrorIs(t, err, framework.ErrBadArgument)
	}
	for _, fault := range testbed.Faults {
		server.Inject(fault, 0, zktest.OnOp(zktest.OpCreate))
		server.Inject(fault, 0, zktest.OnOp(zktest.OpSetData))
		_, err = client.CreateOrSet(ctx, "/a/c", []byte(fault.String()))
		require.NoError(t, err)
		data, err := server.Get("/a/c")
		require.NoError(t, err)
		require.Equal(t, fault.String(), string(data))
	}
	never := newClient(t, server, framework.WithRetryPolicy(retry.Never()))
	server.Inject(zktest.LoseReply, 0, zktest.OnOp(zktest.OpCreate))
	_, err = never.CreateOrSet(ctx, "/d", nil)
	require.Error(t, err)
	require.True(t, retry.Unknown(err))
}

// TestCreateOrSetMeetsADelete has the node be deleted between the two requests.
func TestCreateOrSetMeetsADelete(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := newClient(t, server), newClient(t, server)
	ctx := testbed.Context(t)
	_, err := client.Create(ctx, "/a", nil)
	require.NoError(t, err)
	gate := server.Block(zktest.OnOp(zktest.OpSetData))
	defer gate.Open()
	result := make(chan error, 1)
	go func() {
		_, err := client.CreateOrSet(ctx, "/a", []byte("x"))
		result <- err
	}()
	testbed.Receive(t, gate.Arrived(), "the set")
	require.NoError(t, other.Delete(ctx, "/a", -1))
	gate.Open()
	require.NoError(t, testbed.Receive(t, result, "the answer"))
	require.Equal(t, "/a \"x\"\n", server.Tree())
}

// TestCreateOrSetThatFailsAfterACreateIsUnknown: the reply to the create is lost, the next try finds the node, and the set fails for certain: the error says that nothing was
// carried out, but the node was made by this call.
func TestCreateOrSetThatFailsAfterACreateIsUnknown(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	server.Inject(zktest.LoseReply, 0, zktest.OnOp(zktest.OpCreate))
	_, err := client.CreateOrSet(testbed.Context(t), "/a", []byte("x"), framework.ACL(zk.WorldACL(zk.PermRead)))
	require.ErrorIs(t, err, zk.ErrNoAuth)
	require.Equal(t, "/a \"x\"\n", server.Tree(), "it was made")
	require.True(t, retry.Unknown(err), "%v: so it may have been carried out", err)
}

// TestCreateOrSetReportsWhatItKnows: a create that was not answered is repeated, and "created" was true.
func TestCreateOrSetReportsWhatItKnows(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	require.NoError(t, server.Create("/a", []byte("old")))
	for _, fault := range testbed.Faults {
		server.Inject(fault, 0, zktest.OnOp(zktest.OpCreate))
		created, err := client.CreateOrSet(testbed.Context(t), "/a", []byte(fault.String()))
		require.NoError(t, err)
		require.False(t, created)
		data, err := server.Get("/a")
		require.NoError(t, err)
		require.Equal(t, fault.String(), string(data))
	}
}

// TestCreateOrSetIsOfTheSessionThatLives: the node that was there was of this call's earlier session.
func TestCreateOrSetIsOfTheSessionThatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory(), zktest.LikeKeeper(zktest.KeeperRecent)) // a reconnect gives another session
		client, err := framework.New([]string{server.Addr()}, framework.WithDialer(server.DialContext), framework.WithSessionTimeout(10*time.Second))
		require.NoError(t, err)
		defer client.Close()
		server.Inject(zktest.LoseReply, 0, zktest.OnOp(zktest.OpCreate))
		created, err := client.CreateOrSet(t.Context(), "/a", []byte("x"), framework.As(framework.Ephemeral))
		require.NoError(t, err)
		require.True(t, created)
		time.Sleep(time.Minute) // virtual time; the client's session lives
		data, err := server.Get("/a")
		require.NoError(t, err)
		require.Equal(t, "x", string(data))
	})
}
