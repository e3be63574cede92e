package node_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// TestTheNodeOfTheNextKeepIsNotDeleted closes a persistent Keep without a server, and begins
// another one at the same path. The deletion of the first node, in the background, stands still
// until the next node exists.
func TestTheNodeOfTheNextKeepIsNotDeleted(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		var armed atomic.Bool
		goOn := make(chan struct{})
		client := w.client(framework.WithObserver(framework.Observer{Operation: func(_ context.Context, e framework.OperationEvent) {
			if e.Op == "multi" && armed.CompareAndSwap(true, false) {
				<-goOn
			}
		}}))
		first := keep(t, client, "/group/a", "first", node.WithPersistence())
		w.RefuseConnections(true)
		w.CutConnections()
		synctest.Wait()
		require.ErrorIs(t, first.Close(), zk.ErrNoServer)
		require.True(t, w.Exists("/group/a"))
		armed.Store(true)
		kept := begin(day(t), client, "next", node.WithPersistence())
		w.RefuseConnections(false)
		time.Sleep(time.Minute) // virtual time: an outage longer than the session
		shown := len(kept) > 0
		before := w.stat("/group/a")
		close(goOn)
		next := testbed.Receive(t, kept, "the next Keep")
		w.settle()
		w.one(next, "next")
		after := w.stat("/group/a")
		require.False(t, shown && after.Czxid != before.Czxid, "it was shown and deleted")
		require.NoError(t, next.Close())
	})
}

func TestNode(t *testing.T) {
	testbed.Run(t, []testbed.Case{
		{Name: "exists with its data, and is gone after the close", Test: existsUntilClosed},
		{Name: "data are changed in place", Test: dataChangeInPlace},
		{Name: "a node of the same session is taken over", Test: takesOver},
		{Name: "a deleted node comes back under the same name", Test: comesBack},
		{Name: "a persistent node outlives its client, and goes with its close", Test: persistentOutlives},
		{Name: "comes back after the end of the session, with what was set last", Test: survivesSession},
		{Name: "names are kept after the end of the session", Test: namesAreKept},
		{Name: "a missing parent is reported", Test: missingParent},
		{Name: "a node is made again while a late write may come", Test: madeAgainWhileAWriteMayCome},
		{Name: "another's node is waited for", Test: waitsForAnother},
		{Name: "another's node is replaced, and the one that came last wins", Test: replaces},
		{Name: "another's node is a failure", Test: failsIfTaken},
		{Name: "another keep of the same client is another", Test: sameClient},
		{Name: "the end of the client is reported", Test: clientCloses},
	})
}

// expire ends the session, and waits until the node exists in the next session.
func expire(t *testing.T, bed *testbed.Bed, client *framework.Client, n *node.Node) {
	t.Helper()
	before := testbed.Stat(t, client, n.Path())
	_, changed := n.Present()
	bed.ExpireSession(t, client)
	testbed.Receive(t, changed, "word of the loss")
	testbed.Eventually(t, func() bool {
		found, stat, err := client.Exists(testbed.Context(t), n.Path())
		return err == nil && found && stat.Czxid > before.Czxid
	}, "the node is made again")
	await(t, n, isThere)
}

func existsUntilClosed(t *testing.T, bed *testbed.Bed) { // CUR-NOD-01
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	n := keep(t, client, path, "a")
	require.Equal(t, path, n.Path())
	require.Equal(t, "a", data(t, other, path))
	require.NoError(t, n.Close())
	require.Equal(t, "-", data(t, other, path))
	require.NoError(t, n.Close(), "again")
	require.False(t, present(n))
	require.ErrorIs(t, n.Problem(), framework.ErrEnded)
	require.ErrorIs(t, n.Err(), framework.ErrEnded)
	require.EqualError(t, n.Err(), "kept node is closed")
	require.ErrorIs(t, n.Set(testbed.Context(t), []byte("b")), framework.ErrEnded)
}

func dataChangeInPlace(t *testing.T, bed *testbed.Bed) { // CUR-NOD-02
	changeInPlace(t, bed)
	changeInPlace(t, bed, node.WithProtection(), node.WithSequence())
}

func changeInPlace(t *testing.T, bed *testbed.Bed, opts ...node.Option) {
	client, other := bed.Client(t), bed.Client(t)
	n := keep(t, client, testbed.Path(t), "a", opts...)
	path := n.Path()
	testbed.CatchUp(t, other)
	_, first, watch, err := other.GetW(testbed.Context(t), path)
	require.NoError(t, err)
	for _, text := range []string{"b", "c"} {
		require.NoError(t, n.Set(testbed.Context(t), []byte(text)))
		testbed.Receive(t, watch.Done(), "the change")
		require.Equal(t, zk.EventNodeDataChanged, watch.Event().Type)
		var got []byte
		var stat *zk.Stat
		got, stat, watch, err = other.GetW(testbed.Context(t), path)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		require.Equal(t, first.Czxid, stat.Czxid, "it is the same node")
		require.Equal(t, path, n.Path())
	}
	require.NoError(t, n.Close())
	testbed.Receive(t, watch.Done(), "the deletion")
	require.Equal(t, zk.EventNodeDeleted, watch.Event().Type)
}

func takesOver(t *testing.T, bed *testbed.Bed) { // CUR-NOD-03
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	testbed.Create(t, client, path, []byte("old"), framework.As(framework.Ephemeral), framework.ContainerParents())
	keep(t, client, path, "new")
	require.Equal(t, "new", data(t, other, path))
}

func comesBack(t *testing.T, bed *testbed.Bed) { // CUR-NOD-04
	for name, opts := range map[string][]node.Option{
		"plain": nil, "protected": {node.WithProtection()}, "both": {node.WithSequence(), node.WithProtection()}, "persistent": {node.WithPersistence()},
	} {
		t.Run(name, func(t *testing.T) {
			client, other := bed.Client(t), bed.Client(t)
			n := keep(t, client, testbed.Path(t), "a", opts...)
			require.NoError(t, n.Set(testbed.Context(t), []byte("b")))
			path := n.Path()
			before := testbed.Stat(t, client, path)
			testbed.CatchUp(t, other)
			require.NoError(t, other.Delete(testbed.Context(t), path))
			testbed.Eventually(t, func() bool {
				found, stat, err := client.Exists(testbed.Context(t), path)
				return err == nil && found && stat.Czxid > before.Czxid
			}, "the node is made again")
			await(t, n, isThere)
			require.Equal(t, "b", data(t, other, path))
			require.Equal(t, path, n.Path())
		})
	}
}

func persistentOutlives(t *testing.T, bed *testbed.Bed) { // CUR-NOD-05
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	n := keep(t, client, path, "a", node.WithPersistence())
	require.NoError(t, client.Close())
	require.Equal(t, "a", data(t, other, path))
	require.ErrorIs(t, n.Close(), framework.ErrClosed, "it was not deleted")
	require.ErrorIs(t, n.Problem(), framework.ErrClosed, "the first reason stays")
	// The next life takes it over.
	next := keep(t, other, path, "b", node.WithPersistence())
	require.Equal(t, "b", data(t, other, path))
	require.Zero(t, testbed.Stat(t, other, path).EphemeralOwner)
	require.NoError(t, next.Close())
	require.Equal(t, "-", data(t, other, path))
}

func survivesSession(t *testing.T, bed *testbed.Bed) {
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	n := keep(t, client, path, "a")
	require.NoError(t, n.Set(testbed.Context(t), []byte("b")))
	expire(t, bed, client, n)
	require.Equal(t, "b", data(t, other, path))
	stat := testbed.Stat(t, client, path)
	require.Equal(t, testbed.Session(t, client).ID(), stat.EphemeralOwner, "it belongs to the new session")
}

func namesAreKept(t *testing.T, bed *testbed.Bed) { // CURATOR-190, CURATOR-483
	for name, opts := range map[string][]node.Option{
		"protected": {node.WithProtection()}, "both": {node.WithSequence(), node.WithProtection()},
	} {
		t.Run(name, func(t *testing.T) {
			client, other := bed.Client(t), bed.Client(t)
			n := keep(t, client, testbed.Path(t), "a", opts...)
			path := n.Path()
			dir, child := framework.Split(path)
			require.Equal(t, name == "both", strings.HasSuffix(child, "0000000000"))
			_, id := framework.Unprotected(child)
			require.NotEmpty(t, id, child)
			for range 2 {
				expire(t, bed, client, n)
				require.Equal(t, path, n.Path())
				testbed.CatchUp(t, other)
				require.Equal(t, []string{child}, testbed.Children(t, other, dir), "the same name, once")
			}
		})
	}
}

func missingParent(t *testing.T, bed *testbed.Bed) { // CUR-NOD-07
	client, other := bed.Client(t), bed.Client(t)
	dir, _ := framework.Split(testbed.Path(t))
	inVain(t, zk.ErrNoNode, client, dir+"/a", node.WithoutParents())
	require.Equal(t, "-", data(t, other, dir))

	kept := beginAt(testbed.Context(t), client, dir+"/a", "a", node.WithoutParents())
	testbed.Create(t, other, dir, nil)
	require.NoError(t, testbed.Receive(t, kept, "the node").Close())
}

// inVain requires that Keep waits until its context is done, and then returns reason. On a slow
// machine it needs longer to learn the reason.
func inVain(t *testing.T, reason error, client *framework.Client, path string, opts ...node.Option) {
	t.Helper()
	patience := testbed.Context(t)
	var err error
	for d := 50 * time.Millisecond; !errors.Is(err, reason); d *= 2 {
		require.NoError(t, patience.Err(), "waited in vain for %v", reason)
		ctx, cancel := context.WithTimeout(patience, d)
		_, err = node.Keep(ctx, client, path, []byte("second"), opts...)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
}

// madeAgainWhileAWriteMayCome loses the connection at a write, and has the node deleted after that.
// A transaction recreates it, with a final version other than the one that the write expects. The
// parent may be missing as well.
func madeAgainWhileAWriteMayCome(t *testing.T, bed *testbed.Bed) {
	for _, opts := range [][]node.Option{nil, {node.WithPersistence()}, {node.WithTTL(time.Hour)}} {
		for before := range 2 { // writes before the one that is not answered
			for _, parent := range []bool{true, false} {
				var broken atomic.Bool
				var made atomic.Int32
				root := bed.Client(t, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
					c, err := new(net.Dialer).DialContext(ctx, network, address)
					return breaking{c, &broken}, err
				}), framework.WithObserver(framework.Observer{Operation: func(_ context.Context, e framework.OperationEvent) {
					if e.Op == "multi" && e.Err == nil {
						made.Add(1)
					}
				}}))
				space, name := framework.Split(testbed.Path(t))
				client := testbed.Namespace(t, root, space[1:])
				n := keep(t, client, "/deep/"+name, "0", opts...)
				for range before {
					require.NoError(t, n.Set(testbed.Context(t), []byte("1")))
				}
				late := testbed.Stat(t, client, n.Path())
				require.NoError(t, n.Set(testbed.Context(t), []byte("broken")))
				require.True(t, broken.Load())
				require.NoError(t, client.Delete(testbed.Context(t), n.Path()))
				if !parent {
					_ = client.Delete(testbed.Context(t), "/deep") // the keeper may be faster
				}
				testbed.Eventually(t, func() bool { return made.Load() == 1 }, "the transaction")
				await(t, n, isThere)
				require.Equal(t, "broken", testbed.Get(t, client, n.Path()))
				require.NotEqual(t, late.Version, testbed.Stat(t, client, n.Path()).Version)
				require.NoError(t, n.Set(testbed.Context(t), []byte("last")))
				require.NoError(t, n.Close())
			}
		}
	}
}

// breaking is a connection that loses the first request that has the data "broken", and ends then.
type breaking struct {
	net.Conn
	broken *atomic.Bool
}

func (b breaking) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("broken")) && b.broken.CompareAndSwap(false, true) {
		return len(p), b.Close()
	}
	return b.Conn.Write(p)
}

func waitsForAnother(t *testing.T, bed *testbed.Bed) {
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	first := keep(t, other, path, "first")
	inVain(t, node.ErrTaken, client, path)
	require.Equal(t, "first", data(t, client, path), "it was not touched")

	kept := beginAt(testbed.Context(t), client, path, "second")
	require.NoError(t, first.Close())
	second := testbed.Receive(t, kept, "the node")
	require.Equal(t, "second", data(t, other, path))
	require.NoError(t, second.Close())
}

func replaces(t *testing.T, bed *testbed.Bed) {
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	first := keep(t, other, path, "first", node.WithIfTaken(node.Replace))
	second := keep(t, client, path, "second", node.WithIfTaken(node.Replace))
	await(t, first, reason(node.ErrTaken))
	require.Equal(t, "second", data(t, other, path))
	require.ErrorIs(t, first.Set(testbed.Timeout(t, 50*time.Millisecond), []byte("more")), node.ErrTaken)
	require.Equal(t, "second", data(t, other, path))
	require.NoError(t, second.Close())
	await(t, first, isThere)
	require.Equal(t, "more", data(t, other, path), "what was set meanwhile")
	require.NoError(t, first.Close())
	require.Equal(t, "-", data(t, other, path))
}

func failsIfTaken(t *testing.T, bed *testbed.Bed) {
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	testbed.Create(t, other, path, []byte("other"), framework.ContainerParents())
	_, err := node.Keep(testbed.Context(t), client, path, []byte("a"), node.WithIfTaken(node.Fail))
	require.ErrorIs(t, err, node.ErrTaken)
	require.Equal(t, "other", data(t, other, path))
	require.NoError(t, other.Delete(testbed.Context(t), path))

	// Later it is as with Wait.
	n := keep(t, client, path, "a", node.WithIfTaken(node.Fail))
	thief := keep(t, other, path, "b", node.WithIfTaken(node.Replace))
	await(t, n, reason(node.ErrTaken))
	require.NoError(t, thief.Close())
	await(t, n, isThere)
}

func sameClient(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	path := testbed.Path(t)
	view := testbed.Namespace(t, client, path[1:])
	first := keep(t, client, path+"/a", "first")
	_, err := node.Keep(testbed.Context(t), view, "/a", []byte("second"), node.WithIfTaken(node.Fail))
	require.ErrorIs(t, err, node.ErrTaken, "it is the same path")
	for name, opts := range map[string][]node.Option{
		"wait": nil, "replace": {node.WithIfTaken(node.Replace)}, "another kind": {node.WithPersistence(), node.WithIfTaken(node.Replace)},
	} {
		t.Log(name)
		inVain(t, node.ErrTaken, view, "/a", opts...)
	}
	second := beginAt(testbed.Context(t), view, "/a", "second")
	await(t, first, isThere)
	require.Equal(t, "first", data(t, client, path+"/a"), "it was left alone")
	require.NoError(t, first.Close())
	n := testbed.Receive(t, second, "the node, which is free")
	require.Equal(t, "second", data(t, client, path+"/a"))
	require.NoError(t, n.Close())
	require.Equal(t, "-", data(t, client, path+"/a"))
}

func clientCloses(t *testing.T, bed *testbed.Bed) {
	client, other := bed.Client(t), bed.Client(t)
	path := testbed.Path(t)
	n := keep(t, client, path, "a")
	require.NoError(t, client.Close())
	await(t, n, reason(framework.ErrClosed))
	require.ErrorIs(t, n.Err(), framework.ErrClosed)
	require.ErrorIs(t, n.Set(testbed.Context(t), nil), framework.ErrClosed)
	require.Equal(t, "-", data(t, other, path))
	require.NoError(t, n.Close())
	require.ErrorIs(t, testbed.Err(node.Keep(testbed.Context(t), client, path, nil)), framework.ErrClosed)
}

var tooLong = bytes.Repeat([]byte{'x'}, 1<<20)

// creates reports whether op creates a node.
func creates(op string) bool {
	return op == "create" || op == "create2" || op == "createContainer"
}

// stays checks that the client opens no more connections.
func stays(t *testing.T, connections *atomic.Int64) {
	before := connections.Load()
	time.Sleep(5 * time.Minute) // in virtual time: data that are sent again would cut several
	require.Equal(t, before, connections.Load(), "the data are not sent again")
}

// TestDataThatAreTooLongAreGivenUp: the node keeps its earlier data, and the connection stays.
func TestDataThatAreTooLongAreGivenUp(t *testing.T) {
	for name, opts := range map[string][]node.Option{"ephemeral": nil, "persistent": {node.WithPersistence()}} {
		virtualRun(t, name, func(t *testing.T, w world) {
			client, connections := w.counted()
			n := keep(t, client, "/p/n", "short", opts...)
			require.ErrorIs(t, n.Set(minutes(t), tooLong), framework.ErrTooLong)
			w.settle()
			stays(t, connections)
			require.EqualValues(t, 1, connections.Load())
			require.True(t, present(n))
			require.NoError(t, n.Problem())
			w.one(n, "short")

			require.NoError(t, w.Delete("/p/n"))
			w.settle()
			w.one(n, "short")

			testbed.On(w.Server).ExpireSession(t, client)
			w.settle()
			w.one(n, "short")
			require.NoError(t, n.Problem())

			require.NoError(t, n.Set(minutes(t), []byte("another")))
			await(t, n, isThere)
			w.one(n, "another")
			require.NoError(t, n.Close())
			require.Empty(t, w.nodes("/p"))
		})
	}
}

func TestDataThatAreTooLongForANewNode(t *testing.T) {
	for name, opts := range map[string][]node.Option{
		"plain": nil, "persistent": {node.WithPersistence()}, "protected": {node.WithProtection()}, "numbered": {node.WithProtection(), node.WithSequence()},
		"replacing": {node.WithIfTaken(node.Replace)}, "replacing, persistent": {node.WithIfTaken(node.Replace), node.WithPersistence()},
	} {
		virtualRun(t, name, func(t *testing.T, w world) {
			client, connections := w.counted()
			testbed.Create(t, w.client(), "/p/n", []byte("another's"), framework.As(framework.Ephemeral), framework.ContainerParents())
			path := "/p/m"
			if len(opts) > 0 && name[0] == 'r' {
				path = "/p/n"
			}
			_, err := node.Keep(minutes(t), client, path, tooLong, opts...)
			require.ErrorIs(t, err, framework.ErrTooLong)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.EqualValues(t, 1, connections.Load())
			w.settle()
			stays(t, connections)
			require.Subset(t, []string{"n"}, slices.Collect(maps.Keys(w.nodes("/p"))), "none of ours stays")
		})
	}
}

// TestReplacingSendsTheDataOnce: a second copy would be too long for the servers.
func TestReplacingSendsTheDataOnce(t *testing.T) {
	for version := range 3 {
		virtualRun(t, strconv.Itoa(version), func(t *testing.T, w world) {
			client, connections := w.counted()
			other := w.client()
			testbed.Create(t, other, "/p/n", nil, framework.As(framework.Ephemeral), framework.ContainerParents())
			for range version {
				testbed.Set(t, other, "/p/n", nil)
			}
			long := string(tooLong[:1_000_000])
			n := keep(t, client, "/p/n", long, node.WithIfTaken(node.Replace))
			w.one(n, long)
			require.EqualValues(t, 1, connections.Load())
		})
	}
}

func TestAMissingPermissionIsReportedAndTriedAgain(t *testing.T) { // CUR-NOD-08, CURATOR-228
	virtual(t, func(t *testing.T, w world) {
		var log testbed.Output
		client, other := w.client(logTo(&log)), w.client()
		testbed.Create(t, other, "/group", nil, framework.ACL(perms(zk.PermRead|zk.PermAdmin)))
		w.ResetCounts()
		_, err := node.Keep(testbed.Timeout(t, 10*time.Minute), client, "/group/a", []byte("a"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		tries := w.Requests().Requests["create"]
		require.Greater(t, tries, 60, "it is tried again, for ever")
		require.Less(t, tries, 400, "with pauses")
		require.Equal(t, 1, count(&log, "WARN", "node not kept", "/group/a", "not authenticated"), "and logged once")

		kept := beginAt(day(t), client, "/group/a", "a")
		time.Sleep(time.Hour)
		testbed.SetACL(t, other, "/group", perms(zk.PermAll))
		n := testbed.Receive(t, kept, "the node")

		// It may be created, but not written.
		testbed.SetACL(t, other, "/group/a", perms(zk.PermRead|zk.PermAdmin))
		require.ErrorIs(t, n.Set(t.Context(), []byte("b")), zk.ErrNoAuth)
		require.True(t, present(n), "the old node is there")
		require.ErrorIs(t, n.Problem(), zk.ErrNoAuth)
		w.one(n, "a")
		w.settle()
		require.ErrorIs(t, n.Problem(), zk.ErrNoAuth)
		testbed.SetACL(t, other, "/group/a", perms(zk.PermAll))
		w.settle()
		require.NoError(t, n.Problem())
		w.one(n, "b")

		// It may not be created again.
		testbed.SetACL(t, other, "/group", perms(zk.PermAll&^zk.PermCreate))
		require.NoError(t, other.Delete(t.Context(), "/group/a"))
		await(t, n, reason(zk.ErrNoAuth))
		time.Sleep(long) // virtual time
		testbed.SetACL(t, other, "/group", perms(zk.PermAll))
		await(t, n, isThere)
		w.one(n, "b")

		// Nor deleted.
		testbed.SetACL(t, other, "/group", perms(zk.PermRead|zk.PermAdmin))
		require.ErrorIs(t, n.Close(), zk.ErrNoAuth)
	})
}

// long is longer than any backoff lasts by default, which is 15 minutes.
var long = testlevel.Pick(time.Hour, time.Hour, 24*time.Hour)

func TestStartedBeforeTheServer(t *testing.T) { // CUR-CST-15, CUR-NOD-09, CURATOR-53, CURATOR-97
	virtual(t, func(t *testing.T, w world) {
		w.Stop()
		client := testbed.ClientOf(t, w, framework.WithSessionTimeout(10*time.Second))
		states := make(chan connstate.State, 10)
		testbed.Listen(t, client, func(s connstate.State) { states <- s })
		_, err := node.Keep(testbed.Timeout(t, time.Second), client, "/group/a", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrNoServer, "it is not mistaken for something else")

		kept := beginAt(day(t), client, "/group/a", "a")
		time.Sleep(time.Hour)
		require.NoError(t, w.Restart())
		n := testbed.Receive(t, kept, "the node")
		w.one(n, "a")
		w.Stop()
		time.Sleep(2 * time.Second)
		require.NoError(t, w.Restart())
		for testbed.Receive(t, states, "a state") != connstate.Connected {
		}
		for _, want := range []connstate.State{connstate.Suspended, connstate.Reconnected} {
			require.Equal(t, want, testbed.Receive(t, states, "a state"))
		}
		await(t, n, isThere)
		require.NoError(t, n.Close())
	})
}

func TestDataSetWhileDisconnectedAreWritten(t *testing.T) { // CURATOR-154
	for name, outage := range map[string]time.Duration{"short": 2 * time.Second, "long": long} {
		virtualRun(t, name, func(t *testing.T, w world) {
			var log testbed.Output
			n := keep(t, w.client(logTo(&log)), "/group/a", "a")
			w.Stop()
			await(t, n, reason(framework.ErrSuspended))
			err := n.Set(testbed.Timeout(t, time.Second), []byte("b"))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, framework.ErrSuspended)
			time.Sleep(outage) // virtual time: the length of the outage
			require.False(t, present(n))
			require.NoError(t, n.Err(), "unlike Problem")
			require.Zero(t, count(&log, "node not kept"), "the client says that it is not connected")
			require.NoError(t, w.Restart())
			await(t, n, isThere)
			w.one(n, "b")
		})
	}
}

func TestTheLastOfManySetsWins(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		n := keep(t, w.client(), "/group/a", "a")
		gate := w.Block(zktest.OnOp("setData"))
		var wg sync.WaitGroup
		for _, text := range []string{"b", "c", "d"} {
			wg.Go(func() { assert.NoError(t, n.Set(t.Context(), []byte(text))) })
			synctest.Wait()
		}
		gate.Open()
		wg.Wait()
		w.one(n, "d")
		require.Equal(t, 2, w.Requests().Requests["setData"], "c was overtaken")
	})
}

// TestTheNodeOfADyingSessionIsReplaced has the client give its session up before the server does.
func TestTheNodeOfADyingSessionIsReplaced(t *testing.T) {
	for kind, opts := range kinds {
		virtualRun(t, kind, func(t *testing.T, w world) {
			// Half of the session's time is enough for this client.
			client := w.client(framework.WithExpirationPercent(50))
			testbed.Create(t, w.client(), "/group", nil)
			n := keep(t, client, "/group/a", "a", opts...)
			old := testbed.Session(t, client)
			before := testbed.Stat(t, client, n.Path())
			there, changed := n.Present()
			require.True(t, there)
			w.Freeze(old.ID())
			testbed.Receive(t, old.Done(), "the end of the session")
			// It may exist again by now.
			testbed.Receive(t, changed, "word that it is not there")
			await(t, n, isThere)
			session := testbed.Session(t, client)
			require.NotEqual(t, old.ID(), session.ID())
			w.one(n, "a")
			stat := testbed.Stat(t, client, n.Path())
			require.NotNil(t, stat)
			if before.EphemeralOwner != 0 {
				require.Equal(t, session.ID(), stat.EphemeralOwner)
				require.Greater(t, len(w.Sessions()), 2, "the old session lives still")
			}
			w.settle()
			w.one(n, "a") // the old session has taken nothing along
			require.True(t, present(n))
		}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
	}
}

// TestPresentIsFalseBeforeAnotherHasTheNode cuts the keeper off from the server.
func TestPresentIsFalseBeforeAnotherHasTheNode(t *testing.T) {
	for name, policy := range map[string]connstate.ErrorPolicy{"standard": connstate.SuspendedEndsHold, "session": connstate.LostEndsHold} {
		virtualRun(t, name, func(t *testing.T, w world) {
			client, other := w.client(), w.client()
			first := keep(t, client, "/group/a", "first", node.WithErrorPolicy(policy))
			session := testbed.Session(t, client)
			ended := make(chan time.Time, 1)
			go func() {
				await(t, first, func(there bool, _ error) bool { return !there })
				ended <- time.Now()
			}()
			w.RefuseConnections(true)
			w.Freeze(session.ID())
			second := testbed.Must(node.Keep(day(t), other, "/group/a", []byte("second")))
			require.True(t, testbed.Receive(t, ended, "the end").Before(time.Now()))
			w.RefuseConnections(false)
			await(t, first, reason(node.ErrTaken))
			w.one(second, "second")
			require.NoError(t, second.Close())
			await(t, first, isThere)
			w.one(first, "first")
		})
	}
}

// TestABlipUnderTheSessionPolicyIsNoNews cuts the connection, and the session lives on.
func TestABlipUnderTheSessionPolicyIsNoNews(t *testing.T) {
	for name, policy := range map[string]connstate.ErrorPolicy{"standard": connstate.SuspendedEndsHold, "session": connstate.LostEndsHold} {
		virtualRun(t, name, func(t *testing.T, w world) {
			n := keep(t, w.client(framework.WithErrorPolicy(policy)), "/group/a", "a")
			_, before := n.Present()
			w.ResetCounts()
			w.CutConnections()
			w.settle()
			select {
			case <-before:
				require.Equal(t, "standard", name)
			default:
				require.Equal(t, "session", name)
			}
			await(t, n, isThere)
			requests := w.Requests().Requests
			require.Zero(t, requests["create"]+requests["setData"], "it is there: nothing is written")
		})
	}
}

// TestAReapedParentIsMadeAgain has the container go with the node.
func TestAReapedParentIsMadeAgain(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		other := w.client()
		n := keep(t, w.client(), "/deep/down/a", "a")
		gate := w.Block(zktest.OnOp("create"))
		require.NoError(t, other.Delete(t.Context(), "/deep/down/a"))
		testbed.Receive(t, gate.Arrived(), "the create")
		w.ReapContainers()
		require.ErrorIs(t, testbed.Err(w.Children("/deep")), zktest.ErrNoNode)
		gate.Open()
		await(t, n, isThere)
		w.one(n, "a")
	})
}

// TestNamespaceAndDefaultData keeps a node in a view of the client.
func TestNamespaceAndDefaultData(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client(framework.WithNamespace("space"), framework.WithDefaultData([]byte("default")))
		for kind, opts := range map[string][]node.Option{"plain": nil, "sequential": {node.WithProtection(), node.WithSequence()}, "protected": {node.WithProtection()}} {
			n := testbed.Must(node.Keep(day(t), client, "/group/"+kind, nil, opts...))
			require.True(t, strings.HasPrefix(n.Path(), "/group/"), n.Path())
			require.Equal(t, "default", testbed.ServerData(t, w.Server, "/space"+n.Path()))
			require.NoError(t, n.Set(t.Context(), []byte("set")))
			require.NoError(t, n.Set(t.Context(), nil))
			require.Equal(t, "default", testbed.ServerData(t, w.Server, "/space"+n.Path()))
			require.NoError(t, n.Close())
			require.Empty(t, w.nodes("/space/group"))
		}
	})
}

// TestErrorsNameOneOperationAndOnePath requires the caller's operation and path, not the failed
// request's.
func TestErrorsNameOneOperationAndOnePath(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), w.client()
		testbed.Create(t, other, "/group", nil)
		n, m := keep(t, client, "/group/a", "a"), join(t, client, "/group", "m", "m")
		refuse := func(path string) {
			testbed.SetACL(t, other, path, perms(zk.PermRead|zk.PermAdmin))
		}
		names := func(err error, op, path string) {
			t.Helper()
			testbed.OneOp(t, err, op, path)
			require.ErrorIs(t, err, zk.ErrNoAuth)
		}
		refuse("/group")
		refuse("/group/a")
		_, err := node.Keep(minutes(t), client, "/group/b", nil)
		names(err, "keep", "/group/b")
		_, err = node.Join(minutes(t), client, "/group", "b", nil)
		names(err, "join", "/group")
		names(n.Set(t.Context(), []byte("b")), "set", "/group/a")
		names(n.Problem(), "keep", "/group/a")
		w.settle()
		names(n.Problem(), "keep", "/group/a")
		names(n.Close(), "close", "/group/a")
		names(m.Close(), "close", "/group/m")
	})
}
