package compressed_test

import (
	"context"
	"fmt"
	"path"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/admin"
	"github.com/gocurator/curator/framework/compressed"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/test/jvm"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/recipes/barrier"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/zktest"
)

// stored returns what the servers have, decompressed, and whether it is compressed.
func stored(t *testing.T, server *zktest.Server, path string) (string, bool) {
	t.Helper()
	data, err := server.Get(path)
	require.NoError(t, err, path)
	plain, err := compressed.Decode(data)
	if err != nil {
		return string(data), false
	}
	return string(plain), true
}

func TestWithCompression_EveryOperation(t *testing.T) {
	ctx := testbed.Context(t)
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t, framework.WithCompression(), framework.WithDefaultData([]byte("default")))
	is := func(path, want string) {
		t.Helper()
		data, packed := stored(t, server, path)
		require.True(t, packed, path)
		require.Equal(t, want, data, path)
		require.Equal(t, want, testbed.Get(t, client, path), path)
	}
	testbed.Create(t, client, "/a/b", []byte("text"), framework.ContainerParents())
	is("/a/b", "text")
	data, packed := stored(t, server, "/a")
	require.False(t, packed, "a parent has no data")
	require.Empty(t, data)
	testbed.Create(t, client, "/default", nil)
	is("/default", "") // nil is empty
	testbed.Create(t, client, "/empty", []byte{})
	is("/empty", "")
	_, err := client.Multi(ctx, &zk.CreateRequest{Path: "/multi", Data: []byte("one")}, &zk.SetDataRequest{Path: "/a/b", Data: []byte("two"), Version: -1})
	require.NoError(t, err)
	is("/multi", "one")
	is("/a/b", "two")
	protected := testbed.Create(t, client, "/protected", []byte("p"), framework.Protected(), framework.As(framework.EphemeralSequential))
	is(protected, "p")
	testbed.Create(t, client, "/large", make([]byte, 2<<20)) // larger than a request may be
	got, stat, watch, err := client.GetW(ctx, "/a/b")
	require.NoError(t, err)
	require.Equal(t, "two", string(got))
	require.Greater(t, int(stat.DataLength), 20)
	testbed.Set(t, client, "/a/b", []byte("three"), framework.IfVersion(stat.Version))
	testbed.Receive(t, watch.Done(), "the change")
	is("/a/b", "three")

	for range 2 {
		testbed.Create(t, client, "/orSet", []byte("s"), framework.OrSet())
		is("/orSet", "s")
		_, err = client.Create(ctx, "/idempotent", []byte("i"), framework.Idempotent())
		require.NoError(t, err, "it has the data")
		is("/idempotent", "i")
	}

	// As in Java, data that are not compressed are refused, empty ones too.
	require.NoError(t, server.Create("/plain", []byte("text")))
	for _, path := range []string{"/plain", "/a"} {
		_, _, err = client.Get(ctx, path)
		require.ErrorIs(t, err, framework.ErrNotCompressed)
		testbed.OneOp(t, err, "get", path)
		require.ErrorIs(t, testbed.Err(client.GetW(ctx, path)), framework.ErrNotCompressed)
	}
	results := testbed.Must(admin.MultiRead(ctx, client, admin.Read{Path: "/multi"}, admin.Read{Path: "/plain"}))
	require.Equal(t, "one", string(results[0].Data))
	require.ErrorIs(t, results[1].Err, framework.ErrNotCompressed)

	// The functions of this package compress once.
	require.NoError(t, testbed.Err(compressed.Create(ctx, client, "/once", []byte("o"))))
	is("/once", "o")
	require.NoError(t, testbed.Err(compressed.Set(ctx, client, "/once", []byte("p"))))
	got, _, err = compressed.Get(ctx, client, "/once")
	require.NoError(t, err)
	require.Equal(t, "p", string(got))
}

func TestWithCompression_EveryRecipe(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, world *testbed.World) {
		ctx := t.Context()
		one, two := world.Client(framework.WithCompression()), world.Client(framework.WithCompression())
		m := testbed.Must(mutex.New(one, "/mutex"))
		hold := testbed.Acquire(t, m)
		other := testbed.Must(mutex.New(two, "/mutex"))
		next := testbed.Go(func() error { // ends with the lock
			return other.Do(ctx, func(context.Context) error { return nil })
		})
		synctest.Wait()
		require.Empty(t, next)
		require.NoError(t, hold.Release())
		require.NoError(t, <-next)
		s := testbed.Must(semaphore.NewShared(one, "/semaphore", "/maximum"))
		maximum := testbed.Must(shared.Int32(one, "/maximum"))
		require.NoError(t, maximum.Set(ctx, 2))
		group := testbed.Must(s.AcquireN(ctx, 2))
		count := testbed.Must(shared.Int64(two, "/long"))
		require.EqualValues(t, 5, testbed.Must(count.Update(ctx, func(n int64) (int64, error) { return n + 5, nil })))
		kept := testbed.Must(node.Keep(ctx, one, "/kept", []byte("first")))
		require.NoError(t, kept.Set(ctx, []byte("second")))
		member := testbed.Must(node.Join(ctx, one, "/group", "id", []byte("payload")))
		b := testbed.Must(barrier.New(one, "/barrier"))
		require.NoError(t, b.Set(ctx))
		election := testbed.Must(leader.New(one, "/leader", leader.WithID("me")))
		term := testbed.Must(election.Campaign(ctx))
		observer := testbed.Must(leader.New(two, "/leader"))
		led := testbed.Must(observer.Leader(ctx))
		require.Equal(t, "me", led.ID)
		d := func(client *framework.Client) *discovery.Discovery[string] {
			d := testbed.Must(discovery.New[string](client, "/services"))
			return d
		}
		reg, err := d(one).Register(ctx, discovery.Instance[string]{Name: "orders", ID: "1", Address: "h", Port: 1, Payload: "p"})
		require.NoError(t, err)
		w := testbed.Must(d(two).Watch(ctx, "orders"))
		require.Len(t, w.Instances(), 1)
		require.Equal(t, "p", w.Instances()[0].Payload)
		c := testbed.Must(cache.New(two, "/"))
		require.NoError(t, c.Sync(ctx))
		for path, want := range map[string]string{"/kept": "second", "/group/id": "payload"} {
			n, found := c.Get(path)
			require.True(t, found, path)
			require.Equal(t, want, string(n.Data))
		}

		// Every node with data is compressed.
		var check func(dir string) int
		check = func(dir string) (nodes int) {
			children := testbed.ServerChildren(t, world.Server, dir)
			for _, child := range children {
				path := path.Join(dir, child)
				if path == "/zookeeper" {
					continue
				}
				if data, packed := stored(t, world.Server, path); data != "" {
					require.True(t, packed, path)
					nodes++
				}
				nodes += check(path)
			}
			return nodes
		}
		require.GreaterOrEqual(t, check("/"), 8)
		require.NoError(t, world.Server.Set("/kept", []byte("plain")))
		synctest.Wait()
		_, found := c.Get("/kept")
		require.False(t, found, "it is left out")
		for _, end := range []func() error{
			func() error { return group.Release() }, kept.Close, member.Close, func() error { return term.Release() },
			reg.Close, w.Close, c.Close,
		} {
			require.NoError(t, end())
		}
	})
}

// Curator 5.9.0 with enableCompression() and this client share locks, numbers and services.
func TestWithCompression_BesideJava(t *testing.T) {
	testlevel.Need(t, testlevel.Nightly)
	server := zktest.NewServer(t)
	java := jvm.Resolve(t, "curator", "../../test/interop/peers/curator/pom.xml").Compile(t, []string{"testdata/Compression.java"}).
		Start(t, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "Compression", server.Servers()[0])
	java.Await(t, "STARTED")
	tell := func(command string) {
		require.NoError(t, testbed.Err(fmt.Fprintln(java.Stdin, command)))
	}
	ask := func(command string) string {
		tell(command)
		return java.Await(t, "ANSWER")
	}
	ctx := t.Context()
	client := testbed.On(server).Client(t, framework.WithCompression())
	m := testbed.Must(mutex.New(client, "/lock"))
	for range 3 {
		hold := testbed.Acquire(t, m)
		tell("acquire")
		require.NoError(t, hold.Release())
		require.Equal(t, "ok", java.Await(t, "ANSWER"))
		done := testbed.Go(func() error { // ends with the lock
			return m.Do(ctx, func(context.Context) error { return nil })
		})
		require.Equal(t, "ok", ask("release"))
		require.NoError(t, <-done)
	}
	count := testbed.Must(shared.Int32(client, "/count"))
	require.NoError(t, count.Set(ctx, 7))
	for ask("count 8") != "7" { // Java hears of it by an event
		require.NoError(t, count.Set(ctx, 7))
	}
	n, _, err := count.Get(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 8, n)
	long := testbed.Must(shared.Int64(client, "/long"))
	require.NoError(t, testbed.Err(long.Update(ctx, func(n int64) (int64, error) { return n + 5, nil })))
	require.Equal(t, "6", ask("long"))
	for path, text := range map[string]string{"/empty": "", "/text": "text"} {
		testbed.Create(t, client, path, []byte(text))
		require.Equal(t, text, ask("get "+path))
	}
	require.Equal(t, "/java", ask("create /java text"))
	require.Equal(t, "text", testbed.Get(t, client, "/java"))
	d := testbed.Must(discovery.New[string](client, "/services"))
	reg, err := d.Register(ctx, discovery.Instance[string]{Name: "go", ID: "1", Address: "ours", Port: 1, Payload: "p"})
	require.NoError(t, err)
	require.Equal(t, "ours", ask("query go"))
	require.Equal(t, "ok", ask("register"))
	require.Len(t, testbed.Must(d.Lookup(ctx, "java")), 1)
	require.NoError(t, reg.Close())
}

// TestWithMaxDecompressed: longer data are neither written nor read.
func TestWithMaxDecompressed(t *testing.T) {
	ctx := testbed.Context(t)
	server := zktest.NewServer(t)
	roomy := testbed.On(server).Client(t, framework.WithCompression())
	long, short := make([]byte, 5000), make([]byte, 4096)
	for path, data := range map[string][]byte{"/long": long, "/short": short} {
		testbed.Create(t, roomy, path, data)
	}
	require.ErrorIs(t, testbed.Err(roomy.Create(ctx, "/16MB", make([]byte, 16<<20+1))), framework.ErrTooLarge)
	for name, client := range map[string]*framework.Client{
		"compressing": testbed.On(server).Client(t, framework.WithMaxDecompressed(4096), framework.WithCompression()),
		"plain":       testbed.On(server).Client(t, framework.WithMaxDecompressed(4096)),
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, testbed.Err(compressed.Get(ctx, client, "/short")))
			_, _, err := compressed.Get(ctx, client, "/long")
			tooLarge := func(err error, op, path string) {
				t.Helper()
				require.ErrorIs(t, err, framework.ErrTooLarge)
				testbed.OneOp(t, err, op, path)
			}
			tooLarge(err, "get", "/long")
			require.ErrorIs(t, err, framework.ErrNotCompressed)
			tooLarge(testbed.Err(compressed.Create(ctx, client, "/new", long)), "create", "/new")
			tooLarge(testbed.Err(compressed.Set(ctx, client, "/short", long)), "set", "/short")
			if name == "plain" {
				return
			}
			_, err = client.Multi(ctx, &zk.SetDataRequest{Path: "/short", Data: long, Version: -1})
			tooLarge(err, "multi", "/short")
			_, err = client.Multi(ctx, &zk.CreateRequest{Path: "/new", Data: long})
			require.ErrorIs(t, err, framework.ErrTooLarge)
		})
	}
}

// TestCacheDecodesOnItsOwnGoroutine: a read returns the data as stored, so the connection's
// goroutine does not decode them.
func TestCacheDecodesOnItsOwnGoroutine(t *testing.T) {
	client := testbed.InProcess(t).Client(t, framework.WithCompression())
	for _, path := range []string{"/a", "/b"} {
		testbed.Create(t, client, path, []byte("text"))
	}
	link := testbed.Must(engine.Of(client).Link(testbed.Context(t)))
	answers := make(chan []byte, 3)
	answer := func(data []byte, _ *zk.Stat, err error) {
		require.NoError(t, err)
		answers <- data
	}
	link.Get("/a", answer)
	link.GetAll([]string{"/a", "/b"}, func(_ int, data []byte, stat *zk.Stat, err error) { answer(data, stat, err) })
	for range cap(answers) {
		data := testbed.Receive(t, answers, "a reply")
		require.NotEqual(t, "text", string(data))
		require.Equal(t, "text", string(testbed.Must(link.Decode(data))))
	}
}
