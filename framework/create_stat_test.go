package framework_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestStatToIsTheStatOfTheNewNode(t *testing.T) {
	server := zktest.NewServer(t, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
	client := newClient(t, server, framework.WithNamespace("ns"))
	ctx := testbed.Context(t)
	for name, opts := range map[string][]framework.CreateOption{
		"persistent": {framework.As(framework.Persistent)},
		"ephemeral":  {framework.As(framework.Ephemeral)},
		"sequential": {framework.As(framework.PersistentSequential)},
		"container":  {framework.As(framework.Container)},
		"ttl":        {framework.TTL(time.Minute)},
		"parents/a":  {framework.ContainerParents()},
		"protected":  {framework.Protected(), framework.As(framework.EphemeralSequential)},
	} {
		t.Run(name, func(t *testing.T) {
			var stat zk.Stat
			path := testbed.Create(t, client, "/"+name, []byte("data"), append(opts, framework.StatTo(&stat))...)
			require.Equal(t, *testbed.Stat(t, client, path), stat)
			require.NotZero(t, stat.Czxid)
		})
	}
	stat := zk.Stat{Version: 7}
	require.ErrorIs(t, testbed.Err(client.Create(ctx, "/persistent", nil, framework.StatTo(&stat))), zk.ErrNodeExists)
	require.Equal(t, zk.Stat{Version: 7}, stat, "unchanged")
	require.ErrorIs(t, testbed.Err(client.Create(ctx, "/a", nil, framework.StatTo(nil))), framework.ErrBadArgument)
}

func TestStatToOfAProtectedNodeWhoseCreationWasNotAnswered(t *testing.T) {
	server, client := start(t)
	server.Inject(zktest.LoseReply, 0, zktest.OnOp("create2"))
	var stat zk.Stat
	path := testbed.Create(t, client, "/a", nil, framework.Protected(), framework.StatTo(&stat))
	require.Equal(t, *testbed.Stat(t, client, path), stat)
}
