package cache_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
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
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		for i := range 200 {
			require.NoError(t, w.Server.Create(fmt.Sprintf("/r/%d", i), nil))
		}
		client := w.Client()
		watch := testbed.GetW(t, client, "/r/7")
		watches := w.Server.WatchCount()
		first, second := load(t, mode.of(client), "/r"), load(t, mode.of(client), "/r", cache.WithoutData())
		missing := load(t, mode.of(client), "/missing")
		require.Greater(t, w.Server.WatchCount(), watches)
		require.NoError(t, first.Close())
		synctest.Wait()
		require.NoError(t, w.Server.Set("/r/3", []byte("new")))
		require.NoError(t, second.Sync(t.Context()))
		n, _ := second.Get("/r/3")
		require.EqualValues(t, 1, n.Stat.Version, "the other cache has its watches")
		require.NoError(t, second.Close())
		require.NoError(t, missing.Close())

		gate := w.Server.Block(zktest.OnOp("getData", "multiRead"), zktest.OnPath("/r/9"))
		loading := open(t, mode.of(client), "/r")
		testbed.Receive(t, gate.Arrived(), "a read")
		require.NoError(t, loading.Close())
		gate.Open()
		time.Sleep(time.Minute) // virtual time: standard watches are removed after a pause
		left := w.Server.WatchCount() - watches
		if mode == standardWatches {
			left-- // where another client watches the data, the watch of the list may stay
		}
		require.LessOrEqual(t, left, 0)
		require.NoError(t, w.Server.Set("/r/7", nil))
		testbed.Receive(t, watch.Done(), "the watch of somebody else")
	})
}

// TestTheCopyOfAnEnsembleThatWasRestoredIsDropped has a client meet an ensemble with lower zxids.
func TestTheCopyOfAnEnsembleThatWasRestoredIsDropped(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		var current atomic.Pointer[zktest.Server]
		old := w.Server
		current.Store(old)
		for range 100 {
			require.NoError(t, old.Create("/x", nil))
			require.NoError(t, old.Delete("/x"))
		}
		for _, path := range []string{"/r", "/r/a", "/r/b", "/r/b/x"} {
			require.NoError(t, old.Create(path, []byte("old")))
		}
		client := clientOf(t, &current, framework.WithSessionTimeout(10*time.Second))
		c := load(t, mode.of(client), "/r")
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
		require.True(t, isCurrent(c))
		for range 3 {
			require.Equal(t, cache.Deleted, changes.next().Kind)
		}
		changes.want("deleted /r=old", "created /r=backup", "created /r/b=backup")
	})
}

// TestLoadedComesWhenAllHasBeenReported: a reader that applies Changes up to it has all existing
// nodes and no deleted one.
func TestLoadedComesWhenAllHasBeenReported(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		client := w.Client()
		create(t, client, "/w", "/w/a", "/w/a/b")
		gate := w.Server.Block(zktest.OnOp("getData"), zktest.OnPath("/w/a/b"))
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

		w.Server.CutConnections()
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

// TestCurrentSaysWhetherAllThatWasReportedIsShown waits with the channel, which the end of a cache
// closes, too.
func TestCurrentSaysWhetherAllThatWasReportedIsShown(t *testing.T) { // KZ-CCH-03
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		client := w.Client()
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
		gate := w.Server.Block(zktest.OnOp("getData"), zktest.OnPath("/r/a"))
		require.NoError(t, w.Server.Set("/r/a", []byte("new")))
		until(false)
		require.Zero(t, c.Stats().Age, "the connection is good")
		gate.Open()
		until(true)
		require.Equal(t, "new", data(c, "/r/a"))
		w.Server.RefuseConnections(true)
		cut := time.Now()
		w.Server.CutConnections()
		until(false)
		time.Sleep(time.Minute) // virtual time, by which the copy gets older
		require.GreaterOrEqual(t, c.Stats().Age, time.Minute)
		require.LessOrEqual(t, c.Stats().Age, time.Since(cut))
		require.Equal(t, []string{"/r=/r", "/r/a=new"}, show(c), "reads are served from the copy")
		w.Server.RefuseConnections(false)
		until(true)
		w.Server.RefuseConnections(true)
		w.Server.CutConnections()
		time.Sleep(time.Minute) // virtual time, in which the cache waits for a connection
		ok, changed := c.Current()
		require.False(t, ok)
		require.NoError(t, c.Close())
		testbed.Receive(t, changed, "the end, although nothing else can change")
	})
}

// TestWithoutDataANodeThatMayNotBeReadIsShownWheneverItComes: in ZooKeeper 3.8 a stat needs no
// permission. Standard watches are set with the data, which do. In ZooKeeper 3.9 a stat needs it.
func TestWithoutDataANodeThatMayNotBeReadIsShownWheneverItComes(t *testing.T) {
	for version, free := range map[string]bool{"3.8.0": true, "3.9.6": false} {
		t.Run(version, func(t *testing.T) {
			eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
				subject, owner, mine := ownership(w)
				create(t, owner, "/r")
				secret := func(path string) { testbed.Create(t, owner, path, nil, framework.ACL(mine)) }
				secret("/r/before")
				c := load(t, mode.of(subject), "/r", cache.WithoutData(), cache.WithDepth(1))
				shown := free && !c.Stats().StandardWatches
				require.Equal(t, shown, has(c, "/r/before"))
				secret("/r/later")
				create(t, owner, "/r/open") // a recursive watch has an event for this one
				require.NoError(t, c.Sync(testbed.Context(t)))
				require.True(t, has(c, "/r/open"))
				require.True(t, free || !has(c, "/r/later"))
				remove(t, owner, "/r/before")
				secret("/r/before")
				require.NoError(t, c.Sync(testbed.Context(t)))
				require.Equal(t, shown, has(c, "/r/before"), "even when it is recreated")
			}, zktest.WithVersion(version))
		})
	}
}

// clientOf returns a client of the server that is current when it connects.
func clientOf(t *testing.T, current *atomic.Pointer[zktest.Server], opts ...framework.Option) *framework.Client {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return current.Load().DialContext(ctx, network, address)
	}
	return testbed.NewClient(t, []string{"server:1"}, append(opts, framework.WithDialer(dial))...)
}

// ownership returns two clients: one without rights, and one that can create nodes that only it may
// read, with the ACL for them.
func ownership(w *testbed.World) (subject, owner *framework.Client, mine []zk.ACL) {
	owner = w.Client(framework.WithAuth("digest", []byte("owner:secret")))
	return w.Client(), owner, zk.DigestACL(zk.PermAll, "owner", "secret")
}

// TestTreeThatIsMadeAgainGoesFirst: when a parent and a child were recreated, both old nodes are
// removed before a new one is shown, whichever event arrives first.
func TestTreeThatIsMadeAgainGoesFirst(t *testing.T) {
	again := []string{"deleted /r/p/x=/r/p/x", "deleted /r/p=/r/p", "created /r/p=/r/p", "created /r/p/x=/r/p/x"}
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
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
	eachModeVirtual(t, func(t *testing.T, _ *testbed.World, mode watchMode) {
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
		client := clientOf(t, &current, framework.WithSessionTimeout(10*time.Second))
		c := load(t, mode.of(client), "/r")
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
		require.Equal(t, testbed.ServerStat(t, restored, "/r/7").Mzxid, n.Stat.Mzxid)
	})
}

// TestAServerThatStaysBehindForLongIsNotBelieved has a client move to a member that applies what
// was committed ten seconds later.
func TestAServerThatStaysBehindForLongIsNotBelieved(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, _ *testbed.World, mode watchMode) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		leader, followers := testbed.Leader(t, cluster)
		behind := followers[0]
		var current atomic.Pointer[zktest.Server]
		current.Store(leader)
		client := clientOf(t, &current, framework.WithSessionTimeout(30*time.Second))
		require.NoError(t, leader.Create("/r", nil))
		require.NoError(t, leader.Create("/r/a", []byte("first")))
		c := load(t, mode.of(client), "/r")
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
			require.EqualValues(t, 1, testbed.ServerStat(t, behind, "/r/a").Version)
			require.True(t, client.State().IsConnected())
			require.False(t, isCurrent(c))
			require.Equal(t, []string{"/r=", "/r/a=second"}, show(c))
			require.ErrorIs(t, c.Sync(testbed.Timeout(t, time.Second)), context.DeadlineExceeded)
		}
		require.NoError(t, c.Sync(t.Context()))
		require.Equal(t, []string{"/r=", "/r/a=third", "/r/b=new"}, show(c))
	})
}

// TestAnAnswerThatIsOlderThanTheCopyIsNotShown has a server answer with an earlier state for a
// minute, although it has caught up: about a node, or about the list of a parent.
func TestAnAnswerThatIsOlderThanTheCopyIsNotShown(t *testing.T) {
	for path, ops := range map[string][]string{"/r/a": {"getData"}, "/r": {"getData", "getChildren2"}} {
		t.Run(strings.Join(ops, " and "), func(t *testing.T) {
			eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
				client := w.Client()
				create(t, client, "/r", "/r/a")
				var wrong atomic.Bool
				for _, op := range ops {
					var first []byte // the answer about the state that is shown again
					w.Server.Rewrite(func(_ zktest.Request, answer []byte) []byte {
						const head = 20 // the length, the request's number, the zxid and the error
						if first == nil {
							first = slices.Clone(answer[head:])
						}
						if wrong.Load() {
							answer = append(slices.Clone(answer[:head]), first...)
							binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
						}
						return answer
					}, zktest.OnOp(op), zktest.OnPath(path))
				}
				c := load(t, mode.of(client), "/r")
				if path == "/r" {
					create(t, client, "/r/b")
				}
				set(t, client, path, "later")
				synced(t, client, c)
				want := show(c)
				wrong.Store(true)
				before := c.Stats().Reads
				w.Server.CutConnections()
				time.Sleep(time.Minute) // virtual time, in which the cache reads and refuses
				require.Equal(t, want, show(c))
				require.False(t, isCurrent(c))
				require.Less(t, c.Stats().Reads-before, int64(100), "there are pauses")
				require.ErrorIs(t, c.Sync(testbed.Timeout(t, time.Second)), context.DeadlineExceeded)
				wrong.Store(false)
				synced(t, client, c)
				require.True(t, isCurrent(c))
			})
		})
	}
}

// TestAChildOfAParentThatWasMadeAgainIsCreatedOnce has the standard watches of a parent be used up,
// and the parent be recreated before it is read, while a child is read.
func TestAChildOfAParentThatWasMadeAgainIsCreatedOnce(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		client := w.Client()
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
			require.NoError(t, w.Server.Set("/r/p", nil))
			time.Sleep(500 * time.Microsecond) // virtual time: the pace of the changes
		}
		require.NoError(t, w.Server.Create("/r/p/y", nil))
		synctest.Wait()
		require.NoError(t, w.Server.Set("/r/p/x", nil))
		for _, path := range []string{"/r/p/x", "/r/p/y", "/r/p"} {
			require.NoError(t, w.Server.Delete(path))
		}
		for _, path := range []string{"/r/p", "/r/p/x"} {
			require.NoError(t, w.Server.Create(path, []byte("new")))
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

// TestSyncWaitsForTheDataOfANodeThatWasListedFirst: the node is so deep that the server answers the
// list after it has caught up.
func TestSyncWaitsForTheDataOfANodeThatWasListedFirst(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		const dir = "/r/1/2/3/dir"
		subject, other := w.Client(), w.Client()
		create(t, other, dir+"/child")
		c := load(t, subject, "/r")
		w.Server.RefuseConnections(true)
		w.Server.CutConnections()
		require.NoError(t, w.Server.Set(dir, []byte("changed")))
		w.Server.RefuseConnections(false)
		require.NoError(t, c.Sync(testbed.Context(t)))
		require.Equal(t, "changed", data(c, dir))
	}, zktest.WithLatency(time.Millisecond))
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
