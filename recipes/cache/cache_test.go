package cache_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watchMode is how the caches of a client learn of changes.
type watchMode string

const (
	persistentWatch watchMode = "persistent watch"
	// the client takes its servers for ones that have no others
	standardWatches watchMode = "standard watches"
)

var modes = []watchMode{persistentWatch, standardWatches}

// of returns the client, in this mode.
func (m watchMode) of(client *framework.Client) *framework.Client {
	if m == standardWatches {
		engine.Of(client).SetUnknown(proto.OpAddWatch)
	}
	return client
}

// eachMode runs test in both ways.
func eachMode(t *testing.T, test func(t *testing.T, mode watchMode)) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) { test(t, mode) })
	}
}

// eachModeVirtual runs test in both ways, each in a synctest bubble.
func eachModeVirtual(t *testing.T, test func(*testing.T, *testbed.World, watchMode), opts ...zktest.Option) {
	for _, mode := range modes {
		testbed.RunWorld(t, string(mode), func(t *testing.T, w *testbed.World) { test(t, w, mode) }, opts...)
	}
}

// TestCache tests a cache without faults, with persistent and with standard watches.
func TestCache(t *testing.T) {
	var cases []testbed.Case
	for _, c := range []struct {
		name string
		test func(t *testing.T, bed *testbed.Bed, mode watchMode)
	}{
		{"filled tree is loaded", testFilledTreeIsLoaded},
		{"missing root is waited for and never made", testMissingRootIsWaitedForAndNeverMade},
		{"each step is one change", testEachStepIsOneChange},
		{"deleted and made again are two changes", testDeletedAndMadeAgainAreTwoChanges},
		{"depth limits what is held", testDepthLimitsWhatIsHeld},
		{"filter prunes", testFilterPrunes},
		{"paths are those of the namespace", testPathsAreThoseOfTheNamespace},
		{"without data changes are reported", testWithoutDataChangesAreReported},
		{"parents come first and go last", testParentsComeFirstAndGoLast},
	} {
		for _, mode := range modes {
			cases = append(cases, testbed.Case{Name: c.name + ", " + string(mode), Test: func(t *testing.T, bed *testbed.Bed) {
				c.test(t, bed, mode)
			}})
		}
	}
	testbed.Run(t, cases)
}

// alone returns a client in a separate namespace, so that tests on one ensemble can use the same
// paths.
func alone(t *testing.T, bed *testbed.Bed) *framework.Client {
	t.Helper()
	return bed.Client(t, framework.WithNamespace(strings.TrimPrefix(testbed.Path(t), "/")))
}

// open creates a cache that is closed when the test ends.
func open(t *testing.T, client *framework.Client, path string, opts ...cache.Option) *cache.Cache {
	t.Helper()
	c := testbed.Must(cache.New(client, path, opts...))
	t.Cleanup(func() { c.Close() })
	return c
}

// load is open and Sync.
func load(t *testing.T, client *framework.Client, path string, opts ...cache.Option) *cache.Cache {
	t.Helper()
	c := open(t, client, path, opts...)
	require.NoError(t, c.Sync(testbed.Context(t)))
	return c
}

// has reports whether a cache holds a node.
func has(c *cache.Cache, path string) bool {
	_, ok := c.Get(path)
	return ok
}

// data returns the data of a node that a cache holds.
func data(c *cache.Cache, path string) string {
	n, _ := c.Get(path)
	return string(n.Data)
}

func isCurrent(c *cache.Cache) bool {
	ok, _ := c.Current()
	return ok
}

func create(t *testing.T, client *framework.Client, paths ...string) {
	t.Helper()
	for _, path := range paths {
		testbed.Create(t, client, path, []byte(path), framework.PersistentParents())
	}
}

func set(t *testing.T, client *framework.Client, path, data string) {
	t.Helper()
	testbed.Set(t, client, path, []byte(data))
}

func remove(t *testing.T, client *framework.Client, paths ...string) {
	t.Helper()
	for _, path := range paths {
		require.NoError(t, client.Delete(testbed.Context(t), path))
	}
}

// show is what a cache holds, in order.
func show(c *cache.Cache) []string {
	var all []string
	for n := range c.All() {
		all = append(all, fmt.Sprintf("%s=%s", n.Path, n.Data))
	}
	return all
}

// feed gives the changes of a cache one by one.
type feed struct {
	t       *testing.T
	changes <-chan cache.Change
}

func follow(t *testing.T, c *cache.Cache) *feed {
	changes := make(chan cache.Change)
	ctx, cancel := context.WithCancel(t.Context())
	var reader sync.WaitGroup
	reader.Go(func() { // ends with ctx
		for ch, err := range c.Changes(ctx) {
			if err != nil || ch.Kind == cache.Loaded {
				continue
			}
			select {
			case changes <- ch:
			case <-ctx.Done():
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		reader.Wait()
	})
	return &feed{t, changes}
}

func (f *feed) next() cache.Change { return testbed.Receive(f.t, f.changes, "a change") }

// want checks the next changes, written as "created /a=data".
func (f *feed) want(changes ...string) {
	f.t.Helper()
	for _, want := range changes {
		ch := testbed.Receive(f.t, f.changes, want)
		n := ch.New
		if ch.Kind == cache.Deleted {
			n = ch.Old
		}
		require.Equal(f.t, ch.Path, n.Path)
		require.Equal(f.t, want, fmt.Sprintf("%v %s=%s", ch.Kind, n.Path, n.Data))
	}
}

// CUR-CCH-01: a cache shows every node of an existing tree, parents before children.
func testFilledTreeIsLoaded(t *testing.T, bed *testbed.Bed, mode watchMode) {
	client := alone(t, bed)
	create(t, client, "/r", "/r/b", "/r/b/x", "/r/a", "/r/a-1", "/r/c", "/other")
	c := load(t, mode.of(client), "/r")
	require.Equal(t, []string{"/r=/r", "/r/a=/r/a", "/r/a-1=/r/a-1", "/r/b=/r/b", "/r/b/x=/r/b/x", "/r/c=/r/c"}, show(c))
	follow(t, c).want("created /r=/r", "created /r/a=/r/a", "created /r/a-1=/r/a-1", "created /r/b=/r/b", "created /r/b/x=/r/b/x", "created /r/c=/r/c")

	n, ok := c.Get("/r/b/x")
	require.True(t, ok)
	require.Equal(t, cache.Node{Path: "/r/b/x", Data: []byte("/r/b/x"), Stat: *testbed.Stat(t, client, "/r/b/x")}, n)
	for _, path := range []string{"/r/d", "/r/b/", "/r/", "/other", "/", "", "/r/b/x/y", "/rx", "r"} {
		require.False(t, has(c, path), path)
	}
	var names []string
	for n := range c.Children("/r") {
		names = append(names, n.Path)
	}
	require.Equal(t, []string{"/r/a", "/r/a-1", "/r/b", "/r/c"}, names)
	for range c.Children("/r/c") {
		t.Fatal("a leaf has no children")
	}
	require.True(t, isCurrent(c))
	stats := c.Stats()
	require.Equal(t, 6, stats.Nodes)
	require.EqualValues(t, 26, stats.Bytes)
	require.EqualValues(t, 1, stats.Resyncs)
	require.Zero(t, stats.Age)
	require.Equal(t, mode == standardWatches, stats.StandardWatches)
}

// CUR-CCH-02, -03: a cache waits for a missing root, and never creates it. CURATOR-319.
func testMissingRootIsWaitedForAndNeverMade(t *testing.T, bed *testbed.Bed, mode watchMode) {
	client := alone(t, bed)
	c := load(t, mode.of(client), "/deep/down/root")
	require.Empty(t, show(c))
	require.False(t, testbed.Exists(t, client, "/deep"), "a cache makes nothing")
	changes := follow(t, c)
	create(t, client, "/deep/down/root", "/deep/down/root/x")
	changes.want("created /deep/down/root=/deep/down/root", "created /deep/down/root/x=/deep/down/root/x")
}

// CUR-CCH-04: one change for each step, and the copy is as new as the change that is reported.
func testEachStepIsOneChange(t *testing.T, bed *testbed.Bed, mode watchMode) {
	client := alone(t, bed)
	create(t, client, "/r")
	c := load(t, mode.of(client), "/r")
	changes := follow(t, c)
	changes.want("created /r=/r")
	create(t, client, "/r/one")
	changes.want("created /r/one=/r/one")
	set(t, client, "/r/one", "two")
	changes.want("changed /r/one=two")
	n, ok := c.Get("/r/one")
	require.True(t, ok)
	require.Equal(t, "two", string(n.Data))
	require.EqualValues(t, 1, n.Stat.Version)
	remove(t, client, "/r/one")
	changes.want("deleted /r/one=two")
	require.False(t, has(c, "/r/one"))
}

// CUR-CCH-05: the root, too, can be deleted and recreated.
func testDeletedAndMadeAgainAreTwoChanges(t *testing.T, bed *testbed.Bed, mode watchMode) {
	for _, path := range []string{"/r", "/r/child"} {
		client := alone(t, bed)
		create(t, client, path)
		changes := follow(t, load(t, mode.of(client), path))
		changes.want("created " + path + "=" + path)
		for range 2 {
			remove(t, client, path)
			changes.want("deleted " + path + "=" + path)
			create(t, client, path)
			changes.want("created " + path + "=" + path)
		}
	}
}

// CUR-CCH-06, -07: depth counts from the root of the cache.
func testDepthLimitsWhatIsHeld(t *testing.T, bed *testbed.Bed, mode watchMode) {
	client := alone(t, bed)
	create(t, client, "/a", "/a/r", "/a/r/x", "/a/r/x/y")
	node := load(t, mode.of(client), "/a/r", cache.WithDepth(0))
	children := load(t, mode.of(client), "/a/r", cache.WithDepth(1))
	var top []string
	for n := range load(t, mode.of(client), "/", cache.WithDepth(1)).All() {
		top = append(top, n.Path)
	}
	require.Equal(t, []string{"/", "/a"}, top)
	check := func(version string) {
		t.Helper()
		require.NoError(t, node.Sync(testbed.Context(t)))
		require.NoError(t, children.Sync(testbed.Context(t)))
		require.Equal(t, []string{"/a/r=/a/r" + version}, show(node))
		require.Equal(t, []string{"/a/r=/a/r" + version, "/a/r/x=/a/r/x" + version}, show(children))
	}
	check("")
	for _, path := range []string{"/a/r", "/a/r/x", "/a/r/x/y"} {
		set(t, client, path, path+" 2")
	}
	create(t, client, "/a/r/x/z")
	check(" 2")
	for range children.Children("/a/r/x") {
		t.Fatal("a node at the limit has no children")
	}
}

// CUR-CCH-08: a filtered node is absent with all its descendants.
func testFilterPrunes(t *testing.T, bed *testbed.Bed, mode watchMode) {
	client := alone(t, bed)
	create(t, client, "/r", "/r/keep", "/r/keep/x", "/r/drop", "/r/drop/x", "/r/leaf", "/r/leaf/x")
	c := load(t, mode.of(client), "/r", cache.WithFilter(func(path string) bool {
		dir, _ := framework.Split(path)
		return path != "/r/drop" && dir != "/r/leaf"
	}))
	require.Equal(t, []string{"/r=/r", "/r/keep=/r/keep", "/r/keep/x=/r/keep/x", "/r/leaf=/r/leaf"}, show(c))
	create(t, client, "/r/drop/y", "/r/leaf/y", "/r/keep/y")
	set(t, client, "/r/drop", "new")
	set(t, client, "/r/drop/x", "new")
	require.NoError(t, c.Sync(testbed.Context(t)))
	require.Equal(t, []string{"/r=/r", "/r/keep=/r/keep", "/r/keep/x=/r/keep/x", "/r/keep/y=/r/keep/y", "/r/leaf=/r/leaf"}, show(c))
}

// CUR-CCH-09: paths are relative to the namespace.
func testPathsAreThoseOfTheNamespace(t *testing.T, bed *testbed.Bed, mode watchMode) {
	space := strings.TrimPrefix(testbed.Path(t), "/")
	all := bed.Client(t, framework.WithNamespace(space))
	inside := testbed.Namespace(t, all, space+"/ns")
	create(t, all, "/ns", "/ns/a", "/beside")
	c := load(t, mode.of(inside), "/")
	require.Equal(t, []string{"/=/ns", "/a=/ns/a"}, show(c))
	changes := follow(t, c)
	changes.want("created /=/ns", "created /a=/ns/a")
	create(t, all, "/ns/b")
	changes.want("created /b=/ns/b")
	remove(t, all, "/ns/b")
	changes.want("deleted /b=/ns/b")
}

// CUR-CCH-10: without data, changes are still reported.
func testWithoutDataChangesAreReported(t *testing.T, bed *testbed.Bed, mode watchMode) {
	client := alone(t, bed)
	create(t, client, "/r", "/r/x/y")
	c := load(t, mode.of(client), "/r", cache.WithoutData())
	changes := follow(t, c)
	changes.want("created /r=", "created /r/x=", "created /r/x/y=")
	set(t, client, "/r/x", "new")
	changes.want("changed /r/x=")
	n, ok := c.Get("/r/x")
	require.True(t, ok)
	require.Nil(t, n.Data)
	require.EqualValues(t, 1, n.Stat.Version)
	require.EqualValues(t, 3, n.Stat.DataLength)
	remove(t, client, "/r/x/y")
	changes.want("deleted /r/x/y=")
	create(t, client, "/r/z")
	changes.want("created /r/z=")
}

// KZ-CCH-02: a tree appears from the top and disappears from the bottom.
func testParentsComeFirstAndGoLast(t *testing.T, bed *testbed.Bed, mode watchMode) {
	client := alone(t, bed)
	create(t, client, "/r")
	c := load(t, mode.of(client), "/r")
	changes := follow(t, c)
	changes.want("created /r=/r")
	_, err := client.Multi(testbed.Context(t), &zk.CreateRequest{Path: "/r/a", Data: []byte("1")},
		&zk.CreateRequest{Path: "/r/a/b", Data: []byte("2")}, &zk.CreateRequest{Path: "/r/a/b/c", Data: []byte("3")})
	require.NoError(t, err)
	changes.want("created /r/a=1", "created /r/a/b=2", "created /r/a/b/c=3")
	_, err = client.Multi(testbed.Context(t), &zk.DeleteRequest{Path: "/r/a/b/c", Version: -1},
		&zk.DeleteRequest{Path: "/r/a/b", Version: -1}, &zk.DeleteRequest{Path: "/r/a", Version: -1})
	require.NoError(t, err)
	changes.want("deleted /r/a/b/c=3", "deleted /r/a/b=2", "deleted /r/a=1")
}

func TestBadArgumentsAreRefused(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	require.ErrorIs(t, testbed.Err(cache.New(nil, "/a")), framework.ErrBadArgument)
	for _, path := range []string{"", "a", "/a/", "//"} {
		require.ErrorIs(t, testbed.Err(cache.New(client, path)), framework.ErrBadPath, path)
	}
	for name, opt := range map[string]cache.Option{
		"nil": nil, "depth": cache.WithDepth(-1), "filter": cache.WithFilter(nil), "on change": cache.WithOnChange(nil),
	} {
		require.ErrorIs(t, testbed.Err(cache.New(client, "/a", opt)), framework.ErrBadArgument, name)
	}
}
