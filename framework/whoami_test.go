package framework_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestWhoAmINamesAddressAndUsers(t *testing.T) {
	client := newClient(t, zktest.NewServer(t), framework.WithAuth("digest", []byte("bob:secret")))
	ctx := testbed.Context(t)
	who, err := client.WhoAmI(ctx)
	require.NoError(t, err)
	require.Equal(t, []framework.Identity{{Scheme: "ip", User: "127.0.0.1"}, {Scheme: "digest", User: "bob"}}, who)
	require.NoError(t, client.AddAuth(ctx, "digest", []byte("eve:other")))
	who, err = client.WhoAmI(ctx)
	require.NoError(t, err)
	require.Contains(t, who, framework.Identity{Scheme: "digest", User: "eve"})
}
