package framework_test

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestEphemeralsAreThoseOfTheSessionAtAPathAndBelow(t *testing.T) {
	server := zktest.NewServer(t)
	other, client := newClient(t, server), newClient(t, server)
	ctx := testbed.Context(t)
	for _, path := range []string{"/ns", "/ns/a"} {
		_, err := client.Create(ctx, path, nil)
		require.NoError(t, err)
	}
	for _, path := range []string{"/ns/a/2", "/ns/a/1", "/ns/ab", "/nsother"} {
		_, err := client.Create(ctx, path, nil, framework.As(framework.Ephemeral))
		require.NoError(t, err)
	}
	_, err := other.Create(ctx, "/ns/a/3", nil, framework.As(framework.Ephemeral))
	require.NoError(t, err)
	view, err := client.Namespace("ns")
	require.NoError(t, err)
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
		got, err := test.client.Ephemerals(ctx, test.path)
		require.NoError(t, err)
		require.Equal(t, test.want, got, test.path)
	}
	session, err := client.Session(ctx)
	require.NoError(t, err)
	testbed.On(server).KillSession(t, client)
	_, err = client.Ephemerals(framework.InSession(ctx, session), "/")
	require.ErrorIs(t, err, framework.ErrSessionLost)
	got, err := client.Ephemerals(ctx, "/")
	require.NoError(t, err)
	require.Empty(t, got)
	_, err = client.Ephemerals(ctx, "a")
	require.ErrorIs(t, err, framework.ErrBadPath)
}

func TestCountDescendants(t *testing.T) {
	server := zktest.NewServer(t)
	private(t, server, "/secret", "bob:secret")
	client := newClient(t, server)
	ctx := testbed.Context(t)
	_, err := client.Create(ctx, "/ns/a/b/c", nil, framework.PersistentParents())
	require.NoError(t, err)
	view, err := client.Namespace("ns")
	require.NoError(t, err)
	for path, want := range map[string]int{"/": 3, "/a": 2, "/a/b/c": 0} {
		n, err := view.CountDescendants(ctx, path)
		require.NoError(t, err)
		require.Equal(t, want, n, path)
	}
	_, err = view.CountDescendants(ctx, "/none")
	require.ErrorIs(t, err, zk.ErrNoNode)
	_, err = client.CountDescendants(ctx, "/secret")
	require.ErrorIs(t, err, zk.ErrNoAuth)
}
