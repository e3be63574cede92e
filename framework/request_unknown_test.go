package framework_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/admin"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// optionalOps are operations newer than ZooKeeper 3.4, by their names there.
func optionalOps(c *framework.Client) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"create2": func(ctx context.Context) error {
			return testbed.Err(c.Create(ctx, "/stat", nil, framework.StatTo(new(zk.Stat))))
		},
		"multiRead": func(ctx context.Context) error {
			return testbed.Err(admin.MultiRead(ctx, c, admin.Read{Path: "/"}))
		},
		"getEphemerals": func(ctx context.Context) error { return testbed.Err(admin.Ephemerals(ctx, c, "/")) },
		"getAllChildrenNumber": func(ctx context.Context) error {
			return testbed.Err(admin.CountDescendants(ctx, c, "/"))
		},
		"whoAmI": func(ctx context.Context) error { return testbed.Err(admin.WhoAmI(ctx, c)) },
	}
}

// TestServersOfTodayKnowAllOperations asks real servers as well.
func TestServersOfTodayKnowAllOperations(t *testing.T) {
	testbed.Run(t, []testbed.Case{{Name: "each is answered", Test: func(t *testing.T, bed *testbed.Bed) {
		client := bed.Client(t, framework.WithNamespace(strings.Trim(testbed.Path(t), "/")))
		ctx := testbed.Context(t)
		testbed.Create(t, client, "/a", nil, framework.As(framework.Ephemeral))
		for name, try := range optionalOps(client) {
			require.NoError(t, try(ctx), name)
		}
		require.Equal(t, []string{"/a"}, testbed.Must(admin.Ephemerals(ctx, client, "/")))
		results, err := admin.MultiRead(ctx, client, admin.Read{Path: "/none"}, admin.Read{Path: "/", Children: true})
		require.NoError(t, err)
		require.ErrorIs(t, results[0].Err, zk.ErrNoNode)
		require.ElementsMatch(t, []string{"a", "stat"}, results[1].Children)
		responses := testbed.Must(client.Multi(t.Context(), &zk.CreateRequest{Path: "/box", Flags: zk.FlagContainer}))
		require.NotZero(t, responses[0].Stat.Czxid)

		require.NoError(t, client.AddAuth(ctx, "digest", []byte("bob:secret")))
		require.ErrorIs(t, client.AddAuth(ctx, "kerberos", nil), zk.ErrAuthFailed)
		who := testbed.Must(admin.WhoAmI(ctx, client))
		require.Contains(t, who, admin.Identity{Scheme: "digest", User: "bob"}, "on the next connection, too")
	}}})
}

// TestAKeeperCostsNoSession: a Keeper closes the connection when it does not know an operation, and
// restores no session.
func TestAKeeperCostsNoSession(t *testing.T) {
	for name, keeper := range map[string]struct {
		age      string
		migrated bool // with the data of a ZooKeeper
	}{
		"old": {age: "old"}, "recent": {age: "recent"}, "new": {age: "new"},
		"newest":           {age: "newest"},
		"old, migrated":    {"old", true},
		"recent, migrated": {"recent", true},
		"new, migrated":    {"new", true},
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t, zktest.LikeKeeper(keeper.age), zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
			if keeper.migrated {
				require.NoError(t, server.Create("/zookeeper/config", nil))
			}
			client := newClient(t, server)
			ctx := testbed.Context(t)
			session := testbed.Session(t, client)
			testbed.Create(t, client, "/a/b/c", []byte{}, framework.ContainerParents())
			require.Contains(t, server.Tree(), "/a \"\"\n/a/b \"\"\n/a/b/c \"\"\n", "persistent parents")
			_, err := client.Create(ctx, "/box", nil, framework.As(framework.Container))
			require.ErrorIs(t, err, framework.ErrUnimplemented)
			_, err = client.Create(ctx, "/lease", nil, framework.TTL(1e9))
			require.ErrorIs(t, err, framework.ErrUnimplemented)
			for name, try := range optionalOps(client) {
				err := try(ctx)
				require.ErrorIs(t, err, framework.ErrUnimplemented, name)
				require.ErrorContains(t, err, "the server has no "+name)
			}
			for _, mode := range []framework.WatchMode{framework.WatchPersistent, framework.WatchRecursive} {
				_, err = client.AddWatch(ctx, "/a", mode, func(zk.Event) {})
				require.ErrorIs(t, err, framework.ErrWatchUnsupported)
			}
			w := testbed.GetW(t, client, "/a")
			testbed.Set(t, client, "/a", nil)
			testbed.Receive(t, w.Done(), "the change")
			require.NoError(t, session.Err())
			counts := server.Requests().Requests
			for _, op := range []string{
				"createContainer", "createTTL", "addWatch", "exists",
				"create2", "multiRead", "getEphemerals", "getAllChildrenNumber", "whoAmI",
			} {
				require.Zero(t, counts[op], "%v", op)
			}
		})
	}
}

// TestAContainerOfAKeeperHasNoOwner: new Keepers show an owner that is no session. Another client
// has created the container.
func TestAContainerOfAKeeperHasNoOwner(t *testing.T) {
	server := zktest.NewServer(t, zktest.LikeKeeper("newest"))
	other, _, err := zk.Connect(server.Servers(), 10*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, testbed.Err(other.CreateContainer("/locks", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))))
	_, shown, err := other.Get("/locks")
	require.NoError(t, err)
	require.NotZero(t, shown.EphemeralOwner)

	client, ctx := newClient(t, server), testbed.Context(t)
	_, stat, err := client.Get(ctx, "/locks")
	require.NoError(t, err)
	require.Zero(t, stat.EphemeralOwner)
	testbed.Create(t, client, "/locks/a", nil, framework.ContainerParents())
}

func TestAWatchThatHasWorkedStaysKnown(t *testing.T) {
	server, client := start(t)
	_, err := client.AddWatch(testbed.Context(t), "/a", framework.WatchRecursive, func(zk.Event) {})
	require.NoError(t, err, "the servers know it")
	server.Inject(zktest.FailBefore, 0, zktest.OnOp("addWatch")) // say, a rolling restart
	server.Inject(zktest.FailBefore, 0, zktest.OnOp("addWatch"))
	testbed.AddWatch(t, client, "/b", framework.WatchRecursive, func(zk.Event) {})
}

func TestContainersThatHaveWorkedStayKnown(t *testing.T) {
	server, client := start(t)
	testbed.Create(t, client, "/a/b", []byte{}, framework.ContainerParents())
	require.Contains(t, server.Tree(), "/a \"\" container")
	server.Inject(zktest.FailBefore, 0, zktest.OnOp("createContainer"))
	server.Inject(zktest.FailBefore, 0, zktest.OnOp("createContainer"))
	testbed.Create(t, client, "/x/y", []byte{}, framework.ContainerParents())
	testbed.Create(t, client, "/z/y", []byte{}, framework.ContainerParents())
	require.Contains(t, server.Tree(), "/x \"\" container", "a persistent parent is never deleted")
	require.Contains(t, server.Tree(), "/z \"\" container")
}
