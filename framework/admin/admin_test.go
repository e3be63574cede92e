package admin_test

import (
	"context"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/admin"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestObserversSeeEachOperation, with the path that the error has.
func TestObserversSeeEachOperation(t *testing.T) {
	server := zktest.NewServer(t)
	var seen []framework.OperationEvent
	client := testbed.On(server).Client(t, framework.WithNamespace("ns"), framework.WithObserver(framework.Observer{
		Operation: func(_ context.Context, e framework.OperationEvent) { seen = append(seen, e) },
	}))
	ctx := testbed.Cancelled(t)
	for _, test := range []struct {
		op, path string
		try      func() error
	}{
		{"getConfig", "/zookeeper/config", func() error { return testbed.Err(admin.Config(ctx, client)) }},
		{"getConfig", "/zookeeper/config", func() error { return testbed.Err(admin.WatchConfig(ctx, client)) }},
		{"reconfig", "/zookeeper/config", func() error { _, err := admin.Reconfig(ctx, client, admin.Change{Leaving: []int64{1}}, -1); return err }},
		{"whoAmI", "/", func() error { return testbed.Err(admin.WhoAmI(ctx, client)) }},
		{"ephemerals", "/a", func() error { return testbed.Err(admin.Ephemerals(ctx, client, "/a")) }},
		{"multiRead", "/a", func() error { return testbed.Err(admin.MultiRead(ctx, client, admin.Read{Path: "/a"})) }},
		{"countDescendants", "/a", func() error { return testbed.Err(admin.CountDescendants(ctx, client, "/a")) }},
	} {
		seen = nil
		err := test.try()
		require.ErrorIs(t, err, context.Canceled)
		testbed.OneOp(t, err, test.op, test.path)
		require.Len(t, seen, 1, test.op)
		require.Equal(t, test.op+" "+test.path, seen[0].Op+" "+seen[0].Path)
		require.ErrorIs(t, seen[0].Err, context.Canceled)
	}
}

func TestWhoAmINamesAddressAndUsers(t *testing.T) {
	client := testbed.InProcess(t).Client(t, framework.WithAuth("digest", []byte("bob:secret")))
	ctx := testbed.Context(t)
	who := testbed.Must(admin.WhoAmI(ctx, client))
	require.Equal(t, []admin.Identity{{Scheme: "ip", User: "127.0.0.1"}, {Scheme: "digest", User: "bob"}}, who)
	require.NoError(t, client.AddAuth(ctx, "digest", []byte("eve:other")))
	require.Contains(t, testbed.Must(admin.WhoAmI(ctx, client)), admin.Identity{Scheme: "digest", User: "eve"})
}

func TestEphemeralsAreThoseOfTheSessionAtAPathAndBelow(t *testing.T) {
	server := zktest.NewServer(t)
	other, client := testbed.On(server).Client(t), testbed.On(server).Client(t)
	ctx := testbed.Context(t)
	for _, path := range []string{"/ns", "/ns/a"} {
		testbed.Create(t, client, path, nil)
	}
	for _, path := range []string{"/ns/a/2", "/ns/a/1", "/ns/ab", "/nsother"} {
		testbed.Create(t, client, path, nil, framework.As(framework.Ephemeral))
	}
	testbed.Create(t, other, "/ns/a/3", nil, framework.As(framework.Ephemeral))
	view := testbed.Namespace(t, client, "ns")
	for _, test := range []struct {
		client *framework.Client
		path   string
		want   []string
	}{
		{client, "/", []string{"/ns/a/1", "/ns/a/2", "/ns/ab", "/nsother"}},
		{client, "/ns/a", []string{"/ns/a/1", "/ns/a/2"}},
		{client, "/nsother", []string{"/nsother"}},
		{client, "/none", []string{}},
		{view, "/", []string{"/a/1", "/a/2", "/ab"}},
		{view, "/a", []string{"/a/1", "/a/2"}},
	} {
		require.Equal(t, test.want, testbed.Must(admin.Ephemerals(ctx, test.client, test.path)), test.path)
	}
	session := testbed.Session(t, client)
	testbed.On(server).ExpireSession(t, client)
	require.ErrorIs(t, testbed.Err(admin.Ephemerals(ctx, client.In(session), "/")), framework.ErrSessionLost)
	require.Empty(t, testbed.Must(admin.Ephemerals(ctx, client, "/")))
	require.ErrorIs(t, testbed.Err(admin.Ephemerals(ctx, client, "a")), framework.ErrBadPath)
}

func TestCountDescendants(t *testing.T) {
	server := zktest.NewServer(t)
	ctx := testbed.Context(t)
	testbed.Private(t, server, "/secret", "owner:secret")
	client := testbed.On(server).Client(t)
	testbed.Create(t, client, "/ns/a/b/c", nil, framework.PersistentParents())
	view := testbed.Namespace(t, client, "ns")
	for path, want := range map[string]int{"/": 3, "/a": 2, "/a/b/c": 0} {
		require.Equal(t, want, testbed.Must(admin.CountDescendants(ctx, view, path)), path)
	}
	require.ErrorIs(t, testbed.Err(admin.CountDescendants(ctx, view, "/none")), zk.ErrNoNode)
	require.ErrorIs(t, testbed.Err(admin.CountDescendants(ctx, client, "/secret")), zk.ErrNoAuth)
}
