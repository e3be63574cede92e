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
			want := testbed.Stat(t, client, path)
			require.Equal(t, *want, stat)
			require.NotZero(t, stat.Czxid)
		})
	}
	stat := zk.Stat{Version: 7}
	_, err := client.Create(ctx, "/persistent", nil, framework.StatTo(&stat))
	require.ErrorIs(t, err, zk.ErrNodeExists)
	require.Equal(t, zk.Stat{Version: 7}, stat, "unchanged")
	_, err = client.Create(ctx, "/a", nil, framework.StatTo(nil))
	require.ErrorIs(t, err, framework.ErrBadArgument)
}

func TestStatToOfAProtectedNodeWhoseCreationWasNotAnswered(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	server.Inject(zktest.LoseReply, 0, zktest.OnOp("create2"))
	var stat zk.Stat
	path := testbed.Create(t, client, "/a", nil, framework.Protected(), framework.StatTo(&stat))
	want := testbed.Stat(t, client, path)
	require.Equal(t, *want, stat)
}

func TestStatToOnAKeeperIsRefused(t *testing.T) {
	server := zktest.NewServer(t, zktest.LikeKeeper("old"))
	client := newClient(t, server)
	var stat zk.Stat
	_, err := client.Create(testbed.Context(t), "/a", nil, framework.StatTo(&stat))
	require.ErrorIs(t, err, framework.ErrUnimplemented)
	require.EqualError(t, err, "create /a: the server has no create2: zk: unimplemented (-6)")
	require.Zero(t, server.Requests().Requests["create2"])
}
