package admin_test

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/admin"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestMultiReadAnswersEachReadOnItsOwn(t *testing.T) {
	server := zktest.NewServer(t)
	testbed.Private(t, server, "/secret", "owner:secret")
	client := testbed.On(server).Client(t, framework.WithNamespace("ns"))
	ctx := testbed.Context(t)
	for _, path := range []string{"/a", "/a/b", "/a/c"} {
		testbed.Create(t, client, path, []byte("data of "+path))
	}
	server.ResetCounts()
	results, err := admin.MultiRead(ctx, client,
		admin.Read{Path: "/a"}, admin.Read{Path: "/none"}, admin.Read{Path: "/a", Children: true}, admin.Read{Path: "/none", Children: true})
	require.NoError(t, err)
	counts := server.Requests().Requests
	// on a busy machine the answer may take so long that the client sends them
	delete(counts, "sync")
	delete(counts, "ping")
	require.Equal(t, map[string]int{"multiRead": 1}, counts)
	require.Len(t, results, 4)
	_, stat, err := client.Get(ctx, "/a")
	require.NoError(t, err)
	require.Equal(t, admin.ReadResult{Data: []byte("data of /a"), Stat: stat}, results[0])
	require.ErrorIs(t, results[1].Err, zk.ErrNoNode)
	require.EqualError(t, results[1].Err, "get /none: zk: node does not exist")
	require.ElementsMatch(t, []string{"b", "c"}, results[2].Children)
	require.Nil(t, results[2].Stat)
	require.EqualError(t, results[3].Err, "children /none: zk: node does not exist")

	results = testbed.Must(admin.MultiRead(ctx, testbed.Namespace(t, client, ""), admin.Read{Path: "/secret"}))
	require.ErrorIs(t, results[0].Err, zk.ErrNoAuth)

	server.Inject(zktest.LoseReply, 0, zktest.OnOp("multiRead"))
	results, err = admin.MultiRead(ctx, client, admin.Read{Path: "/a"})
	require.NoError(t, err, "it is repeated")
	require.Equal(t, "data of /a", string(results[0].Data))

	require.ErrorIs(t, testbed.Err(admin.MultiRead(ctx, client)), framework.ErrBadArgument)
	_, err = admin.MultiRead(ctx, client, admin.Read{Path: "/a"}, admin.Read{Path: "b"})
	require.ErrorIs(t, err, framework.ErrBadPath)
}

func TestMultiReadWithWrongResultsIsAnError(t *testing.T) {
	for name, results := range map[string][]proto.MultiResult{
		"none":     nil,
		"too many": {{Op: proto.OpGetData}, {Op: proto.OpGetData}},
		"children": {{Op: proto.OpGetChildren}},
	} {
		server := zktest.NewServer(t)
		testbed.Answer(server, proto.OK, &proto.MultiResponse{Results: results}, zktest.OnOp("multiRead"))
		_, err := admin.MultiRead(testbed.Context(t), testbed.On(server).Client(t), admin.Read{Path: "/"})
		require.ErrorIs(t, err, proto.ErrMalformed, name)
	}
}
