package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/zktest"
)

// pair is a client that meets faults and a client that does not.
func pair(t *testing.T, server *zktest.Server) (subject, other *framework.Client, of zktest.Match) {
	t.Helper()
	bed := testbed.On(server)
	subject, other = bed.Client(t), bed.Client(t)
	session := testbed.Session(t, other)
	return subject, other, zktest.On(func(r zktest.Request) bool { return r.Session != session.ID() })
}

// tree returns the nodes of a server from path on that holds is true for.
func tree(t *testing.T, client *framework.Client, path string, holds func(string) bool) map[string]cache.Node {
	t.Helper()
	data, stat, err := client.Get(testbed.Context(t), path)
	if errors.Is(err, zk.ErrNoNode) {
		return map[string]cache.Node{}
	}
	require.NoError(t, err)
	nodes := map[string]cache.Node{}
	if holds(path) {
		nodes[path] = cache.Node{Path: path, Data: data, Stat: stable(*stat)}
	}
	for _, name := range testbed.Children(t, client, path) {
		maps.Copy(nodes, tree(t, client, framework.Join(path, name), holds))
	}
	return nodes
}

func everything(string) bool { return true }

// held returns the nodes of a cache.
func held(c *cache.Cache) map[string]cache.Node {
	nodes := map[string]cache.Node{}
	for n := range c.All() {
		n.Stat = stable(n.Stat)
		nodes[n.Path] = n
	}
	return nodes
}

// same checks that a cache is what the server has.
func same(t *testing.T, client *framework.Client, c *cache.Cache) {
	t.Helper()
	require.Equal(t, tree(t, client, c.Path(), everything), held(c))
}

// synced is Sync and same.
func synced(t *testing.T, client *framework.Client, c *cache.Cache) {
	t.Helper()
	require.NoError(t, c.Sync(testbed.Context(t)))
	same(t, client, c)
}

// stable is a stat without the fields whose changes have no event.
func stable(s zk.Stat) zk.Stat {
	s.Aversion, s.Cversion, s.Pzxid, s.NumChildren = 0, 0, 0, 0
	return s
}

func TestLoadWithAnyRequestFailing(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
			create(t, s.Other, "/r", "/r/a", "/r/b", "/r/b/x")
			c := load(t, mode.of(s.Subject), "/r")
			same(t, s.Other, c)
			set(t, s.Other, "/r/b/x", "new")
			create(t, s.Other, "/r/c")
			remove(t, s.Other, "/r/a")
			require.NoError(t, c.Sync(testbed.Context(t)))
			same(t, s.Other, c)
			require.Equal(t, mode == standardWatches, c.Stats().StandardWatches)
		})
	})
}

// CURATOR-391; ZooKeeper#1106 and #1950: what happened while there was no connection is found out,
// in the same session and in a new one, even when a node has the version that it had before.
func TestWhatHappenedMeanwhileIsFoundOut(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		for name, end := range map[string]func(t *testing.T, server *zktest.Server, client *framework.Client){
			"same session": func(t *testing.T, server *zktest.Server, _ *framework.Client) { server.CutConnections() },
			"new session": func(t *testing.T, server *zktest.Server, client *framework.Client) {
				testbed.On(server).ExpireSession(t, client)
			},
		} {
			t.Run(name, func(t *testing.T) {
				server := zktest.NewServer(t)
				subject, other, of := pair(t, server)
				create(t, other, "/r", "/r/again", "/r/changed", "/r/gone", "/r/gone/too", "/r/same")
				c := load(t, mode.of(subject), "/r")
				changes := follow(t, c)
				changes.want("created /r=/r", "created /r/again=/r/again", "created /r/changed=/r/changed",
					"created /r/gone=/r/gone", "created /r/gone/too=/r/gone/too", "created /r/same=/r/same")
				old, _ := c.Get("/r/again")

				gate := server.Block(zktest.OnOp("addWatch", "multi"), of)
				end(t, server, subject)
				testbed.Receive(t, gate.Arrived(), "the first request of the next connection")
				require.False(t, isCurrent(c))
				require.Positive(t, c.Stats().Age)
				remove(t, other, "/r/again", "/r/gone/too", "/r/gone")
				create(t, other, "/r/again", "/r/new")
				set(t, other, "/r/changed", "changed")
				gate.Open()

				synced(t, other, c)
				require.True(t, isCurrent(c))
				now, ok := c.Get("/r/again")
				require.True(t, ok)
				require.Equal(t, old.Stat.Version, now.Stat.Version)
				require.Greater(t, now.Stat.Czxid, old.Stat.Czxid)
				got := map[string]int{}
				for range 6 {
					ch := changes.next()
					got[fmt.Sprint(ch.Kind, " ", ch.Path)]++
				}
				require.Equal(t, map[string]int{"deleted /r/again": 1, "created /r/again": 1, "changed /r/changed": 1,
					"deleted /r/gone/too": 1, "deleted /r/gone": 1, "created /r/new": 1}, got, "and nothing else")
				require.EqualValues(t, 2, c.Stats().Resyncs)
			})
		}
	})
}

// CUR-CCH-17: a cache may be created before a server runs.
func TestCacheWaitsForTheServer(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		server := zktest.NewServer(t)
		other := testbed.On(server).Client(t)
		create(t, other, "/r")
		server.Stop()
		c := open(t, mode.of(testbed.NewClient(t, server.Servers())), "/r")
		err := c.Sync(testbed.Timeout(t, 50*time.Millisecond))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrNoServer, "it says what was in the way")
		require.ErrorContains(t, err, "sync cache /r: ")
		require.False(t, isCurrent(c))
		require.NoError(t, server.Restart())
		synced(t, other, c)
	})
}

// TestSyncThatEndsSaysSoBesideTheReason has a server that refuses the watch, so that the reason is
// the error of an operation.
func TestSyncThatEndsSaysSoBesideTheReason(t *testing.T) {
	server := zktest.NewServer(t)
	subject, _, of := pair(t, server)
	refused := make(chan struct{}, 100)
	server.Rewrite(func(_ zktest.Request, answer []byte) []byte {
		copy(answer[16:], []byte{0xff, 0xff, 0xff, 0x9a}) // -102, no permission
		refused <- struct{}{}
		return answer
	}, zktest.OnOp("addWatch"), of)
	c := open(t, subject, "/r")
	testbed.Receive(t, refused, "the first attempt")
	testbed.Receive(t, refused, "the second, after the cache has noted why the first failed")
	err := c.Sync(testbed.Timeout(t, 50*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, zk.ErrNoAuth)
}

// TestSyncEndsWhileANodeChanges has a node change ten times during each read: its data, or whether
// it exists.
func TestSyncEndsWhileANodeChanges(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, server *zktest.Server){
		"data": func(t *testing.T, server *zktest.Server) { assert.NoError(t, server.Set("/r/x", nil)) },
		"existence": func(t *testing.T, server *zktest.Server) {
			if err := server.Delete("/r/x"); err != nil {
				assert.NoError(t, server.Create("/r/x", nil))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
				require.NoError(t, w.Server.Create("/r/x", nil))
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() {
					for ctx.Err() == nil {
						change(t, w.Server)
						time.Sleep(2 * time.Millisecond) // virtual time: a tenth of the time of a read
					}
				})
				defer wg.Wait()
				defer cancel()
				c := open(t, mode.of(w.Client()), "/r")
				for range 3 {
					require.NoError(t, c.Sync(testbed.Timeout(t, 2*time.Second)))
				}
			}, zktest.WithLatency(20*time.Millisecond))
		})
	}
}

// TestSyncsDoNotHoldUpEachOther has one begin every few milliseconds, while the cache reads an
// unreadable and a deleted node.
func TestSyncsDoNotHoldUpEachOther(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		subject, owner, mine := ownership(w)
		create(t, owner, "/r", "/r/x")
		testbed.Create(t, owner, "/r/secret", nil, framework.ACL(mine))
		c := load(t, mode.of(subject), "/r")

		var wg sync.WaitGroup
		for n := range 400 {
			if n == 10 {
				require.NoError(t, w.Server.Delete("/r/x"))
			}
			wg.Go(func() {
				if assert.NoError(t, c.Sync(testbed.Timeout(t, 500*time.Millisecond))) && n >= 10 {
					assert.False(t, has(c, "/r/x"))
				}
			})
			time.Sleep(5 * time.Millisecond) // virtual time: a quarter of the time of a read
		}
		wg.Wait()
	}, zktest.WithLatency(20*time.Millisecond))
}

// CURATOR-476: a child that dies between the list and the read does not hold up the load.
func TestChildThatDiesBetweenListAndRead(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		server := zktest.NewServer(t)
		subject, other, of := pair(t, server)
		create(t, other, "/r", "/r/a", "/r/b")
		gate := server.Block(zktest.OnOp("getData", "multiRead"), zktest.OnPath("/r/a"), of)
		c := open(t, mode.of(subject), "/r")
		testbed.Receive(t, gate.Arrived(), "the read of the child")
		remove(t, other, "/r/a")
		gate.Open()
		synced(t, other, c)
	})
}

// TestNamesThatNoClientMayUseDoNotHoldUpTheLoad: the requests for them never leave the client, or
// are refused for good.
func TestNamesThatNoClientMayUseDoNotHoldUpTheLoad(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		for name, more := range map[string][]cache.Option{"with data": nil, "without": {cache.WithoutData()}} {
			testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
				client := w.Client()
				create(t, client, "/r", "/r/a", "/r/cc", "/r/dd")
				w.Server.Rewrite(func(_ zktest.Request, answer []byte) []byte {
					return bytes.ReplaceAll(bytes.ReplaceAll(answer, []byte("cc"), []byte("..")), []byte("dd"), []byte("d\x7f"))
				}, zktest.OnOp("getChildren2"))
				c := load(t, mode.of(client), "/r", more...)
				require.ElementsMatch(t, []string{"/r", "/r/a"}, slices.Collect(maps.Keys(held(c))))
			})
		}
	})
}

// CURATOR-240, -312, -729: a denied permission causes no busy loop, and is noticed when it is
// granted.
func TestDeniedPermissionIsTriedAgainSeldom(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		subject, owner, mine := ownership(w)
		create(t, owner, "/r", "/r/open", "/r/closed", "/r/closed/x")
		testbed.SetACL(t, owner, "/r/closed", mine)

		c := load(t, mode.of(subject), "/r")
		require.Equal(t, []string{"/r=/r", "/r/open=/r/open"}, show(c))
		require.True(t, isCurrent(c), "what must not be read is left out")
		before := c.Stats().Reads
		time.Sleep(time.Hour) // virtual time, in which it must not ask again and again
		require.Less(t, c.Stats().Reads-before, int64(100))

		testbed.SetACL(t, owner, "/r/closed", zk.WorldACL(zk.PermAll))
		changes := follow(t, c)
		changes.want("created /r=/r", "created /r/open=/r/open", "created /r/closed=/r/closed", "created /r/closed/x=/r/closed/x")

		testbed.SetACL(t, owner, "/r", mine)
		w.Server.CutConnections()
		testbed.Eventually(t, func() bool { return len(show(c)) == 0 }, "the root is closed")
		require.ErrorIs(t, c.Sync(testbed.Context(t)), zk.ErrNoAuth)
		testbed.SetACL(t, owner, "/r", zk.WorldACL(zk.PermAll))
		require.NoError(t, c.Sync(testbed.Context(t)), "a sync does not wait until it is tried again")
		require.Len(t, show(c), 4)
	})
}

// TestNodeThatWasMadeInSecretIsFound creates a node that the client is not permitted to read, so
// the servers send no event. They send no event when the node becomes readable either, but for
// later changes of the node and its descendants. Standard watches have events for the list.
func TestNodeThatWasMadeInSecretIsFound(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		for name, change := range map[string]func(t *testing.T, owner *framework.Client){
			"when it changes":                func(t *testing.T, owner *framework.Client) { set(t, owner, "/r/p/x", "/r/p/x") },
			"when a child of it is made":     func(t *testing.T, owner *framework.Client) { create(t, owner, "/r/p/x/y") },
			"when something below it is set": func(t *testing.T, owner *framework.Client) { set(t, owner, "/r/p/x/z", "/r/p/x/z") },
			"when something below it goes":   func(t *testing.T, owner *framework.Client) { remove(t, owner, "/r/p/x/z") },
		} {
			for _, root := range []string{"/r", "/r/p/x"} {
				if root == "/r/p/x" && mode == standardWatches {
					// a standard watch for a missing node is used up by a creation that has no
					// event
					continue
				}
				testbed.RunWorld(t, name+", root "+root, func(t *testing.T, w *testbed.World) {
					subject, owner, mine := ownership(w)
					create(t, owner, "/r/p")
					c := load(t, mode.of(subject), root)
					for _, path := range []string{"/r/p/x", "/r/p/x/z"} {
						testbed.Create(t, owner, path, []byte(path), framework.ACL(mine))
					}
					require.NoError(t, c.Sync(testbed.Context(t)))
					for _, path := range []string{"/r/p/x", "/r/p/x/z"} {
						require.False(t, has(c, path))
						testbed.SetACL(t, owner, path, zk.WorldACL(zk.PermAll))
					}
					change(t, owner)
					synced(t, owner, c)
				})
			}
		}
	})
}

// TestNodeThatIsOpenedAgainIsFollowed has the list of a node change while the client is not
// permitted to read the node. That uses up the client's standard watch, and has no event.
func TestNodeThatIsOpenedAgainIsFollowed(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		subject, owner, mine := ownership(w)
		create(t, owner, "/r", "/r/x")
		c := load(t, mode.of(subject), "/r")
		gate := w.Server.Block(zktest.OnOp("getData"), zktest.OnSession(testbed.Session(t, subject).ID()))
		set(t, owner, "/r/x", "new")
		testbed.Receive(t, gate.Arrived(), "the node is read")
		testbed.SetACL(t, owner, "/r/x", mine)
		gate.Open()
		synctest.Wait()
		require.Equal(t, []string{"/r=/r"}, show(c))
		create(t, owner, "/r/x/y")
		testbed.SetACL(t, owner, "/r/x", zk.WorldACL(zk.PermAll))
		synced(t, owner, c)
		create(t, owner, "/r/x/z")
		synced(t, owner, c)
	})
}

// TestNodeThatWentInSecretIsFollowedInItsNextLife deletes a node that the client is not permitted
// to read, and recreates it for all.
func TestNodeThatWentInSecretIsFollowedInItsNextLife(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		subject, owner, mine := ownership(w)
		create(t, owner, "/r", "/r/x")
		c := load(t, mode.of(subject), "/r")
		testbed.SetACL(t, owner, "/r/x", mine)
		remove(t, owner, "/r/x")
		settle() // with standard watches, the list has an event of the deletion
		create(t, owner, "/r/x")
		synced(t, owner, c)
		set(t, owner, "/r/x", "new")
		create(t, owner, "/r/x/y")
		synced(t, owner, c)
	})
}

func TestMissingRootMakesNoRequests(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		c := load(t, mode.of(w.Client()), "/no/such/node")
		w.Server.ResetCounts()
		time.Sleep(time.Hour) // virtual time, in which nothing may be asked
		for op, n := range w.Server.Requests().Requests {
			require.Equal(t, "ping", op, "%d times", n)
		}
		require.Empty(t, show(c))
	})
}

// TestAChangeWhileTheChildrenAreListedIsRead has a node change between the two requests of a read.
func TestAChangeWhileTheChildrenAreListedIsRead(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		client := w.Client()
		create(t, client, "/r", "/r/p", "/r/p/x")
		gate := w.Server.Block(zktest.OnOp("getChildren2"), zktest.OnPath("/r/p"))
		c := open(t, mode.of(client), "/r")
		testbed.Receive(t, gate.Arrived(), "the list")
		require.NoError(t, w.Server.Set("/r/p", []byte("new")))
		require.NoError(t, w.Server.Create("/r/p/y", nil))
		synctest.Wait()
		gate.Open()
		require.NoError(t, c.Sync(testbed.Context(t)))
		require.Equal(t, []string{"/r=/r", "/r/p=new", "/r/p/x=/r/p/x", "/r/p/y="}, show(c))

		gate = w.Server.Block(zktest.OnOp("getChildren2"), zktest.OnPath("/r/p"))
		// with standard watches the children are listed again
		require.NoError(t, w.Server.Create("/r/p/z", nil))
		synctest.Wait()
		require.NoError(t, w.Server.Set("/r/p", []byte("newer")))
		synctest.Wait()
		gate.Open()
		require.NoError(t, c.Sync(testbed.Context(t)))
		require.Equal(t, []string{"/r=/r", "/r/p=newer", "/r/p/x=/r/p/x", "/r/p/y=", "/r/p/z="}, show(c))
		require.EqualValues(t, 1, c.Stats().Resyncs, "on the same connection")
	})
}

// TestARootThatComesAndGoesWhileItIsAskedForIsFollowed has each request of the cache for a missing
// root be held back.
func TestARootThatComesAndGoesWhileItIsAskedForIsFollowed(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		for _, op := range []string{"getData", "exists"} {
			for _, goes := range []bool{false, true} {
				testbed.RunWorld(t, fmt.Sprintf("%v, goes: %t", op, goes), func(t *testing.T, w *testbed.World) {
					gate := w.Server.Block(zktest.OnOp(op), zktest.OnPath("/r"))
					c := open(t, mode.of(w.Client()), "/r")
					synctest.Wait()
					require.NoError(t, w.Server.Create("/r", nil))
					if goes {
						synctest.Wait()
						require.NoError(t, w.Server.Delete("/r"))
					}
					synced := testbed.Go(func() error { return c.Sync(testbed.Context(t)) })
					synctest.Wait()
					gate.Open()
					require.NoError(t, testbed.Receive(t, synced, "the Sync"))
					require.Equal(t, !goes, len(show(c)) == 1)
					require.EqualValues(t, 1, c.Stats().Resyncs, "on the same connection")
					if goes {
						require.NoError(t, w.Server.Create("/r", nil))
						settle()
						require.Equal(t, []string{"/r="}, show(c), "it is followed")
					}
				})
			}
		}
	})
}

// CURATOR-319: a cache writes nothing, whatever happens.
func TestCacheWritesNothing(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		subject, other := w.Client(), w.Client()
		session := testbed.Session(t, other)
		stop := w.Server.Trace(func(e zktest.Event) {
			if e.Watch != "" || e.Request.Session == session.ID() {
				return
			}
			switch e.Request.Op {
			case "getData", "multiRead", "getChildren2", "exists", "addWatch", "removeWatches":
			case "multi":
				for _, part := range e.Request.Parts {
					if part.Op != "check" {
						t.Errorf("%v", e)
					}
				}
			default:
				t.Errorf("%v", e)
			}
		})
		defer stop()
		create(t, other, "/r", "/r/a")
		c := load(t, mode.of(subject), "/r")
		remove(t, other, "/r/a", "/r")
		require.NoError(t, c.Sync(testbed.Context(t)))
		w.Server.CutConnections()
		// a create on the connection that was cut may be carried out, and tried again
		testbed.CatchUp(t, other)
		require.NoError(t, c.Sync(testbed.Context(t)))
		create(t, other, "/r", "/r/a")
		synced(t, other, c)
		require.NoError(t, c.Close())
	})
}

// CUR-CCH-14, KZ-CCH-05; CURATOR-105, -167, -477, GH-1292: nothing is left after Close. (goleak
// looks for goroutines.)
func TestNothingIsLeftAfterClose(t *testing.T) {
	server := zktest.NewServer(t)
	subject, other, _ := pair(t, server)
	create(t, other, "/r", "/r/a")
	watches := server.WatchCount()
	c := load(t, subject, "/r")
	require.Greater(t, server.WatchCount(), watches)
	reported := make(chan cache.Change, 10)
	ended := testbed.Go(func() error {
		for ch, err := range c.Changes(context.Background()) {
			if err != nil {
				return err
			}
			reported <- ch
		}
		return nil
	})
	testbed.Receive(t, reported, "the root")
	testbed.Receive(t, reported, "the child")
	require.Equal(t, cache.Loaded, testbed.Receive(t, reported, "the end of the load").Kind)
	for range c.Changes(context.Background()) {
		break
	}
	gate := server.Block(zktest.OnOp("multi"))
	syncing := testbed.Go(func() error { return c.Sync(context.Background()) })
	testbed.Receive(t, gate.Arrived(), "a sync")
	require.NoError(t, c.Close())
	require.ErrorIs(t, testbed.Receive(t, ended, "the end of the iteration"), framework.ErrEnded)
	require.ErrorIs(t, testbed.Receive(t, syncing, "the sync, which has no answer"), framework.ErrEnded)
	require.NoError(t, c.Close())
	gate.Open()
	require.ErrorIs(t, c.Err(), framework.ErrEnded)
	require.Zero(t, c.Readers())
	testbed.Eventually(t, func() bool { return server.WatchCount() == watches }, "the watch goes")

	remove(t, other, "/r/a")
	require.Empty(t, reported)
	require.Len(t, show(c), 2, "the copy can still be read")
	require.True(t, has(c, "/r/a"))
	require.False(t, isCurrent(c))
	require.ErrorIs(t, c.Sync(t.Context()), framework.ErrEnded)
	pairs := 0
	for _, err := range c.Changes(t.Context()) {
		require.ErrorIs(t, err, framework.ErrEnded)
		require.EqualError(t, err, "changes /r: cache is closed")
		pairs++
	}
	require.Equal(t, 1, pairs)
}

// TestSync_ClientCloses: a Sync ends while its client is being closed, although a silent server
// delays that.
func TestSync_ClientCloses(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		c := load(t, client, "/r")
		w.Server.Freeze(testbed.Session(t, client).ID())
		closed := testbed.Go(client.Close)
		synctest.Wait()
		require.ErrorIs(t, c.Sync(t.Context()), framework.ErrClosed)
		testbed.Receive(t, closed, "the end of Close")
	})
}

// TestNodesThatAreGoneLeaveNoWatches has nodes go while the cache follows them, and while there is
// no connection.
func TestNodesThatAreGoneLeaveNoWatches(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		for name, more := range map[string][]cache.Option{"with data": nil, "without": {cache.WithoutData()}} {
			t.Run(name, func(t *testing.T) {
				server := zktest.NewServer(t)
				subject, other, of := pair(t, server)
				create(t, other, "/r")
				c := load(t, mode.of(subject), "/r", more...)
				watches := server.WatchCount()
				nodes := []string{"/r/a", "/r/a/x", "/r/b", "/r/c"}
				for range 3 {
					create(t, other, nodes...)
					require.NoError(t, c.Sync(testbed.Context(t)))
					remove(t, other, "/r/a/x", "/r/a", "/r/b", "/r/c")
					require.NoError(t, c.Sync(testbed.Context(t)))
					require.Equal(t, watches, server.WatchCount())
				}
				create(t, other, nodes...)
				require.NoError(t, c.Sync(testbed.Context(t)))
				gate := server.Block(zktest.OnOp("addWatch", "multi"), of)
				server.CutConnections()
				testbed.Receive(t, gate.Arrived(), "the next connection")
				remove(t, other, "/r/a/x", "/r/a", "/r/b", "/r/c")
				gate.Open()
				require.NoError(t, c.Sync(testbed.Context(t)))
				require.Len(t, show(c), 1)
				require.Equal(t, watches, server.WatchCount())
			})
		}
	})
}

// TestNodeThatGoesBeforeItIsReadLeavesNoWatch has a listed node deleted before it is read.
func TestNodeThatGoesBeforeItIsReadLeavesNoWatch(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		for name, more := range map[string][]cache.Option{"with data": nil, "without": {cache.WithoutData()}} {
			testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
				require.NoError(t, w.Server.Create("/r", nil))
				c := load(t, mode.of(w.Client()), "/r", more...)
				watches := w.Server.WatchCount()
				for range 3 {
					gate := w.Server.Block(zktest.OnOp("getData", "exists"), zktest.OnPath("/r/x"))
					require.NoError(t, w.Server.Create("/r/x", nil))
					testbed.Receive(t, gate.Arrived(), "the node is read")
					require.NoError(t, w.Server.Delete("/r/x"))
					gate.Open()
					require.NoError(t, c.Sync(testbed.Context(t)))
					require.Equal(t, watches, w.Server.WatchCount())
				}
			})
		}
	})
}

func TestCacheEndsWithItsClient(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		client := testbed.InProcess(t).Client(t)
		c := load(t, mode.of(client), "/r")
		require.NoError(t, client.Close())
		testbed.Eventually(t, func() bool { return c.Err() != nil }, "the end")
		for _, err := range c.Changes(testbed.Context(t)) {
			require.ErrorIs(t, err, framework.ErrClosed)
		}
		require.ErrorIs(t, c.Err(), framework.ErrClosed)
		require.ErrorIs(t, c.Sync(testbed.Context(t)), framework.ErrClosed)
		require.False(t, isCurrent(c))
	})
}

// TestSyncOutlastsAServerThatRefusesCredentials has the connection end during a Sync, and the
// client's credentials be refused for a moment after that.
func TestSyncOutlastsAServerThatRefusesCredentials(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		refuses := testbed.RefuseCredentials(w.Server)
		client := w.Client(framework.WithAuth("digest", []byte("user:password")))
		create(t, client, "/r")
		c := load(t, mode.of(client), "/r")
		gate := w.Server.Block(zktest.OnOp("multi"))
		synced := testbed.Go(func() error { return c.Sync(testbed.Context(t)) })
		testbed.Receive(t, gate.Arrived(), "the request of the Sync")
		refuses.Store(true)
		w.Server.CutConnections()
		synctest.Wait() // the client knows
		gate.Open()
		time.Sleep(time.Second) // virtual time, in which it must not give up
		require.Empty(t, synced)
		refuses.Store(false)
		require.NoError(t, testbed.Receive(t, synced, "the Sync"))
	})
}

// TestSyncDoesNotBlameAServerThatIsThere has a server that is connected and slow: that is not
// "could not connect".
func TestSyncDoesNotBlameAServerThatIsThere(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		gate := w.Server.Block(zktest.OnOp("multi"))
		defer gate.Open()
		err := open(t, client, "/a").Sync(testbed.Timeout(t, time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, client.State().IsConnected())
		require.NotErrorIs(t, err, zk.ErrNoServer)
	})
}

// settle lets virtual time pass: for reads that are put off.
func settle() {
	time.Sleep(10 * time.Second) // virtual time
	synctest.Wait()
}
