package framework_test

import (
	"context"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// private creates a node that only this user may use.
func private(t *testing.T, server *zktest.Server, path, credentials string) {
	t.Helper()
	owner := newClient(t, server, framework.WithAuth("digest", []byte(credentials)))
	testbed.Create(t, owner, path, nil, framework.ACL(zk.AuthACL(zk.PermAll)))
	require.NoError(t, owner.Close()) // so that it presents nothing any more
}

func TestAddAuthCountsFromNowOnAndOnEachLaterConnection(t *testing.T) {
	server := zktest.NewServer(t)
	private(t, server, "/a", "bob:secret")
	private(t, server, "/b", "eve:other")
	client := newClient(t, server)
	ctx := testbed.Context(t)
	_, _, err := client.Get(ctx, "/a")
	require.ErrorIs(t, err, zk.ErrNoAuth)
	view := testbed.Namespace(t, client, "somewhere")
	require.NoError(t, view.AddAuth(ctx, "digest", []byte("bob:secret")))
	require.NoError(t, client.AddAuth(ctx, "digest", []byte("eve:other")))
	require.NoError(t, client.AddAuth(ctx, "digest", []byte("eve:other")), "again")
	check := func(when string) {
		t.Helper()
		for _, path := range []string{"/a", "/b"} {
			_, _, err := client.Get(ctx, path)
			require.NoError(t, err, when)
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
	server := zktest.NewServer(t)
	client := newClient(t, server)
	ctx := testbed.Context(t)
	session := testbed.Session(t, client)
	err := client.AddAuth(ctx, "kerberos", []byte("secret"))
	require.ErrorIs(t, err, zk.ErrAuthFailed)
	require.EqualError(t, err, `addAuth /: auth scheme "kerberos": zk: client authentication failed`, "without the credentials")
	_, _, err = client.Get(ctx, "/")
	require.NoError(t, err, "on another connection")
	require.NoError(t, session.Err())
	require.ErrorIs(t, client.AddAuth(ctx, "", nil), framework.ErrBadArgument)
}

func TestAddAuthWhoseAnswerIsLostIsRepeated(t *testing.T) {
	server := zktest.NewServer(t)
	private(t, server, "/a", "bob:secret")
	for _, fault := range testbed.Faults {
		var events []framework.OperationEvent
		client := newClient(t, server, framework.WithObserver(framework.Observer{
			Operation: func(_ context.Context, e framework.OperationEvent) { events = append(events, e) },
		}))
		ctx := testbed.Context(t)
		server.Inject(fault, 0, zktest.OnOp("auth"))
		require.NoError(t, client.AddAuth(ctx, "digest", []byte("bob:secret")), "%v", fault)
		require.Len(t, events, 1)
		require.Equal(t, "addAuth", events[0].Op)
		require.Equal(t, 2, events[0].Attempts)
		_, _, err := client.Get(ctx, "/a")
		require.NoError(t, err, "%v", fault)
	}
}
