package framework_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// checkOne checks that the created node exists, and no other one remains.
func checkOne(t *testing.T, s *testbed.Scenario, path string) {
	t.Helper()
	require.True(t, testbed.Exists(t, s.Subject, path))
	testbed.Eventually(t, func() bool { return strings.Count(s.Server.Tree(), "_c_") == 1 }, "exactly one node")
}

// TestProtectedCreateWithAnyRequestFailing checks that one node is created, and an ephemeral one
// belongs to the live session.
func TestProtectedCreateWithAnyRequestFailing(t *testing.T) { // CURATOR-45, -498, -644, CUR-CLI-23
	for _, mode := range []framework.Mode{framework.EphemeralSequential, framework.PersistentSequential} {
		testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
			path := testbed.Create(t, s.Subject, "/q/n-", nil,
				framework.As(mode), framework.Protected(), framework.ContainerParents())
			s.Spare(true)        // later requests are the test's own
			checkOne(t, s, path) // a session that ended did not take a persistent node along: it was swept
			if mode == framework.EphemeralSequential {
				require.Equal(t, testbed.Session(t, s.Subject).ID(), testbed.Stat(t, s.Subject, path).EphemeralOwner)
			}
		})
	}
}

func TestProtectedCreateThatIsNotRepeatedLeavesNothingOnError(t *testing.T) { // CUR-CLI-25
	for _, mode := range []framework.Mode{framework.EphemeralSequential, framework.PersistentSequential} {
		testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
			path, err := s.Subject.Create(testbed.Context(t), "/q/n-", nil,
				framework.As(mode), framework.Protected(), framework.PersistentParents())
			if err == nil {
				s.Spare(true)
				checkOne(t, s, path)
				return
			}
			testbed.Eventually(t, func() bool { return !strings.Contains(s.Server.Tree(), "_c_") }, "no node stays")
		}, framework.WithRetryPolicy(retry.Never()))
	}
}

// TestCleanUpOutlivesAFaultOfItsOwn has the reply of the create lost, and then any request of
// the search or the clean-up fail as well.
func TestCleanUpOutlivesAFaultOfItsOwn(t *testing.T) { // CURATOR-604, -79
	for name, policy := range map[string]retry.Policy{"search": retry.NTimes(5, 0), "clean-up": retry.Never()} {
		t.Run(name, func(t *testing.T) {
			testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
				s.Server.Inject(zktest.LoseReply, 0, zktest.OnOp("create"))
				path, err := s.Subject.Create(testbed.Context(t), "/n-", nil,
					framework.As(framework.PersistentSequential), framework.Protected())
				if err == nil {
					s.Spare(true)
					checkOne(t, s, path)
					return
				}
				require.ErrorIs(t, err, zk.ErrConnectionClosed)
				testbed.Eventually(t, func() bool { return s.Server.Tree() == "" }, "no node stays")
			}, framework.WithRetryPolicy(policy))
		})
	}
}

// TestCancelledProtectedCreateLeavesNoNode cancels while the server is busy with the create, or has
// just created the node.
func TestCancelledProtectedCreateLeavesNoNode(t *testing.T) { // CURATOR-79, -205
	for _, mode := range []framework.Mode{framework.EphemeralSequential, framework.PersistentSequential, framework.Persistent} {
		for _, made := range []bool{false, true} {
			for _, lost := range []bool{false, true} {
				t.Run(fmt.Sprintf("mode %d, made %v, connection lost %v", mode, made, lost), func(t *testing.T) {
					server, client := start(t)
					block := server.Block
					if made {
						block = server.BlockReplies
					}
					gate := block(zktest.OnOp("create"))
					defer gate.Open()
					ctx, cancel := context.WithCancel(testbed.Context(t))
					result := testbed.Go(func() error {
						return testbed.Err(client.Create(ctx, "/n", nil, framework.As(mode), framework.Protected()))
					})
					testbed.Receive(t, gate.Arrived(), "the create")
					cancel()
					require.ErrorIs(t, testbed.Receive(t, result, "the cancelled call"), context.Canceled)
					require.Equal(t, made, strings.Contains(server.Tree(), "_c_"))
					if lost {
						server.CutConnections()
					}
					gate.Open()
					require.NoError(t, client.Sync(testbed.Context(t)), "comes after the create")
					testbed.Eventually(t, func() bool { return server.Tree() == "" }, "no node stays")
				})
			}
		}
	}
}

// TestNodeOfAnEarlierSessionIsNotTakenForOurs ends the first session after it has created the node.
func TestNodeOfAnEarlierSessionIsNotTakenForOurs(t *testing.T) { // CURATOR-498, -653
	server, client := start(t)
	first := testbed.Session(t, client)
	var mu sync.Mutex
	var ids []string
	server.Block(zktest.OnOp("create"), zktest.On(func(r zktest.Request) bool {
		_, child := framework.Split(r.Path)
		_, id := framework.Unprotected(child)
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, id)
		return false
	}))
	server.Inject(zktest.ExpireAfter, 0, zktest.OnOp("create"))
	path := testbed.Create(t, client, "/n-", nil, framework.As(framework.PersistentSequential), framework.Protected())
	require.NotEqual(t, first.ID(), testbed.Session(t, client).ID())
	testbed.Eventually(t, func() bool { return strings.Count(server.Tree(), "_c_") == 1 }, "the old session's node is swept")
	_, child := framework.Split(path)
	_, id := framework.Unprotected(child)
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, ids, 2)
	require.NotEqual(t, ids[0], ids[1], "each session has a separate id")
	require.Equal(t, ids[1], id)
}

// TestAPathThatServersRefuseDoesNotTurnContainersOff: ZooKeeper refuses it with the code with which
// newer Keepers refuse containers.
func TestAPathThatServersRefuseDoesNotTurnContainersOff(t *testing.T) {
	server, client := start(t)
	_, err := client.Create(t.Context(), "/\U0001f600/x", nil, framework.ContainerParents())
	require.ErrorIs(t, err, framework.ErrBadPath)
	testbed.Create(t, client, "/a/b", []byte{}, framework.ContainerParents())
	require.Equal(t, "/a \"\" container\n/a/b \"\"\n", server.Tree())
}

func TestContainerThatIsReapedAtOnceIsMadeAgain(t *testing.T) { // CURATOR-308, -180
	server := zktest.NewServer(t)
	client, other := newClient(t, server), newClient(t, server)
	session := testbed.Session(t, client)
	// The node's second create follows the create of its parent: it is held back until the parent
	// is deleted.
	creates := 0
	gate := server.Block(zktest.OnSession(session.ID()), zktest.OnOp("create"), zktest.On(func(zktest.Request) bool {
		creates++
		return creates == 2
	}))
	defer gate.Open()
	result := testbed.Go(func() error {
		return testbed.Err(client.Create(testbed.Context(t), "/a/b/n", []byte{}, framework.ContainerParents()))
	})
	testbed.Receive(t, gate.Arrived(), "the second create")
	require.Equal(t, "/a \"\" container\n/a/b \"\" container\n", server.Tree())
	// A container is only reaped after it had a child.
	testbed.Create(t, other, "/a/b/x", nil)
	require.NoError(t, other.Delete(t.Context(), "/a/b/x"))
	server.ReapContainers()
	server.ReapContainers()
	testbed.Eventually(t, func() bool { return server.Tree() == "" }, "both containers are reaped")
	gate.Open()
	require.NoError(t, testbed.Receive(t, result, "the create"))
	require.Equal(t, "/a \"\" container\n/a/b \"\" container\n/a/b/n \"\"\n", server.Tree())
}

func TestParentsThatSomebodyElseMakesAreFine(t *testing.T) { // CUR-CLI-41
	server := zktest.NewServer(t)
	var results []<-chan error
	for i := range 10 {
		client := newClient(t, server)
		results = append(results, testbed.Go(func() error {
			return testbed.Err(client.Create(testbed.Context(t), fmt.Sprint("/a/b/c/", i), nil, framework.ContainerParents()))
		}))
	}
	for _, result := range results {
		require.NoError(t, testbed.Receive(t, result, "a create"))
	}
	require.Len(t, testbed.ServerChildren(t, server, "/a/b/c"), len(results))
}

func TestParentsCannotBeMadeBelowAnEphemeralNode(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	testbed.Create(t, client, "/e", nil, framework.As(framework.Ephemeral))
	_, err := client.Create(t.Context(), "/e/b/c", nil, framework.ContainerParents())
	require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals)
	var op *framework.OpError
	require.True(t, errors.As(err, &op))
	require.Equal(t, "/e/b/c", op.Path, "as the caller wrote it")
}

func TestParentsInANamespaceOfTheRoot(t *testing.T) { // CUR-CLI-47, -52
	server, client := start(t, framework.WithNamespace("deep/down"))
	require.False(t, testbed.Exists(t, client, "/"), "the namespace's own node")
	require.ErrorIs(t, testbed.Err(client.Exists(t.Context(), "")), framework.ErrBadPath)
	path := testbed.Create(t, client, "/", []byte{}, framework.As(framework.PersistentSequential), framework.ContainerParents())
	assert.Equal(t, "/0000000000", path)
	assert.Equal(t, "/deep \"\" container\n/deep/down \"\" container\n/deep/down/0000000000 \"\"\n", server.Tree())
	path, err := client.Create(t.Context(), "/", []byte{}, framework.As(framework.Ephemeral), framework.Protected())
	require.ErrorIs(t, err, framework.ErrBadPath)
	require.Empty(t, path)
	responses := testbed.Must(client.Multi(t.Context(), &zk.CreateRequest{Path: "/", Flags: zk.FlagSequence}))
	assert.Equal(t, "/0000000001", responses[0].String)
}

func TestCreateMakesTheNodeOfItsNamespaceOnly(t *testing.T) {
	for name, options := range map[string][]framework.CreateOption{
		"plain": nil, "protected": {framework.Protected(), framework.As(framework.EphemeralSequential)},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := start(t, framework.WithNamespace("deep/down"), framework.WithACLProvider(func(path string) []zk.ACL {
				if path == "/deep/down" {
					return zk.DigestACL(zk.PermRead|zk.PermCreate, "user", "password")
				}
				return nil
			}), framework.WithAuth("digest", []byte("user:password")))
			require.ErrorIs(t, testbed.Err(client.Create(t.Context(), "/a/b", nil, options...)), zk.ErrNoNode)
			require.Empty(t, server.Tree(), "/a is missing, whether or not the namespace is there")
			testbed.Create(t, client, "/a", nil, options...)
			require.Contains(t, server.Tree(), "/deep \"\" container\n/deep/down \"\" container\n/deep/down/")
			acl, _, err := client.GetACL(t.Context(), "/")
			require.NoError(t, err)
			require.Equal(t, int32(zk.PermRead|zk.PermCreate), acl[0].Perms, "the provider was asked")

			root := newClient(t, zktest.NewServer(t))
			_, err = root.Create(t.Context(), "/deep/down", nil, options...)
			require.ErrorIs(t, err, zk.ErrNoNode, "a path of the same name is no namespace")
		})
	}
}

func TestNamespaceOfAClientWithoutContainersIsPersistent(t *testing.T) {
	server, client := start(t, framework.WithNamespace("ns"), framework.WithoutContainers())
	testbed.Create(t, client, "/a", []byte{})
	require.Equal(t, "/ns \"\"\n/ns/a \"\"\n", server.Tree())
}

func TestProtectedNodeWithoutANameAndWithForeignNeighbours(t *testing.T) { // CURATOR-43
	server, client := start(t)
	// The protection of go-zookeeper panics.
	for _, foreign := range []string{"/_c_x", "/_c_", "/other"} {
		testbed.Create(t, client, foreign, nil)
	}
	injected := server.Inject(zktest.LoseReply, 0, zktest.OnOp("create"))
	path := testbed.Create(t, client, "/", nil, framework.As(framework.EphemeralSequential), framework.Protected())
	require.True(t, injected.Met())
	require.Regexp(t, `^/_c_[0-9a-f-]{36}-0000000003$`, path)
}

func TestModesHaveNames(t *testing.T) {
	for mode, name := range map[framework.Mode]string{
		framework.Persistent:           "persistent",
		framework.Ephemeral:            "ephemeral",
		framework.PersistentSequential: "persistent sequential",
		framework.EphemeralSequential:  "ephemeral sequential",
		framework.Container:            "container",
		framework.Mode(99):             "mode 99",
	} {
		require.Equal(t, name, mode.String())
	}
}

// TestTheNumberMakesAName: names that are none without the number of a sequential node.
func TestTheNumberMakesAName(t *testing.T) {
	server, client := start(t)
	for _, name := range []string{"", ".", "..", "x."} {
		path := testbed.Create(t, client, "/"+name, nil, framework.As(framework.PersistentSequential))
		require.Equal(t, "/"+name, path[:len(path)-10])
		require.Contains(t, server.Tree(), path+" ")
	}
	responses := testbed.Must(client.Multi(t.Context(), &zk.CreateRequest{Path: "/", Flags: zk.FlagSequence}))
	require.Equal(t, "/0000000004", responses[0].String)
	require.ErrorIs(t, testbed.Err(client.Multi(t.Context(), &zk.CreateRequest{Path: "/a/"})), framework.ErrBadPath)
	_, err := client.Create(t.Context(), "/a//", nil, framework.As(framework.PersistentSequential))
	require.ErrorIs(t, err, framework.ErrBadPath)
}

func TestMakingParentsDoesNotGetRoundACLs(t *testing.T) { // KZ-CLI-09
	server, owner := start(t, framework.WithAuth("digest", []byte("me:secret")))
	client := newClient(t, server)
	ctx := testbed.Context(t)
	testbed.Create(t, owner, "/mine", nil, framework.ACL(zk.AuthACL(zk.PermAll)))
	before := server.Tree()
	for _, parents := range []framework.CreateOption{framework.ContainerParents(), framework.PersistentParents()} {
		require.ErrorIs(t, testbed.Err(client.Create(ctx, "/mine/a/b", nil, parents)), zk.ErrNoAuth)
		_, err := client.Create(ctx, "/mine/a/b", nil, parents, framework.As(framework.EphemeralSequential), framework.Protected())
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.ErrorIs(t, testbed.Err(client.Create(ctx, "/mine/a/b", nil, parents, framework.OrSet())), zk.ErrNoAuth)
	}
	require.Equal(t, before, server.Tree())
	require.ErrorIs(t, testbed.Err(client.Create(ctx, "/ours/a/b", nil)), zk.ErrNoNode)
	testbed.Create(t, client, "/ours/a/b", nil, framework.ContainerParents())
	_, err := client.Create(ctx, "/ours/a/b", nil, framework.ContainerParents())
	require.ErrorIs(t, err, zk.ErrNodeExists)
	testbed.Create(t, owner, "/mine/a/b", nil, framework.ContainerParents())
	testbed.Create(t, owner, "/mine/open", nil, framework.ACL(zk.WorldACL(zk.PermAll)))
	_, err = client.Create(ctx, "/mine/open/a/b", nil, framework.ContainerParents())
	require.NoError(t, err, "what is there need not be made")
}

// A server's reply to a create does not say which node is missing. The error names the parent.
func TestCreateNamesTheMissingParent(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	ctx := testbed.Context(t)
	for path, parent := range map[string]string{"/config/app": "/config", "/a/b/": "/a/b"} {
		_, err := client.Create(ctx, path, nil, framework.As(framework.PersistentSequential))
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.EqualError(t, err, "create "+path+": parent "+parent+": zk: node does not exist")
		_, err = client.Multi(ctx, framework.CreateOp(path, nil, framework.As(framework.PersistentSequential)))
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.EqualError(t, err, "multi "+path+": operation 0, create "+path+": parent "+parent+": zk: node does not exist")
	}
}
