package framework_test

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestAddAuthCountsFromNowOnAndOnEachLaterConnection(t *testing.T) {
	server := zktest.NewServer(t)
	testbed.Private(t, server, "/a", "bob:secret")
	testbed.Private(t, server, "/b", "eve:other")
	client := newClient(t, server)
	ctx := testbed.Context(t)
	require.ErrorIs(t, testbed.Err(client.Get(ctx, "/a")), zk.ErrNoAuth)
	require.NoError(t, testbed.Namespace(t, client, "somewhere").AddAuth(ctx, "digest", []byte("bob:secret")))
	require.NoError(t, client.AddAuth(ctx, "digest", []byte("eve:other")))
	require.NoError(t, client.AddAuth(ctx, "digest", []byte("eve:other")), "again")
	check := func(when string) {
		t.Helper()
		for _, path := range []string{"/a", "/b"} {
			require.NoError(t, testbed.Err(client.Get(ctx, path)), when)
		}
	}
	check("at once")
	server.CutConnections()
	check("on the next connection")
	testbed.On(server).ExpireSession(t, client)
	check("in the next session")
	server.ResetCounts()
	server.CutConnections()
	check("again")
	counts := server.Requests().Requests
	require.Positive(t, counts["auth"])
	require.Zero(t, counts["auth"]%2, "each once on each connection")
}

func TestAddAuthThatIsRefusedIsNotKept(t *testing.T) {
	_, client := start(t)
	ctx := testbed.Context(t)
	session := testbed.Session(t, client)
	err := client.AddAuth(ctx, "kerberos", []byte("secret"))
	require.ErrorIs(t, err, zk.ErrAuthFailed)
	require.EqualError(t, err, `addAuth /: auth scheme "kerberos": zk: client authentication failed`, "without the credentials")
	require.NoError(t, testbed.Err(client.Get(ctx, "/")), "on another connection")
	require.NoError(t, session.Err())
	require.ErrorIs(t, client.AddAuth(ctx, "", nil), framework.ErrBadArgument)
}

func TestAddAuthWhoseAnswerIsLostIsRepeated(t *testing.T) {
	server := zktest.NewServer(t)
	testbed.Private(t, server, "/a", "bob:secret")
	for _, fault := range testbed.Faults {
		var events operations
		client := newClient(t, server, events.observe())
		ctx := testbed.Context(t)
		server.Inject(fault, 0, zktest.OnOp("auth"))
		require.NoError(t, client.AddAuth(ctx, "digest", []byte("bob:secret")), "%v", fault)
		require.Len(t, events, 1)
		require.Equal(t, "addAuth", events[0].Op)
		require.Equal(t, 2, events[0].Attempts)
		require.NoError(t, testbed.Err(client.Get(ctx, "/a")), "%v", fault)
	}
}
