package cache_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

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
	return &follower{Requests: client, answers: make(map[string]any)}
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

func (f *follower) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	r, err := f.Requests.Multi(ctx, ops...)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.behind = f.behind && f.writes
	return r, err
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

func (f *follower) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	data, stat, err := f.Requests.Get(ctx, path)
	r := old(f, "get", path, read[[]byte]{data, stat, err})
	return r.value, r.stat, r.err
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

// holding is a client whose answers about one node take their time on the way to the cache, while events do not.
type holding struct {
	cache.Requests
	path    string
	arrived chan struct{} // gets a value when an answer is held
	open    chan struct{} // gives one when it may go on
}

func newHolding(client *framework.Client, path string) *holding {
	return &holding{Requests: client, path: path, arrived: make(chan struct{}, 100), open: make(chan struct{})}
}

func (h *holding) hold(ctx context.Context, path string) {
	if path != h.path {
		return
	}
	h.arrived <- struct{}{}
	select {
	case <-h.open:
	case <-ctx.Done():
	}
}

func (h *holding) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	data, stat, err := h.Requests.Get(ctx, path)
	h.hold(ctx, path)
	return data, stat, err
}

func (h *holding) GetW(ctx context.Context, path string) ([]byte, *zk.Stat, *framework.Watch, error) {
	data, stat, w, err := h.Requests.GetW(ctx, path)
	h.hold(ctx, path)
	return data, stat, w, err
}

// sync is a Sync, and lets all answers through meanwhile.
func (h *holding) sync(t *testing.T, c *cache.Cache) {
	synced := make(chan error, 1)
	go func() { synced <- c.Sync(testbed.Context(t)) }()
	synctest.Wait() // it has asked the server, and waits for the cache
	for {
		select {
		case h.open <- struct{}{}:
		case err := <-synced:
			require.NoError(t, err)
			return
		}
	}
}

// held makes a cache of /r and /r/x, and holds up answers about path from then on. It is for a synctest bubble.
func held(t *testing.T, path string, opts []cache.Option, like ...zktest.Option) (*framework.Client, *holding, *cache.Cache, *feed) {
	server := zktest.NewServer(t, append(like, zktest.WithInMemory())...)
	bed, dial := testbed.On(server), framework.WithDialer(server.DialContext)
	subject, other := bed.Client(t, dial), bed.Client(t, dial)
	create(t, other, "/r", "/r/x")
	h := newHolding(subject, path)
	c, err := cache.NewOn(h, "/r", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	h.sync(t, c)
	for len(h.arrived) > 0 {
		<-h.arrived
	}
	changes := follow(t, c)
	changes.want("created /r=/r", "created /r/x=/r/x")
	return other, h, c, changes
}

// TestAnswerFromBeforeADeletionIsNotUsed has the answer of a read come after the event of the deletion that followed.
func TestAnswerFromBeforeADeletionIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other, h, _, changes := held(t, "/r/x", nil)
		set(t, other, "/r/x", "old")
		testbed.Receive(t, h.arrived, "an answer about what is there")
		remove(t, other, "/r/x")
		changes.want("deleted /r/x=/r/x")
		h.open <- struct{}{}
		testbed.Receive(t, h.arrived, "another answer")
		h.open <- struct{}{}
		create(t, other, "/r/y")
		changes.want("created /r/y=/r/y")
	})
}

// TestSyncDoesNotTakeAnOldAnswer has an answer be on its way while the node changes again, and then a Sync begin.
func TestSyncDoesNotTakeAnOldAnswer(t *testing.T) {
	eachMode(t, func(t *testing.T, opts []cache.Option) {
		for path, write := range map[string]func(t *testing.T, other *framework.Client){
			"/r/x":   func(t *testing.T, other *framework.Client) { set(t, other, "/r/x", "old") },
			"/r/new": func(t *testing.T, other *framework.Client) { create(t, other, "/r/new") },
		} {
			t.Run(path, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					other, h, c, _ := held(t, path, opts)
					write(t, other)
					testbed.Receive(t, h.arrived, "an answer")
					set(t, other, path, "new")
					h.sync(t, c)
					n, _ := c.Get(path)
					require.Equal(t, "new", string(n.Data))
				})
			})
		}
	})
}

// TestChildOfANodeThatIsBeingRead has a child be created after its parent was read as a leaf, and before the answer
// arrives.
func TestChildOfANodeThatIsBeingRead(t *testing.T) {
	eachMode(t, func(t *testing.T, opts []cache.Option) {
		synctest.Test(t, func(t *testing.T) {
			other, h, c, changes := held(t, "/r/new", opts)
			create(t, other, "/r/new")
			testbed.Receive(t, h.arrived, "an answer")
			create(t, other, "/r/new/x")
			synctest.Wait()
			h.sync(t, c)
			changes.want("created /r/new=/r/new", "created /r/new/x=/r/new/x")
		})
	})
}

// moving is a client that asks on the next connection when one is lost, and meets a server there that is behind.
type moving struct {
	cache.Requests
	asked, answer chan struct{}
}

func (m *moving) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	if path != "/r/x" || m.asked == nil {
		return m.Requests.Get(ctx, path)
	}
	close(m.asked)
	m.asked = nil
	<-m.answer
	return nil, nil, zk.ErrNoNode
}

// TestAnswerOfAnotherConnectionIsNotUsed: it came before that one's server has caught up.
func TestAnswerOfAnotherConnectionIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		bed, dial := testbed.On(server), framework.WithDialer(server.DialContext)
		subject, other := bed.Client(t, dial), bed.Client(t, dial)
		create(t, other, "/r", "/r/x")
		m, busy := &moving{Requests: subject}, make(chan struct{})
		c, err := cache.NewOn(m, "/r", cache.Filter(func(path string) bool {
			if path == "/r/busy" {
				<-busy // the cache does not see that the connection has ended
			}
			return true
		}))
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.Sync(testbed.Context(t)))
		changes := follow(t, c)
		changes.want("created /r=/r", "created /r/x=/r/x")

		m.asked, m.answer = make(chan struct{}), make(chan struct{})
		asked := m.asked
		set(t, other, "/r/x", "new")
		testbed.Receive(t, asked, "a read")
		create(t, other, "/r/busy")
		synctest.Wait()
		server.CutConnections()
		synctest.Wait()
		fresh, _ := c.Fresh()
		require.False(t, fresh, "also when the cache itself has not noticed")
		close(m.answer)
		synctest.Wait()
		close(busy)
		changes.want("changed /r/x=new", "created /r/busy=/r/busy")
	})
}

// TestEventWithTheWrongPathWhileTheRootIsRead has a Keeper tell of a change below the root while the root is being read, so
// that the event could be about the root.
func TestEventWithTheWrongPathWhileTheRootIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other, h, _, changes := held(t, "/r", nil, zktest.LikeKeeper(zktest.KeeperRecent))
		set(t, other, "/r", "new")
		testbed.Receive(t, h.arrived, "an answer about the root")
		set(t, other, "/r/x", "new")
		synctest.Wait()
		go func() {
			for range 10 {
				select {
				case h.open <- struct{}{}:
				case <-t.Context().Done():
				}
			}
		}()
		changes.want("changed /r=new", "changed /r/x=new")
	})
}

// TestAnswerFromBeforeTheRootWasMadeAgain: it does not prove that what was found below the root belongs to the root that the
// cache has.
func TestAnswerFromBeforeTheRootWasMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		bed, dial := testbed.On(server), framework.WithDialer(server.DialContext)
		subject, other := bed.Client(t, dial), bed.Client(t, dial)
		create(t, other, "/r", "/r/x")
		root := newHolding(subject, "/r")
		child := newHolding(nil, "/r/x")
		child.Requests = root
		pass := func() { // lets everything through until all have nothing to do
			for range 20 {
				synctest.Wait()
				select {
				case root.open <- struct{}{}:
				case child.open <- struct{}{}:
				default:
				}
			}
			for len(root.arrived)+len(child.arrived) > 0 {
				select {
				case <-root.arrived:
				case <-child.arrived:
				}
			}
		}
		c, err := cache.NewOn(child, "/r")
		require.NoError(t, err)
		defer c.Close()
		changes := follow(t, c)
		pass()
		changes.want("created /r=/r", "created /r/x=/r/x")

		set(t, other, "/r", "new")
		testbed.Receive(t, root.arrived, "an answer about the old root")
		_, err = other.Multi(testbed.Context(t), &zk.DeleteRequest{Path: "/r/x", Version: -1}, &zk.DeleteRequest{Path: "/r", Version: -1},
			&zk.CreateRequest{Path: "/r", Data: []byte("again")}, &zk.CreateRequest{Path: "/r/x", Data: []byte("again")})
		require.NoError(t, err)
		testbed.Receive(t, child.arrived, "an answer about the new child")
		root.open <- struct{}{}
		changes.want("deleted /r/x=/r/x", "changed /r=new")
		testbed.Receive(t, root.arrived, "an answer about the new root")
		child.open <- struct{}{}
		synctest.Wait()
		close(root.open) // nothing is held from here on
		close(child.open)
		changes.want("deleted /r=new", "created /r=again", "created /r/x=again")
	})
}
