package cache_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/zktest"
)

// follower is a client of a server that can fall behind: it answers reads with the first answer that it gave, until a
// write makes it catch up.
type follower struct {
	cache.Requests

	mu      sync.Mutex // guards what follows
	behind  bool
	writes  bool // a write does not help
	answers map[string]any
}

func newFollower(client *framework.Client) *follower {
	return &follower{Requests: cache.Live(client), answers: make(map[string]any)}
}

func (f *follower) fallBehind(forGood bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.behind, f.writes = true, forGood
}

func (f *follower) catchUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.behind = false
}

func (f *follower) CatchUp(ctx context.Context) error {
	err := f.Requests.CatchUp(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.behind = f.behind && f.writes
	return err
}

type read[T any] struct {
	value T
	stat  *zk.Stat
	err   error
}

// old returns the first answer of this kind if the follower is behind, and notes this one if there was none.
func old[T any](f *follower, kind, path string, now read[T]) read[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	first, found := f.answers[kind+path].(read[T])
	if !found {
		first = now
		f.answers[kind+path] = now
	}
	if f.behind {
		return first
	}
	return now
}

func (f *follower) Read(ctx context.Context, path string, answer func([]byte, *zk.Stat, error)) {
	f.Requests.Read(ctx, path, func(data []byte, stat *zk.Stat, err error) {
		r := old(f, "get", path, read[[]byte]{data, stat, err})
		answer(r.value, r.stat, r.err)
	})
}

func (f *follower) GetW(ctx context.Context, path string) ([]byte, *zk.Stat, *framework.Watch, error) {
	data, stat, w, err := f.Requests.GetW(ctx, path)
	r := old(f, "get", path, read[[]byte]{data, stat, err})
	if r.err == nil && w == nil {
		_, _, w, _ = f.Requests.ExistsW(ctx, path)
	}
	return r.value, r.stat, w, r.err
}

func (f *follower) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	names, stat, err := f.Requests.Children(ctx, path)
	r := old(f, "children", path, read[[]string]{names, stat, err})
	return r.value, r.stat, r.err
}

func (f *follower) ChildrenW(ctx context.Context, path string) ([]string, *zk.Stat, *framework.Watch, error) {
	names, stat, w, err := f.Requests.ChildrenW(ctx, path)
	r := old(f, "children", path, read[[]string]{names, stat, err})
	return r.value, r.stat, w, r.err
}

// lagging makes a cache of a tree that has changed since it was first read, with changes to follow.
func lagging(t *testing.T, opts []cache.Option) (*zktest.Server, *framework.Client, *follower, *cache.Cache, *feed) {
	server := zktest.NewServer(t)
	subject, other, _ := pair(t, server)
	f := newFollower(subject)
	create(t, other, "/r", "/r/again", "/r/changed", "/r/gone")
	c, err := cache.NewOn(f, "/r", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.Sync(testbed.Context(t)))
	remove(t, other, "/r/gone", "/r/again")
	create(t, other, "/r/again", "/r/new")
	set(t, other, "/r/changed", "changed")
	require.NoError(t, c.Sync(testbed.Context(t)))
	same(t, other, c)
	changes := follow(t, c)
	changes.want("created /r=/r", "created /r/again=/r/again", "created /r/changed=changed", "created /r/new=/r/new")
	return server, other, f, c, changes
}

// TestReconnectToAServerThatIsBehind: an older answer replaces nothing, and a deleted node does not come back.
func TestReconnectToAServerThatIsBehind(t *testing.T) {
	eachMode(t, func(t *testing.T, opts []cache.Option) {
		server, other, f, c, changes := lagging(t, opts)
		f.fallBehind(false)
		server.CutConnections()
		testbed.Eventually(t, func() bool { return c.Stats().Resyncs == 2 }, "everything is read again")
		same(t, other, c)
		create(t, other, "/r/end")
		changes.want("created /r/end=/r/end")
	})
}

// TestServerThatStaysBehind has a server that does not even catch up for a write. What it says of nodes that the cache
// has is not believed, and the copy is not called fresh.
func TestServerThatStaysBehind(t *testing.T) {
	eachMode(t, func(t *testing.T, opts []cache.Option) {
		server, other, f, c, _ := lagging(t, opts)
		before := show(c)
		f.fallBehind(true)
		f.mu.Lock()
		names := f.answers["children/r"].(read[[]string])
		names.value = slices.DeleteFunc(slices.Clone(names.value), func(s string) bool { return s == "gone" || s == "changed" })
		f.answers["children/r"] = names // a list alone neither makes nor removes a node
		f.mu.Unlock()
		reads := c.Stats().Reads
		server.CutConnections()
		testbed.Eventually(t, func() bool { return c.Stats().Reads > reads+8 }, "it is tried again")
		require.Equal(t, before, show(c))
		fresh, _ := c.Fresh()
		require.False(t, fresh)
		f.catchUp()
		require.NoError(t, c.Sync(testbed.Context(t)))
		same(t, other, c)
		testbed.Eventually(t, func() bool { fresh, _ := c.Fresh(); return fresh }, "it is fresh again")
	})
}
