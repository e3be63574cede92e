package framework_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// idempotentCalls are the three operations on a node that exists at version 0 with data "old",
// except for create.
var idempotentCalls = map[string]struct {
	prepare func(s *zktest.Server) error
	do      func(ctx context.Context, c *framework.Client) error
	tree    string // after it
	rival   func(s *zktest.Server) error
	refused error // after the rival
}{
	"create": {
		prepare: func(*zktest.Server) error { return nil },
		do: func(ctx context.Context, c *framework.Client) error {
			return testbed.Err(c.Create(ctx, "/a", []byte("new"), framework.Idempotent()))
		},
		tree: "/a \"new\"\n",
		// the same data at another version
		rival:   func(s *zktest.Server) error { return s.Set("/a", []byte("new")) },
		refused: zk.ErrNodeExists,
	},
	"set": {
		prepare: func(s *zktest.Server) error { return s.Create("/a", []byte("old")) },
		do: func(ctx context.Context, c *framework.Client) error {
			return testbed.Err(c.Set(ctx, "/a", []byte("new"), framework.IfVersion(0), framework.Idempotent()))
		},
		tree:    "/a \"new\"\n",
		rival:   func(s *zktest.Server) error { return s.Set("/a", []byte("new")) }, // likewise
		refused: zk.ErrBadVersion,
	},
	"delete": {
		prepare: func(s *zktest.Server) error { return s.Create("/a", []byte("old")) },
		do: func(ctx context.Context, c *framework.Client) error {
			return c.Delete(ctx, "/a", framework.IfVersion(0), framework.Idempotent())
		},
		rival: func(s *zktest.Server) error { // a new node at another version
			if err := s.Create("/a", []byte("rival")); err != nil {
				return err
			}
			return s.Set("/a", []byte("rival"))
		},
		refused: zk.ErrBadVersion,
	},
}

// TestIdempotent fails each request of each operation in each way, and repeats the call.
func TestIdempotent(t *testing.T) { // CUR-CLI-34, -35, -37 to -39
	for name, c := range idempotentCalls {
		t.Run(name, func(t *testing.T) {
			testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
				require.NoError(t, c.prepare(s.Server))
				for range 2 {
					require.NoError(t, c.do(t.Context(), s.Subject))
					require.Equal(t, c.tree, s.Server.Tree())
				}
			})
		})
	}
}

// TestIdempotentAfterARival has a rival write between the request whose reply was lost and its
// repetition.
func TestIdempotentAfterARival(t *testing.T) {
	for name, c := range idempotentCalls {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			subject := w.Client()
			require.NoError(t, c.prepare(w.Server))
			pause := pausing{make(chan struct{}), make(chan struct{})}
			paused := w.Client(framework.WithRetryPolicy(func() retry.BackOff { return pause }))
			lost := w.Server.Inject(zktest.LoseReply, 0)
			result := testbed.Go(func() error { return c.do(t.Context(), paused) })
			<-pause.begun // the first try has ended
			require.True(t, lost.Met())
			require.NoError(t, c.rival(w.Server))
			close(pause.end)
			err := <-result
			require.ErrorIs(t, err, c.refused)
			require.True(t, retry.Unknown(err), "the first try was carried out")
			err = c.do(t.Context(), subject)
			require.ErrorIs(t, err, c.refused)
			require.False(t, retry.Unknown(err))
		})
	}
}

// pausing is a pause that the test ends.
type pausing struct{ begun, end chan struct{} }

func (p pausing) Reset() {}

func (p pausing) NextBackOff() time.Duration {
	p.begun <- struct{}{}
	<-p.end
	return 0
}

// TestIdempotentWithOtherData: a node of the same version with other data does not match.
func TestIdempotentWithOtherData(t *testing.T) {
	server := zktest.NewServer(t)
	client, ctx := newClient(t, server), testbed.Context(t)
	require.NoError(t, server.Create("/a", []byte("rival")))
	_, err := client.Create(ctx, "/a", []byte("new"), framework.Idempotent())
	require.ErrorIs(t, err, zk.ErrNodeExists)
	require.EqualError(t, err, "create /a: zk: node already exists")
	require.NoError(t, server.Set("/a", []byte("rival")))
	_, err = client.Set(ctx, "/a", []byte("new"), framework.IfVersion(0), framework.Idempotent())
	require.ErrorIs(t, err, zk.ErrBadVersion)
	testbed.Set(t, client, "/a", []byte("rival"), framework.IfVersion(1), framework.Idempotent())
	_, err = client.Set(ctx, "/a", []byte("rival"), framework.IfVersion(0), framework.Idempotent())
	require.ErrorIs(t, err, zk.ErrBadVersion, "it was written twice since")
	_, err = client.Set(ctx, "/b", nil, framework.IfVersion(0), framework.Idempotent())
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.ErrorIs(t, client.Delete(ctx, "/a", framework.IfVersion(7), framework.Idempotent()), zk.ErrBadVersion)
}

// TestIdempotentCreateOfAnEphemeralNode accepts only a node of the same kind and session.
func TestIdempotentCreateOfAnEphemeralNode(t *testing.T) {
	server := zktest.NewServer(t)
	client, other, ctx := newClient(t, server), newClient(t, server), testbed.Context(t)
	ephemeral := framework.As(framework.Ephemeral)
	var stat zk.Stat
	for range 2 {
		path, err := client.Create(ctx, "/a", []byte("x"), ephemeral, framework.Idempotent(), framework.StatTo(&stat))
		require.NoError(t, err)
		require.Equal(t, "/a", path)
	}
	require.NotZero(t, stat.EphemeralOwner)
	_, err := other.Create(ctx, "/a", []byte("x"), ephemeral, framework.Idempotent())
	require.ErrorIs(t, err, zk.ErrNodeExists, "of another session")
	_, err = client.Create(ctx, "/a", []byte("x"), framework.Idempotent())
	require.ErrorIs(t, err, zk.ErrNodeExists, "not persistent")
	testbed.Create(t, client, "/p", []byte("x"))
	_, err = client.Create(ctx, "/p", []byte("x"), ephemeral, framework.Idempotent())
	require.ErrorIs(t, err, zk.ErrNodeExists, "persistent")
}

// TestIdempotentCreateInTheNextSession: the node that exists is of this call's earlier session, and
// would be deleted with it.
func TestIdempotentCreateInTheNextSession(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		session := testbed.Session(t, c)
		lost := w.Server.Inject(zktest.ExpireAfter, 0, zktest.OnOp("create"))
		testbed.Create(t, c, "/a", []byte("x"), framework.As(framework.Ephemeral), framework.Idempotent())
		require.True(t, lost.Met())
		next := testbed.Session(t, c)
		require.NotEqual(t, session.ID(), next.ID())
		require.Equal(t, next.ID(), testbed.Stat(t, c, "/a").EphemeralOwner)
	})
}

func TestOptionsThatDoNotGoTogether(t *testing.T) {
	server := zktest.NewServer(t)
	client, ctx := newClient(t, server), testbed.Context(t)
	for name, opts := range map[string][]framework.CreateOption{
		"protected":          {framework.Idempotent(), framework.Protected()},
		"sequential":         {framework.Idempotent(), framework.As(framework.PersistentSequential)},
		"set or accept":      {framework.OrSet(), framework.Idempotent()},
		"set protected":      {framework.OrSet(), framework.Protected()},
		"set a sequential":   {framework.OrSet(), framework.As(framework.EphemeralSequential)},
		"nil":                {nil},
		"missing protected":  {framework.IfMissing(), framework.Protected()},
		"missing ephemeral":  {framework.IfMissing(), framework.As(framework.Ephemeral)},
		"missing sequential": {framework.IfMissing(), framework.As(framework.PersistentSequential)},
		"missing or set":     {framework.IfMissing(), framework.OrSet()},
		"missing or accept":  {framework.IfMissing(), framework.Idempotent()},
	} {
		require.ErrorIs(t, testbed.Err(client.Create(ctx, "/a", nil, opts...)), framework.ErrBadArgument, name)
	}
	for name, opts := range map[string][]framework.DeleteOption{
		"nil":         {nil},
		"any version": {framework.IfVersion(-1)},
		"guaranteed":  {framework.Guaranteed(), framework.IfVersion(0)},
	} {
		require.ErrorIs(t, client.Delete(ctx, "/a", opts...), framework.ErrBadArgument, name)
	}
	for name, opts := range map[string][]framework.SetOption{"nil": {nil}, "any version": {framework.IfVersion(-1)}} {
		require.ErrorIs(t, testbed.Err(client.Set(ctx, "/a", nil, opts...)), framework.ErrBadArgument, name)
	}
	for name, opts := range map[string][]framework.SetACLOption{"nil": {nil}, "any version": {framework.IfVersion(-1)}} {
		_, err := client.SetACL(ctx, "/a", zk.WorldACL(zk.PermAll), opts...)
		require.ErrorIs(t, err, framework.ErrBadArgument, name)
	}
	require.Empty(t, server.Tree())
}

// TestIdempotentCreateWithATTL accepts a node with a TTL, and no ephemeral one: it would disappear
// with the session of its owner.
func TestIdempotentCreateWithATTL(t *testing.T) {
	server := zktest.NewServer(t, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
	client, other := testbed.On(server).Client(t), testbed.On(server).Client(t)
	ttl := framework.TTL(time.Hour)
	for range 2 {
		testbed.Create(t, client, "/ttl", []byte("x"), ttl, framework.Idempotent())
	}
	testbed.Create(t, other, "/ephemeral", []byte("x"), framework.As(framework.Ephemeral))
	_, err := client.Create(testbed.Context(t), "/ephemeral", []byte("x"), ttl, framework.Idempotent())
	require.ErrorIs(t, err, zk.ErrNodeExists)
}

// TestIdempotentWithoutTheRightToRead: the reply to the write stands, since the node cannot be
// compared.
func TestIdempotentWithoutTheRightToRead(t *testing.T) {
	client, ctx := newClient(t, zktest.NewServer(t)), testbed.Context(t)
	secret := framework.ACL([]zk.ACL{{Perms: zk.PermAll &^ zk.PermRead, Scheme: "world", ID: "anyone"}})
	testbed.Create(t, client, "/a", []byte("x"), secret)
	_, err := client.Set(ctx, "/a", []byte("y"), framework.IfVersion(7), framework.Idempotent())
	require.ErrorIs(t, err, zk.ErrBadVersion)
	_, err = client.Create(ctx, "/a", []byte("x"), secret, framework.Idempotent())
	require.ErrorIs(t, err, zk.ErrNodeExists)
}
