package cache_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/zktest"
)

// TestAClosedCacheLeavesNoWatches closes caches that have loaded, and one that has not.
func TestAClosedCacheLeavesNoWatches(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, mode watchMode) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		for i := range 200 {
			require.NoError(t, server.Create(fmt.Sprintf("/r/%d", i), nil))
		}
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext))
		require.NoError(t, client.WaitConnected(t.Context()))
		w := testbed.GetW(t, client, "/r/7")
		watches := server.WatchCount()
		first, second := load(t, mode.of(client), "/r"), load(t, mode.of(client), "/r", cache.WithoutData())
		missing := load(t, mode.of(client), "/missing")
		require.Greater(t, server.WatchCount(), watches)
		require.NoError(t, first.Close())
		synctest.Wait()
		require.NoError(t, server.Set("/r/3", []byte("new")))
		require.NoError(t, second.Sync(t.Context()))
		n, _ := second.Get("/r/3")
		require.EqualValues(t, 1, n.Stat.Version, "the other cache has its watches")
		require.NoError(t, second.Close())
		require.NoError(t, missing.Close())

		gate := server.Block(zktest.OnOp("getData", "multiRead"), zktest.OnPath("/r/9"))
		loading := open(t, mode.of(client), "/r")
		testbed.Receive(t, gate.Arrived(), "a read")
		require.NoError(t, loading.Close())
		gate.Open()
		time.Sleep(time.Minute) // virtual time: standard watches are removed after a pause
		left := server.WatchCount() - watches
		if mode == standardWatches {
			left-- // where another client watches the data, the watch of the list may stay
		}
		require.LessOrEqual(t, left, 0)
		require.NoError(t, server.Set("/r/7", nil))
		testbed.Receive(t, w.Done(), "the watch of somebody else")
	})
}

// TestTheCopyOfAnEnsembleThatWasRestoredIsDropped has a client meet an ensemble with lower zxids.
func TestTheCopyOfAnEnsembleThatWasRestoredIsDropped(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, mode watchMode) {
		var current atomic.Pointer[zktest.Server]
		old := zktest.NewServer(t, zktest.WithInMemory())
		current.Store(old)
		for range 100 {
			require.NoError(t, old.Create("/x", nil))
			require.NoError(t, old.Delete("/x"))
		}
		for _, path := range []string{"/r", "/r/a", "/r/b", "/r/b/x"} {
			require.NoError(t, old.Create(path, []byte("old")))
		}
		client := testbed.NewClient(t, []string{"server:1"}, framework.WithSessionTimeout(10*time.Second),
			framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				return current.Load().DialContext(ctx, network, address)
			}))
		c := load(t, mode.of(client), "/r")
		defer c.Close()
		changes := follow(t, c)
		changes.want("created /r=old", "created /r/a=old", "created /r/b=old", "created /r/b/x=old")

		restored := zktest.NewServer(t, zktest.WithInMemory())
		require.NoError(t, restored.Create("/r", []byte("backup")))
		require.NoError(t, restored.Create("/r/b", []byte("backup")))
		gate := restored.Block(zktest.OnOp("getData"))
		current.Store(restored)
		old.Stop()
		testbed.Receive(t, gate.Arrived(), "the first read of the new session")
		synctest.Wait() // the client has seen that the session is new
		restored.CutConnections()
		synctest.Wait()
		gate.Open()
		time.Sleep(time.Hour) // virtual time, in which the cache connects again
		require.NoError(t, c.Sync(testbed.Context(t)))
		require.Equal(t, []string{"/r=backup", "/r/b=backup"}, show(c))
		ok, _ := c.Current()
		require.True(t, ok)
		for range 3 {
			ch, _ := changes.next()
			require.Equal(t, cache.Deleted, ch.Kind)
		}
		changes.want("deleted /r=old", "created /r=backup", "created /r/b=backup")
	})
}

// TestLoadedComesWhenAllHasBeenReported: a reader that applies Changes up to it has all existing
// nodes and no deleted one.
func TestLoadedComesWhenAllHasBeenReported(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, mode watchMode) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext))
		create(t, client, "/w", "/w/a", "/w/a/b")
		gate := server.Block(zktest.OnOp("getData"), zktest.OnPath("/w/a/b"))
		c := open(t, mode.of(client), "/w")
		kinds := make(chan string, 100)
		go func() { // ends with the cache
			for ch, err := range c.Changes(t.Context()) {
				if err != nil {
					return
				}
				kinds <- fmt.Sprint(ch.Kind, " ", ch.Path)
			}
		}()
		require.Equal(t, "created /w", testbed.Receive(t, kinds, "the root"))
		require.Equal(t, "created /w/a", testbed.Receive(t, kinds, "a child"))
		synctest.Wait()
		require.Empty(t, kinds, "it is being loaded")
		gate.Open()
		require.Equal(t, "created /w/a/b", testbed.Receive(t, kinds, "what is below it"))
		require.Equal(t, "loaded ", testbed.Receive(t, kinds, "the end of the load"))
		remove(t, client, "/w/a/b")
		require.Equal(t, "deleted /w/a/b", testbed.Receive(t, kinds, "an end"))

		server.CutConnections()
		require.NoError(t, c.Sync(testbed.Context(t)))
		synctest.Wait()
		require.Empty(t, kinds, "it comes once")
		var later []string
		for ch := range c.Changes(t.Context()) {
			if later = append(later, fmt.Sprint(ch.Kind, " ", ch.Path)); ch.Kind == cache.Loaded {
				break
			}
		}
		require.Equal(t, []string{"created /w", "created /w/a", "loaded "}, later)

		none := open(t, mode.of(client), "/none")
		for ch := range none.Changes(t.Context()) {
			require.Equal(t, cache.Change{Kind: cache.Loaded}, ch)
			break
		}
	})
}

// TestCurrentSaysWhetherAllThatWasReportedIsShown waits with the channel.
func TestCurrentSaysWhetherAllThatWasReportedIsShown(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, mode watchMode) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext))
		create(t, client, "/r", "/r/a")
		c := open(t, mode.of(client), "/r")
		until := func(want bool) {
			for {
				ok, changed := c.Current()
				if ok == want {
					return
				}
				testbed.Receive(t, changed, "a change")
			}
		}
		until(true)
		_, changed := c.Current()
		require.False(t, wait.Closed(changed))
		gate := server.Block(zktest.OnOp("getData"), zktest.OnPath("/r/a"))
		require.NoError(t, server.Set("/r/a", []byte("new")))
		until(false)
		require.Zero(t, c.Stats().Age, "the connection is good")
		gate.Open()
		until(true)
		n, _ := c.Get("/r/a")
		require.Equal(t, "new", string(n.Data))
		server.RefuseConnections(true)
		cut := time.Now()
		server.CutConnections()
		until(false)
		time.Sleep(time.Minute) // virtual time, by which the copy gets older
		require.GreaterOrEqual(t, c.Stats().Age, time.Minute)
		require.LessOrEqual(t, c.Stats().Age, time.Since(cut))
		server.RefuseConnections(false)
		until(true)
		require.NoError(t, c.Close())
		until(false)
	})
}

// TestWithoutDataANodeThatMayNotBeReadIsShownWheneverItComes: in ZooKeeper 3.8 a stat needs no
// permission. Standard watches are set with the data, which do.
func TestWithoutDataANodeThatMayNotBeReadIsShownWheneverItComes(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, mode watchMode) {
		_, subject, owner, mine := ownership(t, zktest.WithVersion("3.8.0"))
		create(t, owner, "/r")
		secret := func(path string) {
			testbed.Create(t, owner, path, nil, framework.ACL(mine))
		}
		secret("/r/before")
		c, err := cache.New(mode.of(subject), "/r", cache.WithoutData(), cache.WithDepth(1))
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.Sync(testbed.Context(t)))
		shown := !c.Stats().StandardWatches
		_, there := c.Get("/r/before")
		require.Equal(t, shown, there)
		secret("/r/later")
		create(t, owner, "/r/open") // a recursive watch has an event for this one
		require.NoError(t, c.Sync(testbed.Context(t)))
		_, there = c.Get("/r/open")
		require.True(t, there)
		remove(t, owner, "/r/before")
		secret("/r/before")
		require.NoError(t, c.Sync(testbed.Context(t)))
		_, there = c.Get("/r/before")
		require.Equal(t, shown, there, "even when it is recreated")
	})
}

// TestWithoutDataANodeThatMayNotBeReadIsLeftOut: in ZooKeeper 3.9 a stat needs permission.
func TestWithoutDataANodeThatMayNotBeReadIsLeftOut(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, mode watchMode) {
		_, subject, owner, mine := ownership(t, zktest.WithVersion("3.9.6"))
		create(t, owner, "/r")
		secret := func(path string) {
			testbed.Create(t, owner, path, nil, framework.ACL(mine))
		}
		secret("/r/before")
		c, err := cache.New(mode.of(subject), "/r", cache.WithoutData(), cache.WithDepth(1))
		require.NoError(t, err)
		defer c.Close()
		secret("/r/later")
		create(t, owner, "/r/open")
		require.NoError(t, c.Sync(testbed.Context(t)))
		for path, want := range map[string]bool{"/r/before": false, "/r/later": false, "/r/open": true} {
			_, there := c.Get(path)
			require.Equal(t, want, there, path)
		}
	})
}

// ownership creates a server and two clients of it: one without rights, and one that can create
// nodes that only it may read, with the ACL for them. It is for a synctest bubble.
func ownership(t *testing.T, opts ...zktest.Option) (server *zktest.Server, subject, owner *framework.Client, mine []zk.ACL) {
	server = zktest.NewServer(t, append(opts, zktest.WithInMemory())...)
	bed, dial := testbed.On(server), framework.WithDialer(server.DialContext)
	subject, owner = bed.Client(t, dial), bed.Client(t, dial, framework.WithAuth("digest", []byte("owner:secret")))
	return server, subject, owner, zk.DigestACL(zk.PermAll, "owner", "secret")
}

// TestTreeThatIsMadeAgainGoesFirst: when a parent and a child were recreated, both old nodes are
// removed before a new one is shown, whichever event arrives first.
func TestTreeThatIsMadeAgainGoesFirst(t *testing.T) {
	again := []string{"deleted /r/p/x=/r/p/x", "deleted /r/p=/r/p", "created /r/p=/r/p", "created /r/p/x=/r/p/x"}
	eachMode(t, func(t *testing.T, mode watchMode) {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			subject, other := w.Client(), w.Client()
			create(t, other, "/r", "/r/p", "/r/p/x")
			changes := follow(t, load(t, mode.of(subject), "/r"))
			changes.want("created /r=/r", "created /r/p=/r/p", "created /r/p/x=/r/p/x")
			root := follow(t, load(t, mode.of(subject), "/r/p"))
			root.want("created /r/p=/r/p", "created /r/p/x=/r/p/x")
			for range 100 {
				_, err := other.Multi(testbed.Context(t),
					&zk.DeleteRequest{Path: "/r/p/x", Version: -1}, &zk.DeleteRequest{Path: "/r/p", Version: -1},
					&zk.CreateRequest{Path: "/r/p", Data: []byte("/r/p")}, &zk.CreateRequest{Path: "/r/p/x", Data: []byte("/r/p/x")})
				require.NoError(t, err)
				changes.want(again...)
				root.want(again...)
			}
		})
	})
	t.Run("while there is no connection", func(t *testing.T) {
		server := zktest.NewServer(t)
		subject, other, of := pair(t, server)
		create(t, other, "/r", "/r/p", "/r/p/x")
		changes := follow(t, load(t, subject, "/r"))
		changes.want("created /r=/r", "created /r/p=/r/p", "created /r/p/x=/r/p/x")
		gate, watch := server.Block(zktest.OnOp("getChildren2"), of), server.Block(zktest.OnOp("addWatch"), of)
		server.CutConnections()
		testbed.Receive(t, watch.Arrived(), "the next connection")
		remove(t, other, "/r/p/x", "/r/p")
		create(t, other, "/r/p", "/r/p/x")
		watch.Open()
		testbed.Receive(t, gate.Arrived(), "the list of the root")
		set(t, other, "/r/p/x", "x") // its event arrives before the parent is read
		gate.Open()
		changes.want("deleted /r/p/x=/r/p/x", "deleted /r/p=/r/p", "created /r/p=/r/p", "created /r/p/x=x")
		create(t, other, "/r/p/y")
		changes.want("created /r/p/y=/r/p/y")
	})
}

// TestALargeTreeOfARestoredEnsembleIsReadOnce has all children be known when the first one turns
// out to be older than its copy. What waits for them then waits for the root, once for each wait
// and not once for each child.
func TestALargeTreeOfARestoredEnsembleIsReadOnce(t *testing.T) {
	const children = 5_000
	eachModeVirtual(t, func(t *testing.T, mode watchMode) {
		var current atomic.Pointer[zktest.Server]
		start := func(later int) *zktest.Server {
			server := zktest.NewServer(t, zktest.WithInMemory())
			require.NoError(t, server.Create("/r", nil))
			for range later {
				require.NoError(t, server.Create("/x", nil))
				require.NoError(t, server.Delete("/x"))
			}
			for i := range children {
				require.NoError(t, server.Create(fmt.Sprintf("/r/%d", i), nil))
			}
			return server
		}
		old, restored := start(100), start(0)
		current.Store(old)
		client := testbed.NewClient(t, []string{"server:1"}, framework.WithSessionTimeout(10*time.Second),
			framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				return current.Load().DialContext(ctx, network, address)
			}))
		c := load(t, mode.of(client), "/r")
		defer c.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		current.Store(restored)
		old.Stop()
		time.Sleep(time.Minute) // virtual time, in which the cache connects again
		require.NoError(t, c.Sync(testbed.Context(t)))
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(200<<20))
		require.Equal(t, children+1, c.Stats().Nodes)
		n, _ := c.Get("/r/7")
		stat, err := restored.Stat("/r/7")
		require.NoError(t, err)
		require.Equal(t, stat.Mzxid, n.Stat.Mzxid)
	})
}

// TestAServerThatStaysBehindForLongIsNotBelieved has a client move to a member that applies what
// was committed ten seconds later.
func TestAServerThatStaysBehindForLongIsNotBelieved(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, mode watchMode) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		leader, _ := testbed.Leader(t, cluster)
		members := cluster.Members()
		behind := members[slices.IndexFunc(members, func(s *zktest.Server) bool { return s != leader })]
		var current atomic.Pointer[zktest.Server]
		current.Store(leader)
		client := testbed.NewClient(t, []string{"server:1"}, framework.WithSessionTimeout(30*time.Second),
			framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				return current.Load().DialContext(ctx, network, address)
			}))
		require.NoError(t, leader.Create("/r", nil))
		require.NoError(t, leader.Create("/r/a", []byte("first")))
		c := load(t, mode.of(client), "/r")
		defer c.Close()
		require.NoError(t, leader.Set("/r/a", []byte("second")))
		require.NoError(t, c.Sync(t.Context()))
		time.Sleep(time.Second) // virtual time, in which all members hear of it

		require.NoError(t, cluster.Lag(behind, 10*time.Second))
		current.Store(behind)
		leader.RefuseConnections(true)
		leader.CutConnections()
		require.NoError(t, leader.Set("/r/a", []byte("third")))
		require.NoError(t, leader.Create("/r/b", []byte("new")))
		for range 4 {
			time.Sleep(time.Second) // virtual time, after which the member is still behind
			stat, err := behind.Stat("/r/a")
			require.NoError(t, err)
			require.EqualValues(t, 1, stat.Version)
			require.True(t, client.State().IsConnected())
			ok, _ := c.Current()
			require.False(t, ok)
			require.Equal(t, []string{"/r=", "/r/a=second"}, show(c))
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			require.ErrorIs(t, c.Sync(short), context.DeadlineExceeded)
			cancel()
		}
		require.NoError(t, c.Sync(t.Context()))
		require.Equal(t, []string{"/r=", "/r/a=third", "/r/b=new"}, show(c))
	})
}

// TestAnAnswerThatIsOlderThanTheCopyIsNotShown has a server answer with an earlier state for a
// minute, although it has caught up.
func TestAnAnswerThatIsOlderThanTheCopyIsNotShown(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, mode watchMode) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext))
		create(t, client, "/r", "/r/a")
		var mu sync.Mutex
		var first []byte // the answer about the state that is shown again
		wrong := false
		server.Rewrite(func(_ zktest.Request, answer []byte) []byte {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case first == nil:
				first = slices.Clone(answer)
			case wrong:
				// behind the length, the request's number, the zxid and the error
				copy(answer[20:], first[20:])
			}
			return answer
		}, zktest.OnOp("getData"), zktest.OnPath("/r/a"))
		c := load(t, mode.of(client), "/r")
		set(t, client, "/r/a", "/r/b") // as long as the data before
		require.NoError(t, c.Sync(t.Context()))
		lie := func(now bool) {
			mu.Lock()
			defer mu.Unlock()
			wrong = now
		}
		lie(true)
		before := c.Stats().Reads
		server.CutConnections()
		time.Sleep(time.Minute) // virtual time, in which the cache reads and refuses
		require.Equal(t, []string{"/r=/r", "/r/a=/r/b"}, show(c))
		ok, _ := c.Current()
		require.False(t, ok)
		require.Less(t, c.Stats().Reads-before, int64(50), "there are pauses")
		short := testbed.Timeout(t, time.Second)
		require.ErrorIs(t, c.Sync(short), context.DeadlineExceeded)
		lie(false)
		require.NoError(t, c.Sync(t.Context()))
		require.Equal(t, []string{"/r=/r", "/r/a=/r/b"}, show(c))
		ok, _ = c.Current()
		require.True(t, ok)
	})
}

// TestTheEndOfACacheEndsAWaitForCurrent has it end while there is no connection, and so no change
// but that.
func TestTheEndOfACacheEndsAWaitForCurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext))
		c := load(t, client, "/r")
		server.RefuseConnections(true)
		server.CutConnections()
		time.Sleep(time.Minute) // virtual time: it waits for a connection
		synctest.Wait()
		ok, changed := c.Current()
		require.False(t, ok)
		require.NoError(t, c.Close())
		testbed.Receive(t, changed, "the end")
	})
}

// TestAChildOfAParentThatWasMadeAgainIsCreatedOnce has the standard watches of a parent be used up,
// and the parent be recreated before it is read, while a child is read.
func TestAChildOfAParentThatWasMadeAgainIsCreatedOnce(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, mode watchMode) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext))
		create(t, client, "/r", "/r/p", "/r/p/x")
		c := load(t, mode.of(client), "/r")
		created := make(map[int64]int) // by Czxid
		var done sync.WaitGroup
		done.Go(func() { // ends with the cache
			for ch := range c.Changes(t.Context()) {
				if ch.Kind == cache.Created {
					created[ch.New.Stat.Czxid]++
				}
			}
		})
		for range 300 { // so often that there is a pause before the next read
			require.NoError(t, server.Set("/r/p", nil))
			time.Sleep(500 * time.Microsecond) // virtual time: the pace of the changes
		}
		require.NoError(t, server.Create("/r/p/y", nil))
		synctest.Wait()
		require.NoError(t, server.Set("/r/p/x", nil))
		for _, path := range []string{"/r/p/x", "/r/p/y", "/r/p"} {
			require.NoError(t, server.Delete(path))
		}
		for _, path := range []string{"/r/p", "/r/p/x"} {
			require.NoError(t, server.Create(path, []byte("new")))
		}
		settle()
		require.NoError(t, c.Close())
		done.Wait()
		for czxid, n := range created {
			require.Equal(t, 1, n, "%#x", czxid)
		}
		require.Equal(t, []string{"/r=/r", "/r/p=new", "/r/p/x=new"}, show(c))
	})
}

// TestAReconnectReadsTheDataOfAParentOnlyIfTheyHaveChanged counts requests: a list for each node
// with children, data for the others, in one request if they are known at the same time.
func TestAReconnectReadsTheDataOfAParentOnlyIfTheyHaveChanged(t *testing.T) {
	server := zktest.NewServer(t)
	subject, other, of := pair(t, server)
	create(t, other, "/r", "/r/dir", "/r/dir/a", "/r/dir/b")
	c := load(t, subject, "/r")
	reconnect := func(meanwhile func()) (gets, lists, requests int) {
		t.Helper()
		gate := server.Block(zktest.OnOp("addWatch", "multi"), of)
		server.CutConnections()
		testbed.Receive(t, gate.Arrived(), "the first request of the next connection")
		meanwhile()
		before := c.Stats().Reads
		server.ResetCounts()
		gate.Open()
		require.NoError(t, c.Sync(testbed.Context(t)))
		counts := server.Requests().Requests
		lists = counts["getChildren2"]
		return int(c.Stats().Reads-before) - lists, lists, lists + counts["getData"] + counts["multiRead"]
	}
	gets, lists, requests := reconnect(func() {})
	require.Equal(t, []int{2, 2, 3}, []int{gets, lists, requests})

	gets, lists, requests = reconnect(func() { set(t, other, "/r/dir", "changed") })
	require.Equal(t, []int{3, 2, 3}, []int{gets, lists, requests}, "Sync has waited for the data, too")
	same(t, other, c)

	gets, lists, requests = reconnect(func() { create(t, other, "/r/dir/c") })
	require.Equal(t, []int{3, 2, 3}, []int{gets, lists, requests})
	same(t, other, c)
	dir, _ := c.Get("/r/dir")
	require.EqualValues(t, 3, dir.Stat.NumChildren, "the list came with the stat")

	gets, lists, requests = reconnect(func() {
		remove(t, other, "/r/dir/a", "/r/dir/b", "/r/dir/c", "/r/dir")
		create(t, other, "/r/dir", "/r/dir/b")
	})
	require.Equal(t, []int{2, 3, 5}, []int{gets, lists, requests}, "it is another node: it is listed, read and listed")
	same(t, other, c)
}

// TestAListThatIsOlderThanTheCopyIsNotShown has a server answer about a parent with an earlier
// state, although it has caught up.
func TestAListThatIsOlderThanTheCopyIsNotShown(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, mode watchMode) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext))
		create(t, client, "/r", "/r/a")
		var wrong atomic.Bool
		for _, op := range []string{"getData", "getChildren2"} {
			var first []byte // the answer about the state that is shown again
			server.Rewrite(func(_ zktest.Request, answer []byte) []byte {
				const head = 20 // the length, the request's number, the zxid and the error
				if first == nil {
					first = slices.Clone(answer[head:])
				}
				if wrong.Load() {
					answer = append(slices.Clone(answer[:head]), first...)
					binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
				}
				return answer
			}, zktest.OnOp(op), zktest.OnPath("/r"))
		}
		c := load(t, mode.of(client), "/r")
		create(t, client, "/r/b")
		set(t, client, "/r", "later")
		require.NoError(t, c.Sync(t.Context()))
		want := []string{"/r=later", "/r/a=/r/a", "/r/b=/r/b"}
		require.Equal(t, want, show(c))
		wrong.Store(true)
		before := c.Stats().Reads
		server.CutConnections()
		time.Sleep(time.Minute) // virtual time, in which the cache reads and refuses
		require.Equal(t, want, show(c))
		ok, _ := c.Current()
		require.False(t, ok)
		require.Less(t, c.Stats().Reads-before, int64(100), "there are pauses")
		wrong.Store(false)
		require.NoError(t, c.Sync(t.Context()))
		require.Equal(t, want, show(c))
	})
}
