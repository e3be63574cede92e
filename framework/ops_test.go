package framework_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

func TestOperationsAnswerWithZooKeepersOwnErrors(t *testing.T) { // KZ-CLI-07
	client := newClient(t, zktest.NewServer(t))
	ctx := t.Context()
	testbed.Create(t, client, "/a", []byte("1"))
	_, err := client.Create(ctx, "/a", nil)
	assert.ErrorIs(t, err, zk.ErrNodeExists)
	assert.EqualError(t, err, "create /a: zk: node already exists")
	assert.ErrorIs(t, testbed.Err(client.Create(ctx, "/none/b", nil)), zk.ErrNoNode)
	assert.ErrorIs(t, testbed.Err(client.Get(ctx, "/none")), zk.ErrNoNode)
	assert.ErrorIs(t, testbed.Err(client.Children(ctx, "/none")), zk.ErrNoNode)
	assert.ErrorIs(t, testbed.Err(client.Set(ctx, "/a", []byte("2"), framework.IfVersion(7))), zk.ErrBadVersion)
	stat := testbed.Must(client.Set(ctx, "/a", []byte("2"), framework.IfVersion(0)))
	data, again, err := client.Get(ctx, "/a")
	require.NoError(t, err)
	assert.Equal(t, "2", string(data))
	assert.Equal(t, stat, again)
	assert.ErrorIs(t, testbed.Err(client.SetACL(ctx, "/a", nil)), zk.ErrInvalidACL)
	found, none, err := client.Exists(ctx, "/none/deeper")
	assert.NoError(t, err)
	assert.False(t, found)
	assert.Nil(t, none)
	assert.NoError(t, client.Sync(ctx))
	assert.ErrorIs(t, client.Delete(ctx, "/none"), zk.ErrNoNode)
	// CUR-CLI-32
	assert.ErrorIs(t, client.Delete(ctx, "/a", framework.IfVersion(0)), zk.ErrBadVersion)
	assert.NoError(t, client.Delete(ctx, "/a", framework.IfVersion(1)))
	testbed.Create(t, client, "/e", nil, framework.As(framework.Ephemeral))
	assert.ErrorIs(t, testbed.Err(client.Create(ctx, "/e/child", nil)), zk.ErrNoChildrenForEphemerals) // KZ-CLI-08
}

func TestBadPathsAndArgumentsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		ctx := t.Context()
		synctest.Wait()
		w.Server.ResetCounts()
		for _, path := range []string{"", "a", "/a/"} {
			assert.ErrorIs(t, testbed.Err(client.Get(ctx, path)), framework.ErrBadPath)
			assert.ErrorIs(t, testbed.Err(client.GetW(ctx, path)), framework.ErrBadPath)
			assert.ErrorIs(t, testbed.Err(client.ExistsW(ctx, path)), framework.ErrBadPath)
			assert.ErrorIs(t, testbed.Err(client.Create(ctx, path, nil)), framework.ErrBadPath)
			_, err := client.AddWatch(ctx, path, framework.WatchRecursive, func(zk.Event) {})
			assert.ErrorIs(t, err, framework.ErrBadPath)
			assert.ErrorIs(t, client.Delete(ctx, path), framework.ErrBadPath)
			err = client.Delete(ctx, path, framework.IfExists(), framework.Guaranteed())
			assert.ErrorIs(t, err, framework.ErrBadPath)
			assert.ErrorIs(t, testbed.Err(client.Multi(ctx, &zk.DeleteRequest{Path: path})), framework.ErrBadPath)
		}
		assert.ErrorIs(t, testbed.Err(client.Create(ctx, "/", nil)), framework.ErrBadPath)
		assert.ErrorIs(t, testbed.Err(client.AddWatch(ctx, "/a", 7, func(zk.Event) {})), framework.ErrBadArgument)
		for name, opts := range map[string][]framework.CreateOption{
			"mode": {framework.As(17)}, "empty ACL": {framework.ACL(nil)}, "TTL": {framework.TTL(0)},
			"TTL of an ephemeral": {framework.TTL(time.Second), framework.As(framework.Ephemeral)},
		} {
			assert.ErrorIs(t, testbed.Err(client.Create(ctx, "/a", nil, opts...)), framework.ErrBadArgument, name)
		}
		for name, ops := range map[string][]any{
			"none": {}, "nil": {nil}, "typed nil": {(*zk.DeleteRequest)(nil)}, "a stranger": {"delete"},
			"a TTL without a TTL": {&zk.CreateRequest{Path: "/a", Flags: zk.FlagTTL}},
			"a TTL of 0":          {&zk.CreateTTLRequest{Path: "/a", Flags: zk.FlagTTL}},
			"an ephemeral TTL":    {&zk.CreateTTLRequest{Path: "/a", Flags: zk.FlagEphemeral, Ttl: 1}},
			"typed nil TTL":       {(*zk.CreateTTLRequest)(nil)},
		} {
			assert.ErrorIs(t, testbed.Err(client.Multi(ctx, ops...)), framework.ErrBadArgument, name)
		}
		assert.Empty(t, w.Server.Requests().Requests)
	})
}

// TestNilDataAreEmpty, whatever the default data: null is never stored, because Java's recipes fail
// on it.
func TestNilDataAreEmpty(t *testing.T) { // KZ-CLI-06
	server := zktest.NewServer(t, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
	for _, opts := range [][]framework.Option{nil, {framework.WithDefaultData([]byte("default"))}, {framework.WithDefaultData(nil)}} {
		client := newClient(t, server, opts...)
		ctx := t.Context()
		empty := func(path string) {
			t.Helper()
			data, _, err := client.Get(ctx, path)
			require.NoError(t, err)
			require.Equal(t, []byte{}, data)
			require.NoError(t, client.Delete(ctx, path))
		}
		for _, o := range [][]framework.CreateOption{nil, {framework.OrSet()}, {framework.Idempotent()}, {framework.Protected()}, {framework.As(framework.EphemeralSequential)}} {
			path := testbed.Create(t, client, "/a", nil, o...)
			empty(path)
		}
		for _, o := range [][]framework.SetOption{nil, {framework.IfVersion(0), framework.Idempotent()}} {
			testbed.Create(t, client, "/a", []byte("x"))
			testbed.Set(t, client, "/a", nil, o...)
			empty("/a")
		}
		testbed.Create(t, client, "/b", []byte("x"))
		_, err := client.Multi(ctx, &zk.CreateRequest{Path: "/a"}, &zk.CreateTTLRequest{Path: "/c", Flags: zk.FlagTTL, Ttl: 1000}, &zk.SetDataRequest{Path: "/b"})
		require.NoError(t, err)
		empty("/a")
		empty("/b")
		empty("/c")
	}
}

func TestDefaultDataAreNeverNil(t *testing.T) {
	client := newClient(t, zktest.NewServer(t), framework.WithDefaultData(nil))
	require.Equal(t, []byte{}, engine.Of(client).DefaultData())
}

func TestMultiIsAllOrNothing(t *testing.T) { // CUR-CLI-68, -69
	server, client := start(t, framework.WithNamespace("ns"))
	ctx := t.Context()
	testbed.Create(t, client, "/a", []byte("0"), framework.ContainerParents())
	request := &zk.CreateRequest{Path: "/a/child-", Flags: zk.FlagSequence}
	responses, err := client.Multi(t.Context(), &zk.CheckVersionRequest{Path: "/a", Version: 0}, request, &zk.SetDataRequest{Path: "/a", Data: []byte("1"), Version: -1})
	require.NoError(t, err)
	require.Equal(t, "/a/child-0000000000", responses[1].String)
	require.Equal(t, &zk.CreateRequest{Path: "/a/child-", Flags: zk.FlagSequence}, request, "the caller's is not changed")
	responses, err = client.Multi(ctx, &zk.DeleteRequest{Path: "/a/child-0000000000", Version: -1}, &zk.CheckVersionRequest{Path: "/a", Version: 0})
	require.ErrorIs(t, err, zk.ErrBadVersion)
	require.Len(t, responses, 2)
	require.ErrorIs(t, responses[1].Error, zk.ErrBadVersion)
	require.NoError(t, testbed.Err(server.Get("/ns/a/child-0000000000")), "nothing was done")
}

func TestCancelledContextReturnsAtOnce(t *testing.T) {
	server, client := start(t)
	gate := server.Block(zktest.OnPath("/stuck"))
	defer gate.Open()
	ctx, cancel := context.WithCancelCause(t.Context())
	const n = 40 // go-zookeeper's queue holds 16, and blocks then
	results := make(chan error, n)
	for range n {
		go func() { results <- testbed.Err(client.Set(ctx, "/stuck", nil)) }() // ends with ctx
	}
	testbed.Receive(t, gate.Arrived(), "the first request")
	cancel(assert.AnError)
	unknown := 0
	for range n {
		err := testbed.Receive(t, results, "a cancelled caller")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, assert.AnError)
		if retry.Unknown(err) {
			unknown++
		}
	}
	require.Positive(t, unknown, "what was sent may be carried out")
	require.ErrorIs(t, testbed.Err(client.Get(ctx, "/")), context.Canceled, "beforehand")
}

func TestCreateModesAndParents(t *testing.T) { // CUR-CLI-41, -45, -46
	for name, c := range map[string]struct {
		server []zktest.Option
		client []framework.Option
		opt    framework.CreateOption
		want   string
	}{
		"containers":                  {opt: framework.ContainerParents(), want: " container"},
		"persistent":                  {opt: framework.PersistentParents()},
		"server without":              {server: []zktest.Option{zktest.WithoutContainers()}, opt: framework.ContainerParents()},
		"a client without containers": {client: []framework.Option{framework.WithoutContainers()}, opt: framework.ContainerParents()},
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t, c.server...)
			client := newClient(t, server, c.client...)
			path := testbed.Create(t, client, "/p/q/n-", []byte("x"), framework.As(framework.PersistentSequential), c.opt)
			require.Equal(t, "/p/q/n-0000000000", path)
			require.Equal(t, fmt.Sprintf("/p \"\"%s\n/p/q \"\"%s\n/p/q/n-0000000000 \"x\"\n", c.want, c.want), server.Tree())
		})
	}
	server := zktest.NewServer(t, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
	client := newClient(t, server)
	testbed.Create(t, client, "/ttl", []byte{}, framework.TTL(time.Minute))
	path := testbed.Create(t, client, "/ttl-", []byte{}, framework.TTL(time.Minute), framework.As(framework.PersistentSequential))
	require.Equal(t, "/ttl-0000000001", path)
	testbed.Create(t, client, "/box", []byte{}, framework.As(framework.Container))
	require.Equal(t, "/box \"\" container\n/ttl \"\" ttl 1m0s\n/ttl-0000000001 \"\" ttl 1m0s\n", server.Tree())
}

func TestGuaranteedDeleteOfAMissingNodeIsSuccess(t *testing.T) { // CURATOR-42
	server, client := start(t)
	require.NoError(t, client.Delete(t.Context(), "/none", framework.Guaranteed(), framework.IfExists()))
	require.ErrorIs(t, client.Delete(t.Context(), "/none", framework.Guaranteed()), zk.ErrNoNode)
	testbed.Create(t, client, "/a", nil)
	server.Inject(zktest.LoseReply, 0, zktest.OnOp("delete"))
	err := client.Delete(testbed.Context(t), "/a", framework.Guaranteed())
	require.NoError(t, err, "the first try may have removed it")
	testbed.Create(t, client, "/a/b", nil, framework.ContainerParents())
	require.ErrorIs(t, client.Delete(t.Context(), "/a", framework.IfExists(), framework.Guaranteed()), zk.ErrNotEmpty)
}

func TestWatchesOnOneNodeAreOneOnTheServer(t *testing.T) { // CURATOR-14, -654
	server, client := start(t)
	testbed.Create(t, client, "/a", nil)
	var watches []*framework.Watch
	for range 100 {
		w := testbed.GetW(t, client, "/a")
		require.Equal(t, zk.Event{}, w.Event())
		watches = append(watches, w)
	}
	require.Equal(t, 1, server.WatchCount())
	testbed.Set(t, client, "/a", nil)
	for _, w := range watches {
		testbed.Receive(t, w.Done(), "the change")
		require.Equal(t, zk.EventNodeDataChanged, w.Event().Type)
		require.Equal(t, "/a", w.Event().Path)
	}
	require.ErrorIs(t, testbed.Err(client.GetW(t.Context(), "/none")), zk.ErrNoNode)
	require.Zero(t, server.WatchCount(), "no watch on a node that is not there")
}

func TestExistsWatchesBothWays(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	ctx := t.Context()
	found, _, coming, err := client.ExistsW(ctx, "/a")
	require.NoError(t, err)
	require.False(t, found)
	testbed.Create(t, client, "/a", nil)
	testbed.Receive(t, coming.Done(), "the creation")
	require.Equal(t, zk.EventNodeCreated, coming.Event().Type)
	found, stat, going, err := client.ExistsW(ctx, "/a")
	require.NoError(t, err)
	require.True(t, found)
	require.NotNil(t, stat)
	children := testbed.ChildrenW(t, client, "/a")
	require.NoError(t, client.Delete(ctx, "/a"))
	testbed.Receive(t, going.Done(), "the deletion")
	require.Equal(t, zk.EventNodeDeleted, going.Event().Type)
	testbed.Receive(t, children.Done(), "the deletion")
	require.Equal(t, zk.EventNodeDeleted, children.Event().Type)
}

// TestACreateWhoseReplyWasLostSaysSo: a retry without options does not recognize its own node.
func TestACreateWhoseReplyWasLostSaysSo(t *testing.T) {
	server, client := start(t)
	server.Inject(zktest.LoseReply, 0, zktest.OnOp("create"))
	err := testbed.Err(client.Create(testbed.Context(t), "/a", nil))
	require.ErrorIs(t, err, zk.ErrNodeExists, "its own node")
	require.True(t, retry.Unknown(err))
	err = testbed.Err(client.Create(testbed.Context(t), "/a", nil))
	require.ErrorIs(t, err, zk.ErrNodeExists)
	require.False(t, retry.Unknown(err), "an earlier node")
}

// TestSetAndMultiTakeWhatCreateTakes sends 4 MB. In virtual time a busy machine does not lose the
// connection.
func TestSetAndMultiTakeWhatCreateTakes(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client(framework.WithMaxRequest(16 << 20))
		data := make([]byte, 4<<20)
		testbed.Create(t, client, "/n", data)
		testbed.Set(t, client, "/n", data)
		testbed.Must(client.Multi(t.Context(),
			&zk.SetDataRequest{Path: "/n", Data: data, Version: -1}, &zk.CreateRequest{Path: "/m", Data: data}))
		require.Equal(t, string(data), testbed.Get(t, client, "/m"))
	}, zktest.WithProperties(map[string]string{"jute.maxbuffer": "16777216"}))
}

func TestACLCallsFindTheirNodeInANamespace(t *testing.T) { // CUR-CLI-54
	_, client := start(t, framework.WithNamespace("ns"))
	ctx := testbed.Context(t)
	writeOnly := zk.WorldACL(zk.PermWrite)
	testbed.Create(t, client, "/a", nil, framework.ACL(writeOnly))
	require.ErrorIs(t, testbed.Err(client.SetACL(ctx, "/a", zk.WorldACL(zk.PermAll))), zk.ErrNoAuth)
	require.ErrorIs(t, testbed.Err(client.SetACL(ctx, "/none", zk.WorldACL(zk.PermAll))), zk.ErrNoNode)
	testbed.Create(t, client, "/b", nil, framework.ACL(zk.WorldACL(zk.PermWrite|zk.PermRead|zk.PermAdmin)))
	stat := testbed.Must(client.SetACL(ctx, "/b", zk.WorldACL(zk.PermAll), framework.IfVersion(0)))
	require.EqualValues(t, 1, stat.Aversion)
	acl, again, err := client.GetACL(ctx, "/b")
	require.NoError(t, err)
	require.Equal(t, zk.WorldACL(zk.PermAll), acl)
	require.Equal(t, stat, again)

	_, err = client.SetACL(ctx, "/b", writeOnly, framework.IfVersion(0)) // it is 1
	require.ErrorIs(t, err, zk.ErrBadVersion)
	require.Equal(t, zk.WorldACL(zk.PermAll), testbed.ACL(t, client, "/b"))
}
