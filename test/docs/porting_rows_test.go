package docs_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/admin"
	"github.com/gocurator/curator/framework/compressed"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/multilock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/revocable"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/sasl"
	"github.com/gocurator/curator/zktest"
)

// TestRows_AllTried requires that the names in the tables of FROM-JAVA.md and
// FROM-JAVA-DISCOVERY.md are used in the tests beside it.
func TestRows_AllTried(t *testing.T) {
	t.Chdir("../..")
	document, source := readAll(t, "docs/FROM-JAVA*.md"), readAll(t, "test/docs/porting_*_test.go")
	name := regexp.MustCompile(`\b(?:framework|retry|connstate|lock|mutex|semaphore|rwlock|multilock|revocable|leader|cache|node|discovery|zktest|admin|compressed|sasl|client|hold|server|group|term|m|s|l|e|c|n|g|ch|p|d|w|i|reg|Node|zk)\.([A-Z]\w+)`)
	tables := 0
	for line := range strings.Lines(document) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		for _, m := range name.FindAllStringSubmatch(line, -1) {
			tables++
			assert.True(t, regexp.MustCompile(`\.`+m[1]+`\b`).MatchString(source), "%s of %s", m[0], line)
		}
	}
	require.Greater(t, tables, 50)
}

func TestRows_Client(t *testing.T) {
	server := zktest.NewServer(t)
	ctx := testbed.Context(t)
	policy := retry.ExponentialBackoff(10*time.Millisecond, 3)
	client, err := framework.New(nil,
		framework.WithRetryPolicy(policy),
		framework.WithSessionTimeout(20*time.Second),
		framework.WithConnectionTimeout(15*time.Second),
		framework.WithNamespace("app"),
		framework.WithAuth("digest", []byte("user:secret")),
		framework.WithACLProvider(func(string) []zk.ACL { return zk.WorldACL(zk.PermAll) }),
		framework.WithDefaultData([]byte("default")),
		framework.WithServerList(func(context.Context) ([]string, error) { return server.Servers(), nil }),
		framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}),
		framework.WithErrorPolicy(connstate.SuspendedEndsHold),
		framework.WithExpirationPercent(100),
		framework.WithoutContainers())
	require.NoError(t, err)
	require.NoError(t, client.WaitConnected(ctx))
	defer func() { require.NoError(t, client.Shutdown(ctx)) }()
	require.Equal(t, connstate.Connected, client.State())
	secure := newClient(t, server, framework.WithTLS(&tls.Config{}))
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, secure.WaitConnected(short), context.DeadlineExceeded, "the server does not speak TLS")

	_, err = framework.New([]string{server.Addr()}, framework.WithTLSFiles("no such file", "", ""))
	require.ErrorIs(t, err, framework.ErrBadArgument)
	unknown := newClient(t, server, framework.WithSASL(sasl.DigestMD5("user", "secret")))
	require.ErrorIs(t, unknown.WaitConnected(ctx), zk.ErrAuthFailed, "the server has no users")

	other := testbed.Must(client.Namespace("other"))
	testbed.Create(t, other, "/n", nil)
	require.True(t, server.Exists("/other/n"))
	missing := testbed.Must(client.Namespace("missing"))
	_, _, err = missing.Children(ctx, "/")
	require.ErrorIs(t, err, zk.ErrNoNode, "Java's client makes the namespace for every operation")
	require.ErrorIs(t, testbed.Err(missing.Create(ctx, "/a/n", nil)), zk.ErrNoNode)
	require.ErrorIs(t, testbed.Err(missing.Multi(ctx, &zk.CreateRequest{Path: "/n"})), zk.ErrNoNode)

	states := make(chan connstate.State, 10)
	remove := testbed.Must(client.Listen(func(s connstate.State) { states <- s }))
	session := testbed.Must(client.Session(ctx))
	require.NoError(t, server.ExpireSession(session.ID()))
	for _, want := range []connstate.State{connstate.Suspended, connstate.Lost, connstate.Reconnected} {
		assert.Equal(t, want, <-states)
	}
	remove()
	require.ErrorIs(t, testbed.Err(client.In(session).Create(ctx, "/n", nil)), framework.ErrSessionLost)
	require.NoError(t, client.Close())
	require.ErrorIs(t, testbed.Err(client.Get(ctx, "/n")), framework.ErrClosed)
}

func TestRows_Operations(t *testing.T) {
	server := zktest.NewServer(t, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
	servers, chroot, err := framework.ParseConnectString(server.Addr() + "/chroot")
	require.NoError(t, err)
	client := testbed.NewClient(t, servers, framework.WithNamespace(chroot), framework.WithEnsembleTracking())
	ctx := testbed.Context(t)
	testbed.Create(t, client, "/set", []byte("1"), framework.PersistentParents(), framework.OrSet())
	testbed.Create(t, client, "/set", []byte("2"), framework.OrSet())
	require.True(t, server.Exists("/chroot/set"))
	require.NoError(t, client.Delete(ctx, "/missing", framework.IfExists()))
	for range 2 {
		testbed.Set(t, client, "/set", []byte("3"), framework.IfVersion(1), framework.Idempotent())
	}
	acl := zk.WorldACL(zk.PermAll)
	path, err := client.Create(ctx, "/a/b", []byte("1"), framework.PersistentParents(), framework.Protected(),
		framework.As(framework.PersistentSequential), framework.ACL(acl))
	require.NoError(t, err)
	dir, name := framework.Split(path)
	require.Equal(t, "/a", dir)
	require.Equal(t, path, framework.Join(dir, name))
	testbed.Create(t, client, "/c/d", nil, framework.ContainerParents())
	testbed.Create(t, client, "/ttl", nil, framework.TTL(time.Hour))

	var made zk.Stat
	stated := testbed.Must(client.Create(ctx, "/stat", nil, framework.StatTo(&made)))
	_, want, err := client.Exists(ctx, stated)
	require.NoError(t, err)
	require.Equal(t, *want, made)
	_, err = client.Multi(ctx, &zk.CreateRequest{Path: "/box", Flags: zk.FlagContainer}, &zk.CreateTTLRequest{Path: "/brief", Flags: zk.FlagTTL, Ttl: 60_000})
	require.NoError(t, err)
	reads := testbed.Must(admin.MultiRead(ctx, client, admin.Read{Path: path}, admin.Read{Path: dir, Children: true}))
	require.Equal(t, "1", string(reads[0].Data))
	require.Equal(t, []string{name}, reads[1].Children)
	require.Equal(t, 1, testbed.Must(admin.CountDescendants(ctx, client, dir)))
	require.Empty(t, testbed.Must(admin.Ephemerals(ctx, client, "/")))
	require.NoError(t, client.AddAuth(ctx, "digest", []byte("user:secret")))
	require.Contains(t, testbed.Must(admin.WhoAmI(ctx, client)), admin.Identity{Scheme: "digest", User: "user"})
	ensemble, changed, err := admin.WatchConfig(ctx, client)
	require.NoError(t, err)
	require.Empty(t, ensemble.Members, "it runs alone")
	require.NoError(t, server.Set("/zookeeper/config", []byte("version=1")))
	<-changed.Done()
	ensemble = testbed.Must(admin.Config(ctx, client))
	require.EqualValues(t, 1, ensemble.Version)
	_, err = admin.Reconfig(ctx, client, admin.Change{Leaving: []int64{1}}, ensemble.Version)
	require.ErrorIs(t, err, zk.ErrReconfigDisabled)

	data, stat, watch, err := client.GetW(ctx, path)
	require.NoError(t, err)
	require.Equal(t, "1", string(data))
	testbed.Set(t, client, path, []byte("2"), framework.IfVersion(stat.Version))
	<-watch.Done()
	require.Equal(t, zk.EventNodeDataChanged, watch.Event().Type)
	_, err = client.Set(ctx, path, []byte("3"), framework.IfVersion(stat.Version))
	require.ErrorIs(t, err, zk.ErrBadVersion)
	require.Equal(t, "2", testbed.Get(t, client, path))

	testbed.Must(compressed.Create(ctx, client, "/packed", []byte("3")))
	testbed.Must(compressed.Set(ctx, client, path, []byte("4")))
	data, _, err = client.Get(ctx, path)
	require.NoError(t, err)
	require.Equal(t, compressed.Encode([]byte("4")), data)
	data = testbed.Must(compressed.Decode(data))
	require.Equal(t, "4", string(data))
	data, _, err = compressed.Get(ctx, client, path)
	require.NoError(t, err)
	require.Equal(t, "4", string(data))
	require.NoError(t, testbed.Err(compressed.GetW(ctx, client, path)))

	_, _, gone, err := client.ExistsW(ctx, path)
	require.NoError(t, err)
	_, _, fewer, err := client.ChildrenW(ctx, dir)
	require.NoError(t, err)
	require.NoError(t, client.Delete(ctx, path, framework.Guaranteed()))
	<-gone.Done()
	<-fewer.Done()
	found, _, err := client.Exists(ctx, path)
	require.NoError(t, err)
	require.False(t, found)
	children, _, err := client.Children(ctx, dir)
	require.NoError(t, err)
	require.Empty(t, children)
	require.NoError(t, client.Sync(ctx))
	_, stat, err = client.GetACL(ctx, "/a")
	require.NoError(t, err)
	testbed.Must(client.SetACL(ctx, "/a", acl, framework.IfVersion(stat.Aversion)))
	testbed.Create(t, client, "/a", nil, framework.IfMissing())
	for _, err := range framework.Walk(ctx, client, "/a") {
		require.NoError(t, err)
	}
	testbed.Must(client.Multi(ctx, framework.CreateOp("/e", nil), framework.DeleteOp("/a")))
	require.NoError(t, client.Delete(ctx, "/e"))
	require.NoError(t, client.Delete(ctx, "/c", framework.IfExists(), framework.WithChildren()))
	require.False(t, server.Exists("/chroot/c"))
}

func TestRows_Watches(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	ctx := testbed.Context(t)
	testbed.Create(t, client, "/kept", nil)
	events := make(chan zk.Event, 10)
	w := testbed.Must(client.AddWatch(ctx, "/kept", framework.WatchRecursive, func(e zk.Event) { events <- e }))
	testbed.Set(t, client, "/kept", []byte("2"))
	require.Equal(t, zk.EventNodeDataChanged, (<-events).Type)
	w.Remove()
	<-w.Done()
}

func TestRows_Policies(t *testing.T) {
	for name, c := range map[string]struct {
		policy retry.Policy
		pauses int // -1: more than are tried
	}{
		"ExponentialBackoff":        {retry.ExponentialBackoff(time.Millisecond, 3), 3},
		"BoundedExponentialBackoff": {retry.BoundedExponentialBackoff(time.Millisecond, time.Second, 3), 3},
		"NTimes":                    {retry.NTimes(4, time.Millisecond), 4},
		"UntilElapsed":              {retry.UntilElapsed(time.Hour, time.Millisecond), -1},
		"Forever":                   {retry.Forever(time.Millisecond), -1},
		"one of cenkalti/backoff":   {retry.Policy(func() retry.BackOff { return backoff.WithMaxRetries(&backoff.ZeroBackOff{}, 2) }), 2},
	} {
		b, n := c.policy(), 0
		for n < 20 && b.NextBackOff() >= 0 {
			n++
		}
		if c.pauses < 0 {
			assert.Equal(t, 20, n, name)
		} else {
			assert.Equal(t, c.pauses, n, name)
		}
	}
}

func TestRows_Locks(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	ctx := testbed.Context(t)
	m, err := mutex.New(client, "/mutex", lock.WithData([]byte("me")), lock.WithMaxHold(time.Hour),
		lock.WithErrorPolicy(connstate.LostEndsHold), lock.WithRetention(time.Millisecond))
	require.NoError(t, err)
	hold := testbed.Must(m.Acquire(ctx))
	require.NoError(t, hold.Err())
	other := testbed.Must(mutex.New(newClient(t, server), "/mutex"))
	require.ErrorIs(t, testbed.Err(other.TryAcquire(ctx)), lock.ErrNotAcquired)
	err = patiently(t, ctx, lock.ErrNotAcquired, func(short context.Context) error {
		_, err := other.Acquire(short)
		return err
	})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, "me", string(testbed.Must(m.Participants(ctx))[0].Data))
	require.Positive(t, testbed.Must(hold.FencingToken(ctx)))
	testbed.Must(client.Multi(ctx, hold.Guard()))
	require.NoError(t, hold.Release())
	require.NoError(t, m.Do(ctx, func(context.Context) error { return nil }))

	kept := testbed.Must(mutex.New(client, "/kept", lock.WithRetention(time.Hour)))
	require.NoError(t, kept.Do(ctx, func(context.Context) error { return nil }))
	other = testbed.Must(mutex.New(newClient(t, server), "/kept"))
	_, err = other.TryAcquire(ctx) // it lists first, as Java does not
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, other.Do(ctx, func(context.Context) error { return nil }))

	marked := testbed.Must(mutex.New(client, "/marked", lock.WithLockDelay(time.Hour)))
	require.NoError(t, marked.Do(ctx, func(context.Context) error {
		children, _, err := client.Children(ctx, "/marked")
		require.Len(t, children, 2)
		require.True(t, slices.ContainsFunc(children, func(name string) bool { return strings.HasPrefix(name, "held-mark.") }))
		return err
	}))

	s := testbed.Must(semaphore.New(client, "/semaphore", 2))
	var group *lock.Group
	group = testbed.Must(s.AcquireN(ctx, 2))
	for _, hold := range group.Holds() {
		_, name := framework.Split(hold.Path())
		_, counted := lock.Sequence(name, "lease-")
		require.True(t, counted)
	}
	n, counted := lock.Sequence("backup-lock-0000000007", "lock-")
	require.True(t, counted)
	require.EqualValues(t, 7, n)
	require.NoError(t, group.Release())
	count := testbed.Must(shared.Int32(client, "/count"))
	pool := testbed.Must(semaphore.NewShared(client, "/shared", count.Path()))
	require.NoError(t, count.Set(ctx, 5))
	require.Equal(t, 5, testbed.Must(pool.Max(ctx)))
	group = testbed.Must(pool.AcquireN(ctx, 3))
	require.NoError(t, count.Set(ctx, 2))
	require.ErrorIs(t, testbed.Err(pool.TryAcquire(ctx)), lock.ErrNotAcquired)
	require.NoError(t, group.Err(), "a lower count ends no hold")
	require.NoError(t, group.Release())

	l := testbed.Must(rwlock.New(client, "/rwlock"))
	reading := testbed.Must(l.Read().Acquire(ctx))
	require.ErrorIs(t, testbed.Err(l.Write().Acquire(reading.Context())), rwlock.ErrUpgrade)
	require.NoError(t, reading.Release())
	writing := testbed.Must(l.Write().Acquire(ctx))
	reading = testbed.Must(l.Downgrade(writing.Context()))
	require.NoError(t, writing.Release())
	require.NoError(t, reading.Release())
	both := testbed.Must(multilock.New(m, l.Write()))
	group = testbed.Must(both.Acquire(ctx))
	require.NoError(t, group.Release())

	q := testbed.Must(lock.New(client, "/queue", "mine-", struct{ lock.Standard }{}))
	var _ lock.Driver = lock.Standard{}
	_, ours := lock.Driver.SortKey(lock.Standard{}, "mine-0000000001", "mine-")
	require.True(t, ours)
	hold = testbed.Must(q.Acquire(ctx))
	require.NoError(t, hold.Release())
}

func TestRows_Revocation(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	ctx := testbed.Context(t)
	m := testbed.Must(mutex.New(client, "/lock"))
	for name, ask := range map[string]func(path string) error{
		"Revoke":    func(path string) error { return revocable.Revoke(ctx, client, path) },
		"RevokeAll": func(string) error { _, err := revocable.RevokeAll(ctx, m); return err },
		"WithForce": func(path string) error {
			return revocable.Revoke(ctx, client, path, revocable.WithForce(time.Hour))
		},
	} {
		r := testbed.Must(revocable.New(m))
		hold := testbed.Must(r.Acquire(ctx))
		go func() { // ends with the revocation
			<-hold.Revoked()
			_ = hold.Release()
		}()
		require.NoError(t, ask(hold.Path()), name)
		<-hold.Done()
		require.ErrorIs(t, hold.Err(), lock.ErrReleased, name)
	}
}

func TestRows_Tests(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	fault := server.Inject(zktest.LoseReply, 0, zktest.OnOp("create"))
	testbed.Create(t, client, "/n", nil, framework.Protected())
	require.True(t, fault.Met())
	server.Stop()
	require.NoError(t, server.Restart())
	require.NoError(t, client.WaitConnected(testbed.Context(t)))

	cluster := zktest.NewCluster(t, 3)
	client = testbed.NewClient(t, cluster.Servers())
	members := cluster.Members()
	require.NoError(t, cluster.Lag(members[0], time.Millisecond))
	require.NoError(t, cluster.Partition(members[0]))
	cluster.Heal()
	testbed.Must(cluster.WaitLeader(testbed.Context(t)))
	testbed.Must(cluster.StopLeader())
	testbed.Create(t, client, "/n", nil)
}

// TestRows_Missing: what FROM-JAVA.md says to do instead of classes that have no
// counterpart.
func TestRows_Missing(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server, framework.WithLogger(slog.New(slog.DiscardHandler)), framework.WithObserver(framework.Observer{}))
	ctx := testbed.Context(t)
	require.NoError(t, framework.ValidatePath("/n"))

	testbed.Create(t, client, "/n", nil)

	// A persistent watcher.
	w := testbed.Must(client.AddWatch(ctx, "/n", framework.WatchRecursive, func(zk.Event) {}))
	server.CutConnections()
	<-w.Done()

	// A value that a cache follows.
	c := testbed.Must(cache.New(client, "/n", cache.WithDepth(0)))
	require.NoError(t, c.Close())
}

func TestTraps(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server, framework.WithDefaultData([]byte("host:pid")))
	ctx := testbed.Context(t)
	t.Run("nil data", func(t *testing.T) {
		testbed.Create(t, client, "/nil", nil)
		require.Empty(t, testbed.Get(t, client, "/nil"))
		testbed.Set(t, client, "/nil", nil)
		require.Empty(t, testbed.Get(t, client, "/nil"))
		testbed.Must(client.Multi(ctx, &zk.CreateRequest{Path: "/multi"}))
		require.Empty(t, testbed.Get(t, client, "/multi"))
	})
	t.Run("version 0", func(t *testing.T) {
		testbed.Create(t, client, "/version", nil)
		require.NoError(t, testbed.Err(client.Multi(ctx, &zk.SetDataRequest{Path: "/version"})), "it was never changed")
		for _, op := range []any{&zk.SetDataRequest{Path: "/version"}, &zk.DeleteRequest{Path: "/version"}, &zk.CheckVersionRequest{Path: "/version"}} {
			require.ErrorIs(t, testbed.Err(client.Multi(ctx, op)), zk.ErrBadVersion)
		}
		testbed.Must(client.Multi(ctx, framework.CheckOp("/version"), framework.SetOp("/version", nil), framework.DeleteOp("/version")))
	})
	t.Run("containers vanish", func(t *testing.T) {
		for dir, opt := range map[string]framework.CreateOption{"/containers": framework.ContainerParents(), "/persistent": framework.PersistentParents()} {
			testbed.Create(t, client, dir+"/n", nil, opt)
			require.NoError(t, client.Delete(ctx, dir+"/n"))
		}
		server.ReapContainers()
		require.False(t, server.Exists("/containers"))
		require.True(t, server.Exists("/persistent"))
	})
	t.Run("a leader selector's path", func(t *testing.T) {
		// What Java's LeaderSelector makes.
		testbed.Create(t, client, "/leader/lock-", nil, framework.ContainerParents(), framework.Protected(), framework.As(framework.EphemeralSequential))
		m := testbed.Must(mutex.New(client, "/leader"))
		require.ErrorIs(t, testbed.Err(m.TryAcquire(ctx)), lock.ErrNotAcquired, "it takes part in the election")
	})
	t.Run("contexts and releases", func(t *testing.T) {
		m := testbed.Must(mutex.New(client, "/lock", lock.WithReentry()))
		hold := testbed.Must(m.Acquire(ctx))
		other := testbed.Must(mutex.New(client, "/lock"))
		require.ErrorIs(t, testbed.Err(other.Acquire(hold.Context())), lock.ErrHeld)
		require.ErrorIs(t, testbed.Err(other.TryAcquire(lock.Outside(hold.Context()))), lock.ErrNotAcquired)
		again := make(chan error, 1)
		go func() { // ends with ctx
			h, err := m.Acquire(hold.Context())
			if err == nil {
				err = h.Release()
			}
			again <- err
		}()
		require.NoError(t, <-again, "re-entered from another goroutine")
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, testbed.Err(m.Acquire(short)), context.DeadlineExceeded, "it waits for itself")
		require.NoError(t, hold.Release())
		require.ErrorIs(t, hold.Release(), lock.ErrReleased)

		hold = testbed.Must(m.Acquire(ctx))
		require.NoError(t, client.Delete(ctx, hold.Path()))
		<-hold.Done()
		require.ErrorIs(t, hold.Release(), framework.ErrLost)

		hold = testbed.Must(m.Acquire(ctx))
		server.CutConnections()
		<-hold.Done()
		require.ErrorIs(t, hold.Err(), framework.ErrSuspended)
		require.NoError(t, hold.Release(), "the node was still there")
	})
	t.Run("shared count", func(t *testing.T) {
		count := testbed.Must(shared.Int32(client, "/count"))
		require.NoError(t, count.CompareAndSwap(ctx, shared.Version{}, 7))
		n, _, err := count.Get(ctx)
		require.NoError(t, err)
		data, stat, watch, err := client.GetW(ctx, "/count")
		require.NoError(t, err)
		require.Equal(t, n, int32(binary.BigEndian.Uint32(data)))
		more := slices.Clone(data)
		binary.BigEndian.PutUint32(more, 8)
		testbed.Set(t, client, "/count", more, framework.IfVersion(stat.Version))
		<-watch.Done()
		_, err = client.Set(ctx, "/count", more, framework.IfVersion(stat.Version))
		require.ErrorIs(t, err, zk.ErrBadVersion)
		n, _, err = count.Get(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 8, n)
	})
	t.Run("no server", func(t *testing.T) {
		lonely := testbed.NewClient(t, []string{"127.0.0.1:1"}, framework.WithConnectionTimeout(50*time.Millisecond),
			framework.WithRetryPolicy(retry.NTimes(1, time.Millisecond)))
		require.ErrorIs(t, nightly(ctx, lonely, func(context.Context) error { return nil }), zk.ErrNoServer)
		m := testbed.Must(mutex.New(testbed.NewClient(t, []string{"127.0.0.1:1"}), "/lock"))
		err := patiently(t, ctx, zk.ErrNoServer, func(short context.Context) error {
			_, err := m.Acquire(short)
			return err
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
	})
}

func TestRows_Compression(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server, framework.WithCompression())
	testbed.Create(t, client, "/compressed", []byte("data"))
	require.Equal(t, []byte{0x1f, 0x8b}, testbed.Must(server.Get("/compressed"))[:2], "gzip")
	require.Equal(t, "data", testbed.Get(t, client, "/compressed"))
}
