package framework_test

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestMultiNamesWhatFailed(t *testing.T) {
	client := newClient(t, zktest.NewServer(t), framework.WithNamespace("ns"))
	ctx := testbed.Context(t)
	testbed.Create(t, client, "/a", nil, framework.PersistentParents())
	responses, err := client.Multi(ctx,
		&zk.CheckVersionRequest{Path: "/a", Version: -1},
		&zk.CreateRequest{Path: "/b"}, &zk.CreateRequest{Path: "/a"}, &zk.DeleteRequest{Path: "/c", Version: -1})
	require.ErrorIs(t, err, zk.ErrNodeExists)
	require.EqualError(t, err, "multi /a: operation 2, create /a: zk: node already exists")
	var failed *framework.MultiError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 2, failed.Index)
	require.Equal(t, "/a", failed.Path)
	require.Len(t, responses, 4)
	assert.NoError(t, responses[1].Error)
	assert.EqualError(t, responses[2].Error, "create /a: zk: node already exists")
	assert.Error(t, responses[3].Error, "rolled back")
	for i, path := range []string{"/a", "/b", "/a", "/c"} {
		assert.Equal(t, path, responses[i].String)
	}
	require.EqualError(t, testbed.Err(client.Multi(ctx)), "multi: bad argument: no operations")
	_, err = client.Multi(ctx, zk.CreateRequest{Path: "/d"})
	require.ErrorIs(t, err, framework.ErrBadArgument)
	require.EqualError(t, err, "multi: bad argument: zk.CreateRequest in a multi, must be a pointer")
}

func TestMultiMakesContainersAndTTLNodes(t *testing.T) {
	server := zktest.NewServer(t, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
	client := newClient(t, server, framework.WithNamespace("ns"))
	testbed.Create(t, client, "/a", nil, framework.PersistentParents())
	responses, err := client.Multi(testbed.Context(t),
		&zk.CreateRequest{Path: "/box", Flags: zk.FlagContainer},
		&zk.CreateTTLRequest{Path: "/brief", Data: []byte("x"), Flags: zk.FlagTTL, Ttl: 1000},
		&zk.CreateTTLRequest{Path: "/brief-", Flags: zk.FlagPersistentSequentialWithTTL, Ttl: 1000, Acl: zk.WorldACL(zk.PermRead)})
	require.NoError(t, err)
	require.Contains(t, server.Tree(), "/ns/box \"\" container\n")
	for i, path := range []string{"/box", "/brief", "/brief-0000000003"} {
		require.Equal(t, path, responses[i].String)
		require.Equal(t, testbed.Stat(t, client, path), responses[i].Stat)
	}
	require.Contains(t, server.Tree(), "ttl")
	require.Equal(t, zk.WorldACL(zk.PermRead), testbed.ACL(t, client, "/brief-0000000003"))
}

func TestMultiOfNodesThatTheServerDoesNotMakeIsUnimplemented(t *testing.T) {
	container, ttl := &zk.CreateRequest{Path: "/a", Flags: zk.FlagContainer}, &zk.CreateTTLRequest{Path: "/a", Flags: zk.FlagTTL, Ttl: 1000}
	check := &zk.CheckVersionRequest{Path: "/", Version: -1}
	for name, test := range map[string]struct {
		server *zktest.Server
		op     any
	}{
		"a ZooKeeper without TTL nodes": {zktest.NewServer(t), ttl},
		"a container on a Keeper":       {zktest.NewServer(t, zktest.LikeKeeper("recent")), container},
		"a TTL node on a Keeper":        {zktest.NewServer(t, zktest.LikeKeeper("recent")), ttl},
	} {
		client := newClient(t, test.server)
		ctx := testbed.Context(t)
		session := testbed.Session(t, client)
		_, err := client.Multi(ctx, check, test.op)
		require.ErrorIs(t, err, framework.ErrUnimplemented, name)
		var failed *framework.MultiError
		require.ErrorAs(t, err, &failed, name)
		require.Equal(t, 1, failed.Index, name)
		require.NoError(t, client.Sync(ctx))
		require.NoError(t, session.Err(), name)
	}
}
