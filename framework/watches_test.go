package framework_test

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// ZooKeeper 3.8 keeps one mode for a connection and a path, and the later request wins; 3.9 keeps
// all. These tests have every pair of watches on one path, in both orders, and see that none is
// lost.

// eachVersion runs a test with a server of each version.
func eachVersion(t *testing.T, name string, test func(t *testing.T, server *zktest.Server)) {
	for _, version := range []string{"3.8.0", "3.9.6"} {
		t.Run(name+" in "+version, func(t *testing.T) { test(t, zktest.NewServer(t, zktest.WithVersion(version))) })
	}
}

// watching is one way to watch /a, and the events that it must report.
type watching struct {
	name string
	// begin sets the watch; seen returns its events since then.
	begin func(t *testing.T, client *framework.Client) (seen func() []string, end func())
	data  bool // it reports changes of data
	list  bool // it reports changes of the list of children
	once  bool
}

// onceWatch watches /a by a method of clients, for example (*framework.Client).GetW.
func onceWatch[V any](look func(*framework.Client, context.Context, string) (V, *zk.Stat, *framework.Watch, error)) func(t *testing.T, client *framework.Client) (func() []string, func()) {
	return func(t *testing.T, client *framework.Client) (func() []string, func()) {
		_, _, w, err := look(client, t.Context(), "/a")
		require.NoError(t, err)
		return func() []string {
			if !fired(w) {
				return nil
			}
			return []string{w.Event().Type.String() + " " + w.Event().Path}
		}, func() {}
	}
}

func stayingWatch(mode framework.WatchMode) func(t *testing.T, client *framework.Client) (func() []string, func()) {
	return func(t *testing.T, client *framework.Client) (func() []string, func()) {
		var seen events
		w := testbed.AddWatch(t, client, "/a", mode, seen.add)
		return seen.list, w.Remove
	}
}

var ways = []watching{
	{name: "get", data: true, once: true, begin: onceWatch((*framework.Client).GetW)},
	{name: "exists", data: true, once: true, begin: onceWatch((*framework.Client).ExistsW)},
	{name: "children", list: true, once: true, begin: onceWatch((*framework.Client).ChildrenW)},
	{name: "persistent", data: true, list: true, begin: stayingWatch(framework.WatchPersistent)},
	{name: "recursive", data: true, begin: stayingWatch(framework.WatchRecursive)},
}

// change changes data and children of /a, so that every watch on it fires.
func change(t *testing.T, client *framework.Client, child string) {
	testbed.Set(t, client, "/a", nil)
	testbed.Create(t, client, "/a/"+child, nil)
}

// check says what a watch must have reported after n changes.
func (w watching) check(t *testing.T, notified []string, n int, when string) {
	t.Helper()
	count := func(what string) (n int) {
		for _, s := range notified {
			if s == what {
				n++
			}
		}
		return n
	}
	if w.once {
		n = min(n, 1)
	}
	changed, list := 0, 0
	if w.data {
		changed = n
	}
	if w.list {
		list = n
	}
	require.Equal(t, changed, count("EventNodeDataChanged /a"), "%s of %s: %v", when, w.name, notified)
	require.Equal(t, list, count("EventNodeChildrenChanged /a"), "%s of %s: %v", when, w.name, notified)
}

func TestWatchesOnOnePathDoNotDisturbEachOther(t *testing.T) {
	for _, first := range ways {
		for _, second := range ways {
			eachVersion(t, first.name+" and "+second.name, func(t *testing.T, server *zktest.Server) {
				client := newClient(t, server)
				testbed.Create(t, client, "/a", nil)
				seen1, end1 := first.begin(t, client)
				seen2, end2 := second.begin(t, client)
				if first.name == "children" && second.name == "recursive" {
					require.Equal(t, []string{"EventNotWatching /a"}, seen1(), "it looks again")
					seen1, end1 = first.begin(t, client)
				}
				change(t, client, "x")
				first.check(t, seen1(), 1, "the first")
				second.check(t, seen2(), 1, "the second")
				change(t, client, "y")
				first.check(t, seen1(), 2, "the first, again,")
				second.check(t, seen2(), 2, "the second, again,")
				end1()
				again, _ := second.begin(t, client) // after the first was removed
				change(t, client, "z")
				second.check(t, seen2(), 3, "the second, after the first's end,")
				second.check(t, again(), 1, "another second")
				end2()
			})
		}
	}
}

// TestRemovingAWatchTakesNoOtherAway has a watch that fires once rely on a persistent one that is
// removed.
func TestRemovingAWatchTakesNoOtherAway(t *testing.T) {
	for _, once := range ways[:3] {
		for _, stays := range ways[3:] {
			eachVersion(t, once.name+" without "+stays.name, func(t *testing.T, server *zktest.Server) {
				client := newClient(t, server)
				testbed.Create(t, client, "/a", nil)
				_, remove := stays.begin(t, client)
				seen, _ := once.begin(t, client)
				remove()
				require.NoError(t, client.Sync(t.Context())) // nothing is removed
				require.Positive(t, server.WatchCount())
				change(t, client, "x")
				once.check(t, seen(), 1, "the watch")
				testbed.Eventually(t, func() bool { return server.WatchCount() == 0 }, "nobody needs anything any more")
				later, _ := once.begin(t, client)
				change(t, client, "y")
				once.check(t, later(), 1, "a later watch")
			})
		}
	}
}

// TestAWatchOnNothingIsServedToo waits for a node to be created, beside persistent watches.
func TestAWatchOnNothingIsServedToo(t *testing.T) {
	for _, stays := range ways[3:] {
		client := newClient(t, zktest.NewServer(t))
		ctx := testbed.Context(t)
		_, _ = stays.begin(t, client)
		found, _, w, err := client.ExistsW(ctx, "/a")
		require.NoError(t, err)
		require.False(t, found)
		require.ErrorIs(t, testbed.Err(client.GetW(ctx, "/a")), zk.ErrNoNode)
		testbed.Create(t, client, "/a", nil)
		testbed.Receive(t, w.Done(), "the creation")
		require.Equal(t, zk.EventNodeCreated, w.Event().Type)
	}
}

// lookBehindAWatch has a look at /a wait behind the client's request for a watch that stays, which
// the server then answers. It returns the watch of the look, and the error of AddWatch.
func lookBehindAWatch[V any](
	t *testing.T, server *zktest.Server, client *framework.Client, mode framework.WatchMode,
	look func(context.Context, string) (V, *zk.Stat, *framework.Watch, error),
) (looked *framework.Watch, added error) {
	gate := server.Block(zktest.OnOp("addWatch"))
	adds := adding(t, client, mode)
	<-gate.Arrived()
	looks := looking(t, look)
	synctest.Wait() // it waits behind the watch
	gate.Open()
	return <-looks, <-adds
}

// TestLookWhileAPersistentWatchIsBeingSet: the look relies on the persistent watch, whose request
// is not answered yet.
func TestLookWhileAPersistentWatchIsBeingSet(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		w, err := lookBehindAWatch(t, server, client, framework.WatchPersistent, client.ExistsW)
		require.NoError(t, err)
		testbed.Create(t, client, "/a", nil)
		synctest.Wait()
		require.True(t, fired(w), "the creation")
	})
}

// TestRefusedPersistentWatchMakesOthersLookAgain: a look has relied on a persistent watch that the
// server then refuses.
func TestRefusedPersistentWatchMakesOthersLookAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		testbed.Answer(server, proto.Unimplemented, nil, zktest.OnOp("addWatch"))
		w, err := lookBehindAWatch(t, server, client, framework.WatchPersistent, client.ExistsW)
		require.ErrorIs(t, err, framework.ErrWatchUnsupported)
		synctest.Wait()
		require.True(t, fired(w), "there is no watch")
		require.Equal(t, zk.EventNotWatching, w.Event().Type)
	})
}

// TestWatchesUnderLoad has many goroutines add, remove and use watches on one path while it
// changes. Each looks until it has seen the last change.
func TestWatchesUnderLoad(t *testing.T) {
	server := zktest.NewServer(t)
	client, writer := newClient(t, server), newClient(t, server)
	ctx := testbed.Context(t)
	testbed.Create(t, writer, "/a", []byte("0"))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for {
				var staying *framework.PersistentWatch
				if i%2 == 0 {
					staying, _ = client.AddWatch(ctx, "/a", framework.WatchMode(i/2%2), func(zk.Event) {})
				}
				data, _, w, err := client.GetW(ctx, "/a")
				if staying != nil {
					staying.Remove()
				}
				if err != nil || string(data) == "end" {
					return
				}
				select {
				case <-w.Done():
				case <-ctx.Done():
					t.Error("a change was missed")
					return
				}
			}
		})
	}
	for range 300 {
		testbed.Set(t, writer, "/a", []byte("0"))
	}
	testbed.Set(t, writer, "/a", []byte("end"))
	wg.Wait()
	require.NoError(t, writer.Delete(ctx, "/a")) // the last looks have set watches too
	testbed.Eventually(t, func() bool { return server.WatchCount() == 0 }, "nothing stays behind")
}

// TestListOfSecretChildrenIsWatched has children that the client is not permitted to read. A
// recursive watch reports nothing of them; a watch of the list of children does.
func TestListOfSecretChildrenIsWatched(t *testing.T) {
	server := zktest.NewServer(t)
	client, secret := newClient(t, server), newClient(t, server, framework.WithAuth("digest", []byte("user:password")))
	testbed.Create(t, client, "/a", nil)
	var seen events
	testbed.AddWatch(t, client, "/a", framework.WatchRecursive, seen.add)
	for _, change := range []func() error{
		func() error {
			_, err := secret.Create(t.Context(), "/a/secret", nil, framework.ACL(zk.DigestACL(zk.PermAll, "user", "password")))
			return err
		},
		func() error { return secret.Delete(t.Context(), "/a/secret") },
	} {
		w := testbed.ChildrenW(t, client, "/a")
		require.NoError(t, change())
		testbed.Receive(t, w.Done(), "word of the list")
	}
	require.Empty(t, seen.list())
	testbed.Create(t, client, "/a/x", nil)
	require.Equal(t, []string{"EventNodeCreated /a/x"}, seen.list(), "the recursive watch is still there")
}

// TestListOfSecretChildrenIsWatchedWhileARecursiveWatchComes looks at the list before the server
// has answered that it has the recursive watch.
func TestListOfSecretChildrenIsWatchedWhileARecursiveWatchComes(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		testbed.Create(t, client, "/a", nil)
		w, err := lookBehindAWatch(t, server, client, framework.WatchRecursive, client.ChildrenW)
		require.NoError(t, err)
		createSecret(t, server, lookAgain(t, client, w))
	})
}

// TestListBesideARecursiveWatch has a watch of the list when the server gets a request for a
// recursive watch, or for another persistent one beside it. With that the server forgets the list's
// watch, and the recursive one says nothing of secrets.
func TestListBesideARecursiveWatch(t *testing.T) {
	const persistent, recursive = framework.WatchPersistent, framework.WatchRecursive
	for name, c := range map[string]struct {
		before []framework.WatchMode
		after  framework.WatchMode
	}{
		"that is new":                         {nil, recursive},
		"that is new, and a persistent watch": {[]framework.WatchMode{persistent}, recursive},
		"and another":                         {[]framework.WatchMode{recursive}, recursive},
		"and a new persistent watch":          {[]framework.WatchMode{recursive}, persistent},
	} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			server := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithVersion("3.8.0"))
			client := testbed.ClientOf(t, server)
			require.NoError(t, server.Create("/a", nil))
			for _, mode := range c.before {
				testbed.AddWatch(t, client, "/a", mode, func(zk.Event) {})
			}
			w := testbed.ChildrenW(t, client, "/a")
			testbed.AddWatch(t, client, "/a", c.after, func(zk.Event) {})
			createSecret(t, server, lookAgain(t, client, w))
		})
	}
}

// lookAgain returns a watch of the list in place of one that has ended without a change.
func lookAgain(t *testing.T, client *framework.Client, w *framework.Watch) *framework.Watch {
	t.Helper()
	if !fired(w) {
		return w
	}
	require.Equal(t, zk.EventNotWatching, w.Event().Type)
	return testbed.ChildrenW(t, client, "/a")
}

// createSecret has another client create a node that the watch's client is not permitted to read.
// The watch must report the change of the list.
func createSecret(t *testing.T, server *zktest.Server, w *framework.Watch) {
	t.Helper()
	other := testbed.On(server).Client(t, framework.WithDialer(server.DialContext), framework.WithAuth("digest", []byte("user:password")))
	testbed.Create(t, other, "/a/secret", nil, framework.ACL(zk.DigestACL(zk.PermAll, "user", "password")))
	synctest.Wait()
	require.Equal(t, zk.EventNodeChildrenChanged, w.Event().Type)
}

// refuser is a connection whose server refuses the next requests for persistent watches: they ask
// for a mode that there is not.
type refuser struct {
	net.Conn
	left *atomic.Int32
}

func (r *refuser) Write(frames []byte) (int, error) {
	frames = slices.Clone(frames)
	for rest := frames; len(rest) >= 12; { // requests that were waiting are written together
		frame := rest[:4+binary.BigEndian.Uint32(rest)]
		rest = rest[len(frame):]
		if proto.Op(binary.BigEndian.Uint32(frame[8:])) == proto.OpAddWatch && r.left.Add(-1) >= 0 {
			frame[len(frame)-1] = 9
		}
	}
	return r.Conn.Write(frames)
}

// throttled is a client whose server throttles as many requests for persistent watches as the test
// says.
func throttled(t *testing.T) (*zktest.Server, *framework.Client, *atomic.Int32) {
	t.Helper()
	server := zktest.NewServer(t, zktest.WithInMemory())
	server.Rewrite(func(_ zktest.Request, answer []byte) []byte {
		if code := answer[16:20]; proto.Code(binary.BigEndian.Uint32(code)) == proto.MarshallingError {
			proto.AppendInt32(code[:0], int32(proto.Throttled))
		}
		return answer
	}, zktest.OnOp("addWatch"))
	var left atomic.Int32
	client := testbed.On(server).Client(t, framework.WithRetryPolicy(retry.Never()),
		framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := server.DialContext(ctx, network, address)
			return &refuser{nc, &left}, err
		}))
	return server, client, &left
}

// adding is the call of AddWatch on /a, which is under way.
func adding(t *testing.T, client *framework.Client, mode framework.WatchMode) <-chan error {
	return testbed.Go(func() error { return testbed.Err(client.AddWatch(t.Context(), "/a", mode, func(zk.Event) {})) })
}

// looking is a look at /a with a watch, which is under way.
func looking[V any](t *testing.T, look func(context.Context, string) (V, *zk.Stat, *framework.Watch, error)) <-chan *framework.Watch {
	return testbed.Go(func() *framework.Watch {
		_, _, w, err := look(t.Context(), "/a")
		assert.NoError(t, err)
		return w
	})
}

// TestALookThatReliedOnARefusedWatchLooksAgain although another persistent watch is set later:
// until then no watch reports changes.
func TestALookThatReliedOnARefusedWatchLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client, refuse := throttled(t)
		require.NoError(t, server.Create("/a", nil))
		refuse.Store(1)
		gate := server.Block(zktest.OnOp("addWatch"))
		first := adding(t, client, framework.WatchPersistent)
		<-gate.Arrived()
		looked := looking(t, client.GetW)
		synctest.Wait() // it waits behind the first watch
		second := adding(t, client, framework.WatchPersistent)
		synctest.Wait() // it waits behind the look
		next := server.Block(zktest.OnOp("addWatch"))
		gate.Open()
		require.ErrorIs(t, <-first, framework.ErrThrottled)
		w := <-looked
		<-next.Arrived()
		require.NoError(t, server.Set("/a", []byte("new")))
		next.Open()
		require.NoError(t, <-second)
		synctest.Wait()
		require.True(t, fired(w), "the look was before the change")
	})
}

// TestAPersistentWatchOutlivesARecursiveOneThatIsRefused: a list is read behind the request, which
// must not replace the existing watch.
func TestAPersistentWatchOutlivesARecursiveOneThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client, refuse := throttled(t)
		require.NoError(t, server.Create("/a", nil))
		var seen events
		testbed.AddWatch(t, client, "/a", framework.WatchPersistent, seen.add)
		refuse.Store(1)
		w, err := lookBehindAWatch(t, server, client, framework.WatchRecursive, client.ChildrenW)
		require.ErrorIs(t, err, framework.ErrThrottled)
		for _, child := range []string{"/a/x", "/a/y", "/a/z"} {
			require.NoError(t, server.Create(child, nil))
		}
		synctest.Wait()
		require.True(t, fired(w))
		require.Equal(t, slices.Repeat([]string{"EventNodeChildrenChanged /a"}, 3), seen.list())
	})
}

// A waiter of a lock has two watches. When one reports that the node ahead was deleted, the waiter
// concludes from the silence of the other that its own node existed: see "The only one ahead" in
// docs/PROTOCOL.md. These tests check what it relies on.

// TestWatchesFireInTheOrderOfTheServer checks the order of events, even if persistent watches stand
// for the watches, and that an event is delivered before a later answer.
func TestWatchesFireInTheOrderOfTheServer(t *testing.T) {
	nodes := []string{"/own", "/ahead"}
	// -1: none
	stays := []framework.WatchMode{-1, framework.WatchPersistent, framework.WatchRecursive}
	for _, onOwn := range stays {
		for _, onAhead := range stays {
			for _, order := range [][]string{{"/own", "/ahead"}, {"/ahead", "/own"}} {
				synctest.Test(t, func(t *testing.T) { deleteInOrder(t, nodes, []framework.WatchMode{onOwn, onAhead}, order) })
			}
		}
	}
}

// fired reports whether a watch has fired.
func fired(w *framework.Watch) bool { return wait.Closed(w.Done()) }

// deleteInOrder has a client watch nodes whose deletions the server reports at once, in order.
// modes are the modes of persistent watches on them.
func deleteInOrder(t *testing.T, nodes []string, modes []framework.WatchMode, order []string) {
	l := &scripted{welcome: welcome(7, 10*time.Second), answer: fine(func(h proto.RequestHeader, _ []byte) (said []byte) {
		switch h.Op {
		case proto.OpGetData:
			return packet(&proto.ReplyHeader{Xid: h.Xid}, &proto.DataResponse{})
		case proto.OpExists:
			for _, node := range order {
				event := proto.WatcherEvent{Type: proto.EventDeleted, State: proto.StateConnected, Path: node}
				said = append(said, packet(&proto.ReplyHeader{Xid: proto.XidEvent, Zxid: -1}, &event)...)
			}
			return append(said, packet(&proto.ReplyHeader{Xid: h.Xid, Code: proto.NoNode})...)
		}
		return packet(&proto.ReplyHeader{Xid: h.Xid})
	})}
	client := l.client(t)
	watches := make(map[string]*framework.Watch) // complete before the first event
	var notified []string
	// It is called before the other watches.
	testbed.AddWatch(t, client, "/", framework.WatchRecursive, func(e zk.Event) {
		for i, node := range order {
			assert.Equal(t, i < len(notified), fired(watches[node]), "%s, at the event of %s", node, e.Path)
		}
		notified = append(notified, e.Path)
	})
	for i, mode := range modes {
		if mode >= 0 {
			testbed.AddWatch(t, client, nodes[i], mode, func(zk.Event) {})
		}
		watches[nodes[i]] = testbed.GetW(t, client, nodes[i])
	}
	require.NoError(t, testbed.Err(client.Exists(t.Context(), "/")))
	require.True(t, fired(watches[order[0]]) && fired(watches[order[1]]), "before the answer")
	require.Equal(t, order, notified)
}

// TestAWatchFiresBeforeALaterAnswer that reports the node ahead as missing.
func TestAWatchFiresBeforeALaterAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		for range 100 {
			for _, node := range []string{"/own", "/ahead"} {
				require.NoError(t, server.Create(node, nil))
			}
			own := testbed.GetW(t, client, "/own")
			gate := server.Block(zktest.OnOp("getData"))
			go func() {
				<-gate.Arrived()
				assert.NoError(t, server.Delete("/own"))
				assert.NoError(t, server.Delete("/ahead"))
				gate.Open()
			}()
			require.ErrorIs(t, testbed.Err(client.GetW(t.Context(), "/ahead")), zk.ErrNoNode)
			require.True(t, fired(own), "its node went before")
		}
	})
}

// TestWatchesEndBeforeTheNextConnectionBegins, so that no two watches that are set belong to
// different connections.
func TestWatchesEndBeforeTheNextConnectionBegins(t *testing.T) {
	for name, fault := range map[string]func(t *testing.T, server *zktest.Server, session int64){
		"cut": func(_ *testing.T, server *zktest.Server, _ int64) { server.CutConnections() },
		"expired": func(t *testing.T, server *zktest.Server, session int64) {
			assert.NoError(t, server.ExpireSession(session))
		},
		"frozen": func(_ *testing.T, server *zktest.Server, session int64) { server.Freeze(session) },
	} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			server := zktest.NewServer(t, zktest.WithInMemory())
			require.NoError(t, server.Create("/a", nil))
			require.NoError(t, server.Create("/b", nil))
			var set atomic.Pointer[[]<-chan struct{}]
			var again atomic.Int32
			client := testbed.NewClient(t, []string{server.Addr()}, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				if watches := set.Load(); watches != nil {
					again.Add(1)
					for i, done := range *watches {
						assert.True(t, wait.Closed(done), "watch %d of the last connection is left", i)
					}
				}
				return server.DialContext(ctx, network, address)
			}))
			session := testbed.Session(t, client)
			recursive := testbed.AddWatch(t, client, "/b", framework.WatchRecursive, func(zk.Event) {})
			watches := []<-chan struct{}{recursive.Done()}
			// the second is served by the persistent watch
			for _, path := range []string{"/a", "/b"} {
				watches = append(watches, testbed.GetW(t, client, path).Done(),
					testbed.ChildrenW(t, client, path).Done(), testbed.ExistsW(t, client, path+"/c").Done())
			}
			set.Store(&watches)
			fault(t, server, session.ID())
			for _, done := range watches {
				<-done
			}
			server.Thaw()
			require.NoError(t, client.WaitConnected(t.Context()))
			require.NoError(t, client.Sync(t.Context()))
			require.Positive(t, again.Load())
		})
	}
}

// TestAWatchThatWasUsedUpInSilenceIsSetAgain has a node change, or be deleted, while the client is
// not permitted to read it. Servers do not report that, and use up the watches that fire once all
// the same.
func TestAWatchThatWasUsedUpInSilenceIsSetAgain(t *testing.T) {
	mine := zk.DigestACL(zk.PermAll, "owner", "secret")
	open := func(t *testing.T, owner *framework.Client) {
		testbed.SetACL(t, owner, "/a", zk.WorldACL(zk.PermAll))
	}
	for name, silence := range map[string]func(t *testing.T, owner, subject *framework.Client){
		"refused": func(t *testing.T, owner, subject *framework.Client) {
			change(t, owner, "silent")
			require.ErrorIs(t, testbed.Err(subject.GetW(t.Context(), "/a")), zk.ErrNoAuth)
			open(t, owner)
		},
		"list refused": func(t *testing.T, owner, subject *framework.Client) {
			change(t, owner, "silent")
			require.ErrorIs(t, testbed.Err(subject.ChildrenW(t.Context(), "/a")), zk.ErrNoAuth)
			open(t, owner)
		},
		"gone": func(t *testing.T, owner, subject *framework.Client) {
			require.NoError(t, owner.Delete(t.Context(), "/a"))
			require.ErrorIs(t, testbed.Err(subject.GetW(t.Context(), "/a")), zk.ErrNoNode)
			testbed.Create(t, owner, "/a", nil)
		},
		"not noticed": func(t *testing.T, owner, subject *framework.Client) {
			change(t, owner, "silent")
			open(t, owner)
		},
		"found to be gone": func(t *testing.T, owner, subject *framework.Client) {
			require.NoError(t, owner.Delete(t.Context(), "/a"))
			require.False(t, testbed.Exists(t, subject, "/a"))
			testbed.Create(t, owner, "/a", nil)
		},
		"found to be gone with a watch for the next": func(t *testing.T, owner, subject *framework.Client) {
			require.NoError(t, owner.Delete(t.Context(), "/a"))
			there, _, _, err := subject.ExistsW(t.Context(), "/a")
			require.NoError(t, err)
			require.False(t, there)
			testbed.Create(t, owner, "/a", nil)
		},
	} {
		for _, way := range ways {
			if !way.once {
				continue
			}
			testbed.RunWorld(t, name+", "+way.name, func(t *testing.T, w *testbed.World) {
				subject, owner := w.Client(), w.Client(framework.WithAuth("digest", []byte("owner:secret")))
				testbed.Create(t, owner, "/a", nil)
				before, _ := way.begin(t, subject)
				testbed.SetACL(t, owner, "/a", mine)
				silence(t, owner, subject)
				synctest.Wait()
				after, _ := way.begin(t, subject)
				synctest.Wait()
				require.Empty(t, after())
				change(t, owner, "notified")
				synctest.Wait()
				require.Len(t, after(), 1)
				require.Len(t, before(), 1)
			})
		}
	}
}

// TestExistsWKeepsNothing measures the memory that a call leaves.
func TestExistsWKeepsNothing(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	call := func(n int) {
		for range n {
			testbed.ExistsW(t, client, "/none")
			testbed.ExistsW(t, client, "/")
		}
	}
	call(1000)
	before := heap()
	call(5000)
	require.Less(t, heap()-before, int64(5000*2*40))
}

// TestWatchHearsOfTheEndOfItsSession has a watch on an existing node, and one on a missing node.
func TestWatchHearsOfTheEndOfItsSession(t *testing.T) { // CUR-CLI-14, -15, KZ-CST-15
	server, client := start(t)
	session := testbed.Session(t, client)
	testbed.Create(t, client, "/a", []byte("data"))
	there := testbed.GetW(t, client, "/a")
	missing := testbed.ExistsW(t, client, "/none")
	require.NoError(t, server.ExpireSession(session.ID()))
	for _, w := range []*framework.Watch{there, missing} {
		testbed.Receive(t, w.Done(), "the end of the watch")
		require.Equal(t, zk.EventNotWatching, w.Event().Type)
	}
	require.Equal(t, "data", testbed.Get(t, client, "/a"))
	testbed.Receive(t, session.Done(), "the end of the session")
	require.ErrorIs(t, session.Err(), framework.ErrSessionLost)
}
