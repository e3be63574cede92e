package cache_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/zktest"
)

// What a cache makes of answers and events that come in an unlucky order.

// holding is a client whose answers about one node take their time on the way to the cache, while events do not.
type holding struct {
	cache.Requests
	path    string
	arrived chan struct{} // gets a value when an answer is held
	open    chan struct{} // gives one when it may go on
}

func newHolding(client *framework.Client, path string) *holding {
	return &holding{Requests: cache.Live(client), path: path, arrived: make(chan struct{}, 100), open: make(chan struct{})}
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

func (h *holding) Read(ctx context.Context, path string, f func([]byte, *zk.Stat, error)) {
	h.Requests.Read(ctx, path, func(data []byte, stat *zk.Stat, err error) {
		if path != h.path {
			f(data, stat, err)
			return
		}
		go func() { // ends with the epoch
			h.hold(ctx, path)
			f(data, stat, err)
		}()
	})
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

// TestSyncDoesNotTakeAnOldRefusal has a node be opened, or made again, while the answer that it must not be read is on its way, and
// then a Sync begin.
func TestSyncDoesNotTakeAnOldRefusal(t *testing.T) {
	eachMode(t, func(t *testing.T, opts []cache.Option) {
		for name, open := range map[string]func(t *testing.T, owner *framework.Client){
			"opened": func(t *testing.T, owner *framework.Client) {
				_, err := owner.SetACL(testbed.Context(t), "/r/secret", zk.WorldACL(zk.PermAll), -1)
				require.NoError(t, err)
			},
			"made again": func(t *testing.T, owner *framework.Client) {
				remove(t, owner, "/r/secret")
				create(t, owner, "/r/secret")
			},
		} {
			for _, first := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, the first refusal: %v", name, first), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						_, subject, owner, mine := ownership(t)
						create(t, owner, "/r")
						_, err := owner.Create(testbed.Context(t), "/r/secret", nil, framework.ACL(mine))
						require.NoError(t, err)
						h := newHolding(subject, "/r/secret")
						c, err := cache.NewOn(h, "/r", opts...)
						require.NoError(t, err)
						defer c.Close()
						testbed.Receive(t, h.arrived, "a refusal")
						if !first {
							h.open <- struct{}{}
							testbed.Receive(t, h.arrived, "the next one")
						}
						open(t, owner)
						synctest.Wait()
						h.sync(t, c)
						_, ok := c.Get("/r/secret")
						require.True(t, ok)
					})
				})
			}
		}
	})
}

// TestSyncWaitsForTheChildrenOfANodeThatWasMadeAgain has a node be made again that the client may not read meanwhile. Nothing tells of
// that but a change of the new node, which asks for the node alone. What it shows has the list be read as well.
func TestSyncWaitsForTheChildrenOfANodeThatWasMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, subject, owner, mine := ownership(t)
		create(t, owner, "/r", "/r/x")
		h := newHolding(subject, "/r/x")
		c, err := cache.NewOn(h, "/r")
		require.NoError(t, err)
		defer c.Close()
		h.sync(t, c)
		<-h.arrived
		require.Empty(t, h.arrived)
		acl := func(path string, acl []zk.ACL) {
			_, err := owner.SetACL(testbed.Context(t), path, acl, -1)
			require.NoError(t, err)
		}
		acl("/r/x", mine)
		remove(t, owner, "/r/x")
		for _, path := range []string{"/r/x", "/r/x/y"} {
			_, err = owner.Create(testbed.Context(t), path, []byte(path), framework.ACL(mine))
			require.NoError(t, err)
			acl(path, zk.WorldACL(zk.PermAll))
		}
		set(t, owner, "/r/x", "new")
		testbed.Receive(t, h.arrived, "an answer about the new node")
		gate := server.Block(zktest.OnOp(zktest.OpGetChildren2), zktest.OnPath("/r/x"))
		time.AfterFunc(time.Second, gate.Open)
		h.sync(t, c)
		require.Equal(t, []string{"/r=/r", "/r/x=new", "/r/x/y=/r/x/y"}, show(c))
	})
}

// TestWithoutDataANodeThatMayNotBeReadIsShownWheneverItComes: a stat needs no permission.
func TestWithoutDataANodeThatMayNotBeReadIsShownWheneverItComes(t *testing.T) {
	eachMode(t, func(t *testing.T, opts []cache.Option) {
		synctest.Test(t, func(t *testing.T) {
			_, subject, owner, mine := ownership(t)
			create(t, owner, "/r")
			secret := func(path string) {
				_, err := owner.Create(testbed.Context(t), path, nil, framework.ACL(mine))
				require.NoError(t, err)
			}
			secret("/r/before")
			c, err := cache.New(subject, "/r", append(opts, cache.WithoutData(), cache.Depth(1))...)
			require.NoError(t, err)
			defer c.Close()
			require.NoError(t, c.Sync(testbed.Context(t)))
			_, there := c.Get("/r/before")
			require.True(t, there)
			secret("/r/later")
			create(t, owner, "/r/open") // a recursive watch tells of this one
			require.NoError(t, c.Sync(testbed.Context(t)))
			_, there = c.Get("/r/open")
			require.True(t, there)
			if c.Stats().StandardWatches {
				_, there = c.Get("/r/later")
				require.True(t, there)
				remove(t, owner, "/r/before")
				secret("/r/before")
				require.NoError(t, c.Sync(testbed.Context(t)))
				_, there = c.Get("/r/before")
				require.True(t, there, "also when it is made again")
			}
		})
	})
}

// ownership makes a server and two clients of it: one that has no rights, and one that can make nodes that only it may read, with the ACL
// for them. It is for a synctest bubble.
func ownership(t *testing.T) (server *zktest.Server, subject, owner *framework.Client, mine []zk.ACL) {
	server = zktest.NewServer(t, zktest.WithInMemory())
	bed, dial := testbed.On(server), framework.WithDialer(server.DialContext)
	subject, owner = bed.Client(t, dial), bed.Client(t, dial, framework.WithAuth("digest", []byte("owner:secret")))
	return server, subject, owner, zk.DigestACL(zk.PermAll, "owner", "secret")
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

func (m *moving) Read(ctx context.Context, path string, f func([]byte, *zk.Stat, error)) {
	if path != "/r/x" || m.asked == nil {
		m.Requests.Read(ctx, path, f)
		return
	}
	close(m.asked)
	m.asked = nil
	go func() { // ends with the test
		<-m.answer
		f(nil, nil, zk.ErrNoNode)
	}()
}

// TestAnswerOfAnotherConnectionIsNotUsed: it came before that one's server has caught up.
func TestAnswerOfAnotherConnectionIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		bed, dial := testbed.On(server), framework.WithDialer(server.DialContext)
		subject, other := bed.Client(t, dial), bed.Client(t, dial)
		create(t, other, "/r", "/r/x")
		m, busy := &moving{Requests: cache.Live(subject)}, make(chan struct{})
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
		var told []string // in any order: they are read at the same time
		for range 2 {
			ch, ok := changes.next()
			require.True(t, ok)
			told = append(told, ch.Kind.String()+" "+ch.Path)
		}
		require.ElementsMatch(t, []string{"changed /r/x", "created /r/busy"}, told)
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

// pass lets everything through until all have nothing to do.
func pass(a, b *holding) {
	for range 20 {
		synctest.Wait()
		select {
		case a.open <- struct{}{}:
		case b.open <- struct{}{}:
		default:
		}
	}
	for len(a.arrived)+len(b.arrived) > 0 {
		select {
		case <-a.arrived:
		case <-b.arrived:
		}
	}
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
		c, err := cache.NewOn(child, "/r")
		require.NoError(t, err)
		defer c.Close()
		changes := follow(t, c)
		pass(root, child)
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

// TestChildOfANewParentIsNotBelowTheOldOne has a node be made again while a child of the old one is still in the copy, since it is
// not known yet that it went while there was no connection. The simulation found it.
func TestChildOfANewParentIsNotBelowTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		subject := testbed.On(server).Client(t, framework.WithDialer(server.DialContext))
		require.NoError(t, server.Create("/r/p/x", []byte("x")))
		parent := newHolding(subject, "/r/p")
		child := newHolding(nil, "/r/p/x")
		child.Requests = parent
		c, err := cache.NewOn(child, "/r")
		require.NoError(t, err)
		defer c.Close()
		changes := follow(t, c)
		pass(parent, child)
		changes.want("created /r=", "created /r/p=", "created /r/p/x=x")

		server.RefuseConnections(true)
		server.CutConnections()
		require.NoError(t, server.Delete("/r/p/x"))
		server.RefuseConnections(false)
		testbed.Receive(t, parent.arrived, "an answer about the old parent")
		parent.open <- struct{}{}
		testbed.Receive(t, child.arrived, "the answer that the child is gone")
		require.NoError(t, server.Delete("/r/p"))
		require.NoError(t, server.Create("/r/p", []byte("again")))
		require.NoError(t, server.Create("/r/p/new", []byte("new")))
		testbed.Receive(t, parent.arrived, "an answer about the new parent")
		synctest.Wait()
		close(parent.open) // nothing is held from here on
		close(child.open)
		changes.want("deleted /r/p/x=x", "deleted /r/p=", "created /r/p=again", "created /r/p/new=new")
	})
}

// TestSyncWaitsForANodeThatIsGoneWithItsChildren has the end of a parent be found, whose child in the copy is checked before the parent
// goes. The child is made again and deleted meanwhile, so that its end is told and not read.
func TestSyncWaitsForANodeThatIsGoneWithItsChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		subject := testbed.On(server).Client(t, framework.WithDialer(server.DialContext))
		require.NoError(t, server.Create("/r/p/x", nil))
		parent := newHolding(subject, "/r/p")
		child := newHolding(nil, "/r/p/x")
		child.Requests = parent
		c, err := cache.NewOn(child, "/r")
		require.NoError(t, err)
		defer c.Close()
		pass(parent, child)
		old, ok := c.Get("/r/p")
		require.True(t, ok)

		server.RefuseConnections(true)
		server.CutConnections()
		require.NoError(t, server.Delete("/r/p"))
		server.RefuseConnections(false)
		testbed.Receive(t, parent.arrived, "the answer that the parent is gone")
		parent.open <- struct{}{}
		testbed.Receive(t, child.arrived, "the answer that the child is gone")
		synced := make(chan error, 1)
		go func() { synced <- c.Sync(testbed.Context(t)) }()
		synctest.Wait() // it waits for the cache
		require.NoError(t, server.Create("/r/p/x", nil))
		require.NoError(t, server.Delete("/r/p/x"))
		testbed.Receive(t, parent.arrived, "an answer about the new parent")
		synctest.Wait()
		close(child.open) // nothing is held from here on but the parent
		time.AfterFunc(time.Second, func() { close(parent.open) })
		require.NoError(t, testbed.Receive(t, synced, "the sync"))
		now, ok := c.Get("/r/p")
		require.True(t, !ok || now.Stat.Czxid > old.Stat.Czxid, "the old parent was gone before the Sync")
	})
}

// late is a client that asks about one node when it is told to.
type late struct {
	cache.Requests
	path        string
	asked, goOn chan struct{}
}

func (l *late) Read(ctx context.Context, path string, f func([]byte, *zk.Stat, error)) {
	if path != l.path {
		l.Requests.Read(ctx, path, f)
		return
	}
	go func() { // ends with the epoch
		select {
		case l.asked <- struct{}{}:
		case <-ctx.Done():
		}
		select {
		case <-l.goOn:
		case <-ctx.Done():
		}
		l.Requests.Read(ctx, path, f)
	}()
}

// TestSyncWaitsForANodeThatIsGoneWithASecretChild has the end of a parent be found, whose child in the copy is checked before the parent
// goes. Both are made again meanwhile, and the new child must not be read.
func TestSyncWaitsForANodeThatIsGoneWithASecretChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, subject, owner, mine := ownership(t)
		create(t, owner, "/r", "/r/p", "/r/p/x")
		parent := newHolding(subject, "/r/p")
		child := &late{parent, "", make(chan struct{}, 100), make(chan struct{})}
		c, err := cache.NewOn(child, "/r")
		require.NoError(t, err)
		defer c.Close()
		parent.sync(t, c)
		<-parent.arrived
		require.Empty(t, parent.arrived)
		old, ok := c.Get("/r/p")
		require.True(t, ok)

		server.RefuseConnections(true)
		server.CutConnections()
		synctest.Wait() // no event of what follows is sent any more
		require.NoError(t, server.Delete("/r/p"))
		child.path = "/r/p/x"
		server.RefuseConnections(false)
		testbed.Receive(t, parent.arrived, "the answer that the parent is gone")
		parent.open <- struct{}{}
		testbed.Receive(t, child.asked, "the cache asks about the child")
		synced := make(chan error, 1)
		go func() { synced <- c.Sync(testbed.Context(t)) }()
		synctest.Wait() // it waits for the cache
		create(t, owner, "/r/p")
		_, err = owner.Create(testbed.Context(t), "/r/p/x", nil, framework.ACL(mine))
		require.NoError(t, err)
		testbed.Receive(t, parent.arrived, "an answer about the new parent")
		close(child.goOn)
		time.AfterFunc(time.Second, func() { close(parent.open) })
		require.NoError(t, testbed.Receive(t, synced, "the sync"))
		now, ok := c.Get("/r/p")
		require.True(t, !ok || now.Stat.Czxid > old.Stat.Czxid, "the old parent was gone before the Sync")
	})
}

// TestNodeThatWasMadeAgainInSecretIsFound by the change of a child that is being read since its last life.
func TestNodeThatWasMadeAgainInSecretIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, subject, owner, mine := ownership(t)
		create(t, owner, "/r/p/x")
		h := newHolding(subject, "/r/p/x")
		c, err := cache.NewOn(h, "/r")
		require.NoError(t, err)
		defer c.Close()
		h.sync(t, c)
		<-h.arrived
		set(t, owner, "/r/p/x", "new")
		testbed.Receive(t, h.arrived, "an answer")
		remove(t, owner, "/r/p/x", "/r/p")
		for _, path := range []string{"/r/p", "/r/p/x"} {
			_, err := owner.Create(testbed.Context(t), path, []byte(path), framework.ACL(mine))
			require.NoError(t, err)
			_, err = owner.SetACL(testbed.Context(t), path, zk.WorldACL(zk.PermAll), -1)
			require.NoError(t, err)
		}
		set(t, owner, "/r/p/x", "newer")
		synctest.Wait()
		h.sync(t, c)
		same(t, owner, c)
	})
}

// TestTreeThatIsMadeAgainGoesFirst: of a parent and a child that were made again, no new node comes before the old ones are
// gone, whichever the cache hears of first.
func TestTreeThatIsMadeAgainGoesFirst(t *testing.T) {
	again := []string{"deleted /r/p/x=/r/p/x", "deleted /r/p=/r/p", "created /r/p=/r/p", "created /r/p/x=/r/p/x"}
	eachMode(t, func(t *testing.T, opts []cache.Option) {
		server := zktest.NewServer(t)
		subject, other, _ := pair(t, server)
		create(t, other, "/r", "/r/p", "/r/p/x")
		changes := follow(t, load(t, subject, "/r", opts...))
		changes.want("created /r=/r", "created /r/p=/r/p", "created /r/p/x=/r/p/x")
		root := follow(t, load(t, subject, "/r/p", opts...))
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
		changes := follow(t, load(t, subject, "/r", cache.Concurrency(1)))
		changes.want("created /r=/r", "created /r/p=/r/p", "created /r/p/x=/r/p/x")
		gate, watch := server.Block(zktest.OnOp(zktest.OpGetData), of), server.Block(zktest.OnOp(zktest.OpAddWatch), of)
		server.CutConnections()
		testbed.Receive(t, watch.Arrived(), "the next connection")
		remove(t, other, "/r/p/x", "/r/p")
		create(t, other, "/r/p", "/r/p/x")
		watch.Open()
		testbed.Receive(t, gate.Arrived(), "the read of the root")
		set(t, other, "/r/p/x", "x") // its event comes before the parent is read
		gate.Open()
		changes.want("deleted /r/p/x=/r/p/x", "deleted /r/p=/r/p", "created /r/p=/r/p", "created /r/p/x=x")
		create(t, other, "/r/p/y")
		changes.want("created /r/p/y=/r/p/y")
	})
}
