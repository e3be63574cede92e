package admin_test

import (
	"fmt"
	"runtime"
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
	private(t, server, "/secret")
	client := newClient(t, server, framework.WithNamespace("ns"))
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

	root := testbed.Namespace(t, client, "")
	results, err = admin.MultiRead(ctx, root, admin.Read{Path: "/secret"})
	require.NoError(t, err)
	require.ErrorIs(t, results[0].Err, zk.ErrNoAuth)

	server.Inject(zktest.LoseReply, 0, zktest.OnOp("multiRead"))
	results, err = admin.MultiRead(ctx, client, admin.Read{Path: "/a"})
	require.NoError(t, err, "it is repeated")
	require.Equal(t, "data of /a", string(results[0].Data))

	_, err = admin.MultiRead(ctx, client)
	require.ErrorIs(t, err, framework.ErrBadArgument)
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
		answers(server, "multiRead", proto.OK, &proto.MultiResponse{Results: results})
		_, err := admin.MultiRead(testbed.Context(t), newClient(t, server), admin.Read{Path: "/"})
		require.ErrorIs(t, err, proto.ErrMalformed, name)
	}
}

// The names of a result do not keep the rest of the answer in memory.
func TestMultiRead_Memory(t *testing.T) {
	server := zktest.NewServer(t)
	require.NoError(t, server.Create("/a", nil))
	for i := range 100 {
		require.NoError(t, server.Create(fmt.Sprintf("/a/instance-%06d", i), nil))
	}
	client := testbed.On(server).Client(t)
	reads := make([]admin.Read, 1000)
	for i := range reads {
		reads[i] = admin.Read{Path: "/a", Children: true}
	}
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	_, err := admin.MultiRead(t.Context(), client, reads[0])
	require.NoError(t, err)
	before := heap()
	found, err := admin.MultiRead(t.Context(), client, reads...)
	require.NoError(t, err)
	kept, size := heap()-before, 0
	for _, r := range found {
		require.NoError(t, r.Err)
		require.Len(t, r.Children, 100)
		for _, name := range r.Children {
			size += 4 + len(name)
		}
	}
	require.Less(t, kept, 10*size)
}
