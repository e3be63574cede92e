package node_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// TestMembersKeepTheirPayloadsWhileCredentialsAreRefused has a member of a group lose its
// connection, and the server refuse its credentials after that. That says nothing about the
// payloads of others.
func TestMembersKeepTheirPayloadsWhileCredentialsAreRefused(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		refuses := testbed.RefuseCredentials(w.Server)
		client := w.client(framework.WithAuth("digest", []byte("user:password")))
		other := join(t, w.client(), "/group", "other", "payload")
		m := join(t, client, "/group", "a", "a")
		require.Equal(t, "payload", members(m)["other"])
		refuses.Store(true)
		gate := w.Block(zktest.OnOp("getData"), zktest.OnSession(testbed.Session(t, client).ID()))
		require.NoError(t, other.Set(t.Context(), []byte("next")))
		testbed.Receive(t, gate.Arrived(), "the read of the next payload")
		w.CutConnections()
		time.Sleep(time.Second) // virtual time, in which the client is refused again and again
		require.ErrorIs(t, client.WaitConnected(t.Context()), zk.ErrAuthFailed)
		require.Equal(t, "payload", members(m)["other"])
		refuses.Store(false)
		gate.Open()
		w.settle()
		require.Equal(t, "next", members(m)["other"])
	})
}

// TestAMemberDoesNotKeepEachListThatThereWas has members join one by one. The names of a list are
// parts of one string: a member that keeps one of them must not keep all of them.
func TestAMemberDoesNotKeepEachListThatThereWas(t *testing.T) {
	const count = 1500
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	virtual(t, func(t *testing.T, w world) {
		m := join(t, w.client(), "/group", "me", "")
		before := heap()
		for i := range count {
			require.NoError(t, w.Create(fmt.Sprintf("/group/%s-%06d", strings.Repeat("x", 100), i), []byte{}))
			synctest.Wait()
		}
		require.Len(t, m.Members(), count+1)
		grown := heap() - before
		require.Less(t, grown/count, uint64(20_000), "bytes for each member")
	})
}

func TestGroup(t *testing.T) {
	testbed.Run(t, []testbed.Case{
		{Name: "lists its members with their data, the same for all", Test: listsMembers},
		{Name: "all come and go one after the other", Test: comeAndGo},
		{Name: "changes show the newest to every reader", Test: changes},
		{Name: "a second member with the same id is reported", Test: sameID},
		{Name: "a node that exists or vanishes disturbs nobody", Test: vanishes},
	})
}

func join(t *testing.T, client *framework.Client, path, id, payload string, opts ...node.Option) *node.Member {
	t.Helper()
	m, err := node.Join(testbed.Context(t), client, path, id, []byte(payload), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// members is who a member sees, as text.
func members(m *node.Member) map[string]string { return texts(m.Members()) }

func texts(members map[string][]byte) map[string]string {
	text := map[string]string{}
	for id, payload := range members {
		text[id] = string(payload)
	}
	return text
}

func isCurrent(m *node.Member) bool {
	ok, _ := m.Current()
	return ok
}

// end is the error with which an iteration ends. It must not yield anything before.
func end(changes iter.Seq2[map[string][]byte, error]) error {
	for members, err := range changes {
		if err == nil {
			err = fmt.Errorf("there are members: %v", members)
		}
		return err
	}
	return errors.New("it has ended without an error")
}

// sees waits until a member sees exactly these.
func sees(t *testing.T, m *node.Member, want map[string]string) {
	t.Helper()
	ctx := testbed.Context(t)
	for seen, err := range m.Observe(ctx) {
		require.NoError(t, err, "waited in vain for %v", want)
		if maps.Equal(texts(seen), want) {
			return
		}
	}
}

func listsMembers(t *testing.T, bed *testbed.Bed) { // CUR-NOD-11
	path := testbed.Path(t)
	one := join(t, bed.Client(t), path, "one", "1")
	require.Equal(t, "one", one.ID())
	require.Equal(t, map[string]string{"one": "1"}, members(one), "a member lists itself at once")
	two := join(t, bed.Client(t), path, "two", "2")
	both := map[string]string{"one": "1", "two": "2"}
	require.Equal(t, both, members(two), "and the others")
	sees(t, one, both)
	testbed.Eventually(t, func() bool { return isCurrent(one) }, "all has been read")
	require.NoError(t, two.Close())
	require.NoError(t, two.Close(), "again")
	sees(t, one, map[string]string{"one": "1"})
	require.NoError(t, one.Set(testbed.Context(t), []byte("new")))
	require.Equal(t, map[string]string{"one": "new"}, members(one), "what was set is shown at once")
	require.ErrorIs(t, end(two.Observe(testbed.Context(t))), framework.ErrEnded, "a membership that is closed has no changes")
}

func comeAndGo(t *testing.T, bed *testbed.Bed) { // KZ-NOD-01
	path := testbed.Path(t)
	var all []*node.Member
	want := map[string]string{}
	check := func() {
		for _, m := range all {
			sees(t, m, want)
		}
	}
	for i := range 5 {
		id := fmt.Sprint("member ", i)
		want[id] = id
		all = append(all, join(t, bed.Client(t), path, id, id))
		check()
	}
	for len(all) > 0 {
		m := all[0]
		all = all[1:]
		require.NoError(t, m.Close())
		delete(want, m.ID())
		check()
	}
}

func changes(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	one, two := join(t, bed.Client(t), path, "one", "0"), join(t, bed.Client(t), path, "two", "")
	sees(t, one, map[string]string{"one": "0", "two": ""})
	var wg sync.WaitGroup
	for _, m := range []*node.Member{one, two, two} {
		wg.Go(func() {
			last := -1
			for seen, err := range m.Observe(testbed.Context(t)) {
				if !assert.NoError(t, err) {
					return
				}
				n := 0
				_, err = fmt.Sscan(string(seen["one"]), &n)
				if !assert.NoError(t, err) || !assert.Greater(t, n, last, "never back in time, never the same") || n == 20 {
					return
				}
				seen["one"] = []byte("mine") // it is a copy
				last = n
				// A slow reader: changes happen in between.
				time.Sleep(time.Duration(n%3) * time.Millisecond)
			}
			assert.Fail(t, "the changes ended")
		})
	}
	for i := range 20 {
		require.NoError(t, one.Set(testbed.Context(t), fmt.Append(nil, i+1)))
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range one.Observe(ctx) {
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	require.ErrorIs(t, end(one.Observe(ctx)), context.Canceled)
}

func sameID(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	one := join(t, bed.Client(t), path, "id", "first")
	_, err := node.Join(testbed.Context(t), bed.Client(t), path, "id", []byte("second"), node.WithIfTaken(node.Fail))
	require.ErrorIs(t, err, node.ErrTaken)
	two := join(t, bed.Client(t), path, "id", "second", node.WithIfTaken(node.Replace))
	sees(t, one, map[string]string{"id": "second"})
	await(t, one, reason(node.ErrTaken))
	require.NoError(t, two.Close())
	sees(t, one, map[string]string{"id": "first"})
}

func vanishes(t *testing.T, bed *testbed.Bed) { // KZ-NOD-02
	path := testbed.Path(t)
	client, other := bed.Client(t), bed.Client(t)
	testbed.Create(t, client, path+"/a", nil, framework.As(framework.Ephemeral), framework.ContainerParents())
	m := join(t, client, path, "a", "1")
	require.Equal(t, map[string]string{"a": "1"}, members(m))
	testbed.CatchUp(t, other)
	require.NoError(t, other.Delete(testbed.Context(t), path+"/a"))
	require.NoError(t, m.Close())
	require.Empty(t, members(m))
	require.Equal(t, "-", data(t, other, path+"/a"))
}

func TestBadMembersAreRefusedAtOnce(t *testing.T) {
	client := testbed.NewClient(t, []string{"localhost:1"})
	for _, opts := range [][]node.Option{{node.WithProtection()}, {node.WithSequence()}, {node.WithPersistence()}, {node.WithTTL(time.Second)}, {nil}} {
		_, err := node.Join(testbed.Context(t), client, "/a", "id", nil, opts...)
		require.ErrorIs(t, err, framework.ErrBadArgument)
	}
	for _, id := range []string{"", "a/b"} {
		_, err := node.Join(testbed.Context(t), client, "/a", id, nil)
		require.ErrorIs(t, err, framework.ErrBadArgument)
	}
	require.ErrorIs(t, testbed.Err(node.Join(testbed.Context(t), client, "a", "id", nil)), framework.ErrBadPath)
	require.ErrorIs(t, testbed.Err(node.Join(testbed.Context(t), nil, "/a", "id", nil)), framework.ErrBadArgument)
}

// TestAMemberListsItselfOnlyWhenItIsThere looks at the list in each trouble.
func TestAMemberListsItselfOnlyWhenItIsThere(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), w.client()
		m := join(t, client, "/group", "a", "1")
		watcher := join(t, other, "/group", "w", "")
		sees(t, m, map[string]string{"a": "1", "w": ""}) // its reads would wait behind the create
		gate := w.Block(zktest.OnOp("create"))
		require.NoError(t, other.Delete(t.Context(), "/group/a"))
		testbed.Receive(t, gate.Arrived(), "the create")
		synctest.Wait()
		require.Equal(t, map[string]string{"w": ""}, members(m))
		gate.Open()
		sees(t, m, map[string]string{"a": "1", "w": ""})
		w.Stop()
		sees(t, m, map[string]string{"w": ""})
		synctest.Wait()
		require.False(t, isCurrent(m), "this is from before")
		require.ErrorIs(t, m.Problem(), framework.ErrSuspended)
		gate = w.Block(zktest.OnOp("getChildren2"))
		require.NoError(t, w.Restart())
		testbed.Receive(t, gate.Arrived(), "the list")
		synctest.Wait()
		require.False(t, isCurrent(m), "the list is from before")
		gate.Open()
		sees(t, m, map[string]string{"a": "1", "w": ""})
		w.settle()
		require.True(t, isCurrent(m))
		require.Equal(t, members(watcher), members(m))
	})
}

// TestAMemberThatIsCutOffIsNotListedByItself has its session expire while others see that it has
// left.
func TestAMemberThatIsCutOffIsNotListedByItself(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), w.client()
		a, b := join(t, client, "/group", "a", ""), join(t, other, "/group", "b", "")
		sees(t, a, map[string]string{"a": "", "b": ""})
		session := testbed.Session(t, client)
		w.RefuseConnections(true)
		w.Freeze(session.ID())
		for seen, err := range b.Observe(day(t)) {
			require.NoError(t, err)
			if _, listed := seen["a"]; !listed {
				break
			}
		}
		require.Equal(t, map[string]string{"b": ""}, members(a), "it knew before")
		w.RefuseConnections(false)
		sees(t, a, map[string]string{"a": "", "b": ""})
		sees(t, b, map[string]string{"a": "", "b": ""})
	})
}

// TestJoinWithAnyRequestFailing ends with everybody seeing the same.
func TestJoinWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, w world, inject func(...*framework.Client)) {
		subject, other := w.client(), w.client()
		one := join(t, other, "/group", "one", "1")
		inject(other)
		two := join(t, subject, "/group", "two", "2")
		require.NoError(t, one.Set(t.Context(), []byte("new")))
		three := join(t, other, "/group", "three", "3")
		want := map[string]string{"one": "new", "two": "2", "three": "3"}
		sees(t, one, want)
		sees(t, two, want)
		w.settle() // the fault may have met a later request
		require.Equal(t, want, members(two))
		require.True(t, isCurrent(two))
		require.NoError(t, three.Close())
		sees(t, two, map[string]string{"one": "new", "two": "2"})
		require.NoError(t, two.Close())
		require.Equal(t, map[string]string{"one": "new"}, w.nodes("/group"))
	})
}

// TestAMemberThatCannotBeReadIsLeftOut until it can be read.
func TestAMemberThatCannotBeReadIsLeftOut(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), w.client()
		testbed.Create(t, other, "/group/secret", []byte("secret"), framework.ContainerParents(), framework.ACL(perms(zk.PermAdmin)))
		m := join(t, client, "/group", "a", "1")
		require.Equal(t, map[string]string{"a": "1"}, members(m))
		testbed.SetACL(t, other, "/group/secret", perms(zk.PermAll))
		sees(t, m, map[string]string{"a": "1", "secret": "secret"})
	})
}

// TestAGroupThatCannotBeReadIsReportedAtOnce has a member that may create its node, and nothing
// else.
func TestAGroupThatCannotBeReadIsReportedAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), w.client()
		testbed.Create(t, other, "/group", nil, framework.ACL(perms(zk.PermAll&^zk.PermRead)))
		ctx := testbed.Timeout(t, time.Minute)
		require.ErrorIs(t, testbed.Err(node.Join(ctx, client, "/group", "a", nil)), zk.ErrNoAuth)
		require.NoError(t, ctx.Err())
		w.settle()
		require.Empty(t, w.nodes("/group"), "nothing stays")
	})
}

// TestTheGroupItselfVanishes has an operator delete everything.
func TestTheGroupItselfVanishes(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), w.client()
		a, b := join(t, client, "/group", "a", "1"), join(t, client, "/group", "b", "2")
		for range 3 {
			gate := w.Block(zktest.OnOp("create"))
			_, err := other.Multi(t.Context(), &zk.DeleteRequest{Path: "/group/a", Version: -1},
				&zk.DeleteRequest{Path: "/group/b", Version: -1}, &zk.DeleteRequest{Path: "/group", Version: -1})
			require.NoError(t, err)
			synctest.Wait()
			gate.Open()
			for _, m := range []*node.Member{a, b} {
				sees(t, m, map[string]string{"a": "1", "b": "2"})
			}
			w.settle()
		}
	})
}

// TestManyMembersFollowEachOther counts what one more member costs.
func TestManyMembersFollowEachOther(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), w.client()
		var ids []string
		for i := range 200 {
			id := fmt.Sprintf("%03d", i)
			ids = append(ids, id)
			testbed.Create(t, other, "/group/"+id, []byte(id), framework.ContainerParents())
		}
		m := join(t, client, "/group", "me", "")
		require.Len(t, m.Members(), 201)
		w.ResetCounts()
		testbed.Create(t, other, "/group/new", nil)
		w.settle()
		require.Contains(t, m.Members(), "new")
		require.Equal(t, 1, w.Requests().Requests["getData"], "only the new one is read")
		require.Zero(t, w.Requests().Requests["getChildren2"], "the list is not read again")
		for _, id := range slices.Backward(ids) {
			require.NoError(t, other.Delete(t.Context(), "/group/"+id))
		}
		w.settle()
		require.Len(t, m.Members(), 2)
	})
}

// TestMembersThatHaveLeftAreNotWatched: each would cost a watch, here and on the server, as long as
// the connection lasts.
func TestMembersThatHaveLeftAreNotWatched(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		m, other := join(t, w.client(), "/group", "me", ""), w.client()
		w.settle()
		watches := w.WatchCount()
		for i := range 20 {
			path := fmt.Sprintf("/group/%d", i)
			testbed.Create(t, other, path, nil)
			synctest.Wait()
			require.Len(t, m.Members(), 2)
			require.NoError(t, other.Delete(t.Context(), path))
			synctest.Wait()
			require.Len(t, m.Members(), 1)
			require.True(t, isCurrent(m))
		}
		require.Equal(t, watches, w.WatchCount())
	})
}

// TestAForeignWriteDoesNotTakeMembersBack has an operator write to a member's node twice. Until the
// member has read the data of the second write it shows the data of the first, and not its own
// older data.
func TestAForeignWriteDoesNotTakeMembersBack(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		m, other := join(t, w.client(), "/group", "a", "own"), w.client()
		testbed.Set(t, other, "/group/a", []byte("first"))
		sees(t, m, map[string]string{"a": "first"})
		w.settle()
		gate := w.BlockReplies(zktest.OnOp("getData"))
		testbed.Set(t, other, "/group/a", []byte("second"))
		testbed.Receive(t, gate.Arrived(), "a read")
		synctest.Wait()
		require.Equal(t, map[string]string{"a": "first"}, members(m))
		gate.Open()
		sees(t, m, map[string]string{"a": "second"})
	})
}

// TestMembersDoNotShowUsBeforePresent delays the reply to the create of a new session.
func TestMembersDoNotShowUsBeforePresent(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		m, other := join(t, client, "/group", "a", "a"), join(t, w.client(), "/group", "b", "b")
		w.settle()
		session := testbed.Session(t, client)
		gate := w.Block(zktest.OnOp("exists"), zktest.On(func(r zktest.Request) bool { return r.Path == "/group/a" }))
		require.NoError(t, w.ExpireSession(session.ID()))
		testbed.Receive(t, gate.Arrived(), "the look at the new node")
		sees(t, other, map[string]string{"a": "a", "b": "b"})
		synctest.Wait()
		require.False(t, present(m))
		require.Equal(t, map[string]string{"b": "b"}, members(m))
		gate.Open()
		await(t, m, isThere)
		sees(t, m, map[string]string{"a": "a", "b": "b"})

		// Close hides us before it deletes.
		gate = w.Block(zktest.OnOp("delete"))
		closed := testbed.Go(m.Close)
		testbed.Receive(t, gate.Arrived(), "the deletion")
		require.False(t, present(m))
		require.ErrorIs(t, m.Problem(), framework.ErrEnded)
		require.Equal(t, map[string]string{"b": "b"}, members(m))
		require.Len(t, w.nodes("/group"), 2)
		gate.Open()
		require.NoError(t, testbed.Receive(t, closed, "the end of Close"))
	})
}

// TestMembersOfAnEnsembleThatWasWiped has all servers return without data: the transactions begin
// with lower numbers. Members that have not joined again are not shown.
func TestMembersOfAnEnsembleThatWasWiped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var current atomic.Pointer[zktest.Server]
		old := zktest.NewServer(t, zktest.WithInMemory())
		current.Store(old)
		dial := framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			return current.Load().DialContext(ctx, network, address)
		})
		client, other := testbed.On(old).Client(t, dial), testbed.On(old).Client(t, dial)
		for range 100 {
			require.NoError(t, old.Create("/x", nil))
			require.NoError(t, old.Delete("/x"))
		}
		m, gone := join(t, client, "/group", "m", "1"), join(t, other, "/group", "gone", "2")
		sees(t, m, map[string]string{"m": "1", "gone": "2"})
		current.Store(zktest.NewServer(t, zktest.WithInMemory()))
		old.Stop()
		require.ErrorIs(t, gone.Close(), zk.ErrNoServer)
		require.NoError(t, other.Close())
		time.Sleep(time.Hour) // virtual time
		await(t, m, isThere)
		require.Equal(t, map[string]string{"m": "1"}, members(m))
		require.True(t, isCurrent(m))
	})
}
