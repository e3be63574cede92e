package node_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// standsStill makes a client whose first look at /group/a, counted from when armed is true, does not return until
// goOn is closed. read is closed when it has been answered.
func (w world) standsStill(armed *atomic.Bool) (client *framework.Client, read, goOn chan struct{}) {
	return w.standsStillAt("/group/a", armed)
}

func (w world) standsStillAt(path string, armed *atomic.Bool) (client *framework.Client, read, goOn chan struct{}) {
	read, goOn = make(chan struct{}), make(chan struct{})
	// Not a sync.Once: time stands still while a goroutine waits for one.
	return w.client(framework.WithObserver(framework.Observer{Operation: func(_ context.Context, e framework.OperationEvent) {
		if e.Op == "exists" && e.Path == path && armed.CompareAndSwap(true, false) {
			close(read)
			<-goOn
		}
	}})), read, goOn
}

// begin keeps /group/a in the background.
func begin(ctx context.Context, client *framework.Client, data string, opts ...node.Option) <-chan *node.Node {
	kept := make(chan *node.Node, 1)
	go func() {
		if n, err := node.Keep(ctx, client, "/group/a", []byte(data), opts...); err == nil {
			kept <- n
		}
	}()
	return kept
}

func yes() *atomic.Bool {
	var b atomic.Bool
	b.Store(true)
	return &b
}

// TestANodeIsOfTheKeepThatMadeIt has a Keep make the node of its session and then stand still. Another Keep of the same
// client must not take that node, which has the owner of its own. The simulation found it.
func TestANodeIsOfTheKeepThatMadeIt(t *testing.T) {
	for name, opts := range map[string][]node.Option{"wait": nil, "fail": {node.IfTaken(node.Fail)}, "replace": {node.IfTaken(node.Replace)}} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) {
				client, read, goOn := w.standsStill(yes())
				slow := begin(day(t), client, "slow")
				<-read
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				quick := begin(ctx, client, "quick", opts...)
				time.Sleep(30 * time.Second)
				require.Empty(t, quick, "the node is that of another Keep")
				cancel()
				synctest.Wait() // or it is asked for the node at the same moment, and may get it
				close(goOn)
				n := testbed.Receive(t, slow, "the node")
				w.settle()
				await(t, n, isThere)
				w.one(n, "slow")
				require.NoError(t, n.Close())
				require.Empty(t, w.nodes("/group"))
			})
		})
	}
}

// TestWhatWasReadBeforeTheNodeWasDeletedIsNotBelieved has a Keep read its node and then stand still. Meanwhile somebody
// deletes that node, and somebody else makes one.
func TestWhatWasReadBeforeTheNodeWasDeletedIsNotBelieved(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, read, goOn := w.standsStill(yes())
		slow := begin(day(t), client, "slow")
		<-read
		require.NoError(t, w.Delete("/group/a"))
		other := keep(t, w.client(), "/group/a", "other")
		synctest.Wait()
		close(goOn)
		w.settle()
		require.Empty(t, slow, "it must not take a node for its own that is gone")
		await(t, other, isThere)
		w.one(other, "other")
		require.NoError(t, other.Close())
		n := testbed.Receive(t, slow, "the node, which is free now")
		require.NoError(t, n.Close())
	})
}

// TestTheNodeOfAKeepThatFailedIsNotTaken has a Keep fail, and stand still while it is about to delete its node. The next
// one of the same client waits until that is gone, whatever IfTaken says.
func TestTheNodeOfAKeepThatFailedIsNotTaken(t *testing.T) {
	for name, taken := range map[string]node.Taken{"wait": node.Wait, "fail": node.Fail, "replace": node.Replace} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) {
				var armed atomic.Bool
				client, read, goOn := w.standsStill(&armed)
				other := w.client()
				require.NoError(t, w.Create("/group", nil))
				gate := w.BlockReplies(zktest.OnOp(zktest.OpCreate))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := node.Keep(ctx, client, "/group/a", []byte("failed"))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				armed.Store(true)
				gate.Open()
				<-read
				next := begin(day(t), client, "next", node.IfTaken(taken))
				time.Sleep(time.Second)
				require.Empty(t, next, "the node is about to be deleted")
				_, before, err := other.Exists(t.Context(), "/group/a")
				require.NoError(t, err)
				close(goOn)
				n := testbed.Receive(t, next, "the node")
				w.settle()
				await(t, n, isThere)
				w.one(n, "next")
				_, stat, err := other.Exists(t.Context(), "/group/a")
				require.NoError(t, err)
				require.Greater(t, stat.Czxid, before.Czxid, "it is another one")
				require.NoError(t, n.Close())
				require.Empty(t, w.nodes("/group"))
			})
		})
	}
}

// TestKeepsOfOneClientFollowEachOther has several replace each other on one path, in different namespaces. At no time do two
// have the node. Those that were replaced get it again when the others have closed, with their own data.
func TestKeepsOfOneClientFollowEachOther(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		view, err := client.Namespace("group")
		require.NoError(t, err)
		var all []*node.Node
		stop := w.Trace(func(zktest.Event) {
			count := 0
			for _, n := range all {
				if there, _ := n.Present(); there {
					count++
				}
			}
			assert.LessOrEqual(t, count, 1, "two have the node")
		})
		defer stop()
		first := keep(t, client, "/group/a", "first")
		_, err = node.Keep(t.Context(), view, "/a", nil, node.IfTaken(node.Fail))
		require.ErrorIs(t, err, node.ErrTaken, "it is the same path")
		second := keep(t, view, "/a", "second", node.IfTaken(node.Replace))
		there, _ := first.Present()
		require.False(t, there, "not one moment longer")
		require.ErrorIs(t, first.Err(), node.ErrTaken)
		third := keep(t, client, "/group/a", "third", node.IfTaken(node.Replace))
		w.settle()
		all = []*node.Node{first, second, third}
		require.NoError(t, second.Close())
		w.one(third, "third")
		await(t, third, isThere)
		require.NoError(t, third.Close())
		await(t, first, isThere)
		w.one(first, "first")
		require.NoError(t, first.Close())
		require.Empty(t, w.nodes("/group"))
	})
}

// TestARefusedKeepDoesNotStopAnother has a Keep that cannot make the parent, and another one of the same client that
// can.
func TestARefusedKeepDoesNotStopAnother(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		refused := begin(day(t), client, "refused", node.WithoutParents())
		w.settle()
		n := keep(t, client, "/group/a", "a", node.IfTaken(node.Fail))
		w.settle()
		require.Empty(t, refused)
		w.one(n, "a")
		require.NoError(t, n.Close())
		require.NoError(t, testbed.Receive(t, refused, "the node").Close())
	})
}

// TestOneThatIsClosingIsWaitedFor has a Keep with Fail while another one of the client deletes its node.
func TestOneThatIsClosingIsWaitedFor(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		n := keep(t, client, "/group/a", "first")
		gate := w.Block(zktest.OnOp(zktest.OpDelete))
		done := make(chan error, 1)
		go func() { done <- n.Close() }()
		testbed.Receive(t, gate.Arrived(), "the delete")
		next := begin(day(t), client, "next", node.IfTaken(node.Fail))
		synctest.Wait()
		gate.Open()
		require.NoError(t, testbed.Receive(t, done, "the end of Close"))
		n = testbed.Receive(t, next, "the node")
		w.settle()
		w.one(n, "next")
		require.NoError(t, n.Close())
	})
}

// TestTwoKeepsOfOneClientWaitForAnother has both say what they wait for.
func TestTwoKeepsOfOneClientWaitForAnother(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), keep(t, w.client(), "/group/a", "other")
		first := begin(day(t), client, "first")
		w.settle()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := node.Keep(ctx, client, "/group/a", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, node.ErrTaken)
		w.one(other, "other")
		require.NoError(t, other.Close())
		require.NoError(t, testbed.Receive(t, first, "the node").Close())
	})
}

// TestPersistentKeepsOfOneClientDoNotFight has two on one path.
func TestPersistentKeepsOfOneClientDoNotFight(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		first := keep(t, client, "/group/a", "first", node.Persistent())
		second := begin(day(t), client, "second", node.Persistent())
		w.settle()
		require.Empty(t, second)
		w.one(first, "first")
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		require.NoError(t, w.ExpireSession(session.ID()))
		w.settle()
		require.NoError(t, first.Close())
		n := testbed.Receive(t, second, "the node")
		w.settle()
		w.one(n, "second")
		require.NoError(t, n.Close())
		require.Empty(t, w.nodes("/group"))
	})
}

// TestAWriteUnderWayDoesNotMeetTheNodeOfAnother has a Keep replace a node while that is written. New nodes have the version 0,
// which the write may have, too.
func TestAWriteUnderWayDoesNotMeetTheNodeOfAnother(t *testing.T) {
	for before := range 4 { // writes
		virtual(t, func(t *testing.T, w world) {
			n, other := keep(t, w.client(), "/group/a", "a"), w.client()
			for range before {
				require.NoError(t, n.Set(t.Context(), []byte("a")))
			}
			gate := w.Block(zktest.OnOp(zktest.OpSetData))
			done := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				done <- n.Set(ctx, []byte("b"))
			}()
			testbed.Receive(t, gate.Arrived(), "the write")
			thief := keep(t, other, "/group/a", "thief", node.IfTaken(node.Replace))
			_, stat, err := other.Exists(t.Context(), "/group/a")
			require.NoError(t, err)
			require.NotContains(t, []int{before, before - 1}, int(stat.Version), "a repeated write may have the one before")
			gate.Open()
			w.settle()
			require.ErrorIs(t, testbed.Receive(t, done, "the end of Set"), node.ErrTaken)
			w.one(thief, "thief")
		})
	}
}

// TestAnotherNodeThatWasOverwrittenIsReported has somebody delete the node by hand while it is written, and somebody else
// make one. ZooKeeper cannot prevent that. It is not taken for ours at least.
func TestAnotherNodeThatWasOverwrittenIsReported(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		log := &lines{}
		n := keep(t, w.client(framework.WithLogger(slog.New(slog.NewTextHandler(log, nil)))), "/group/a", "a")
		other := w.client()
		gate := w.Block(zktest.OnOp(zktest.OpSetData))
		done := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			done <- n.Set(ctx, []byte("b"))
		}()
		testbed.Receive(t, gate.Arrived(), "the write")
		_, err := other.Multi(t.Context(), &zk.DeleteRequest{Path: "/group/a", Version: -1},
			&zk.CreateRequest{Path: "/group/a", Data: []byte("other"), Flags: zk.FlagEphemeral})
		require.NoError(t, err)
		gate.Open()
		w.settle()
		require.ErrorIs(t, testbed.Receive(t, done, "the end of Set"), node.ErrTaken)
		await(t, n, reason(node.ErrTaken))
		require.Equal(t, 1, log.with("ERROR", "another's node was overwritten", "/group/a"))
	})
}

// TestANodeInPlaceOfOursIsGivenBack has the node of an old session of ours go, and another client make one, just before ours
// is replaced.
func TestANodeInPlaceOfOursIsGivenBack(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		n := keep(t, client, "/group/a", "a")
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		w.Stop()
		time.Sleep(time.Hour)
		gate := w.Block(zktest.OnOp(zktest.OpMulti), zktest.OnPath("/group"))
		require.NoError(t, w.Restart())
		testbed.Receive(t, gate.Arrived(), "the replacement of the old node")
		other := begin(day(t), w.client(), "other")
		synctest.Wait()
		require.NoError(t, w.ExpireSession(session.ID()))
		thief := testbed.Receive(t, other, "the node, which is free")
		synctest.Wait()
		stop := w.Trace(func(zktest.Event) {
			there, _ := n.Present()
			assert.False(t, there, "it is another's")
		})
		gate.Open()
		w.settle()
		await(t, n, reason(node.ErrTaken))
		await(t, thief, isThere)
		w.one(thief, "other")
		stop()
		require.NoError(t, thief.Close())
		await(t, n, isThere)
		w.one(n, "a")
	})
}

// TestMembersDoNotShowUsBeforePresent has the reply to the create of a new session come late.
func TestMembersDoNotShowUsBeforePresent(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		m, other := join(t, client, "/group", "a", "a"), join(t, w.client(), "/group", "b", "b")
		w.settle()
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		gate := w.Block(zktest.OnOp(zktest.OpExists), func(r zktest.Request) bool { return r.Path == "/group/a" })
		require.NoError(t, w.ExpireSession(session.ID()))
		testbed.Receive(t, gate.Arrived(), "the look at the new node")
		sees(t, other, map[string]string{"a": "a", "b": "b"})
		synctest.Wait()
		there, _ := m.Present()
		require.False(t, there)
		require.Equal(t, map[string]string{"b": "b"}, members(m))
		gate.Open()
		await(t, m, isThere)
		sees(t, m, map[string]string{"a": "a", "b": "b"})
	})
}

// TestANumberThatIsTakenIsFreeForOthers has somebody else make the node whose number a sequential Keep has chosen. It
// chooses another one, and another Keep of the same client may have the first when it is free.
func TestANumberThatIsTakenIsFreeForOthers(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), w.client()
		_, err := other.Create(t.Context(), "/group", nil)
		require.NoError(t, err)
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		gate := w.Block(zktest.OnOp(zktest.OpCreate), zktest.OnSession(session.ID()))
		kept := make(chan *node.Node, 1)
		go func() {
			n, err := node.Keep(t.Context(), client, "/group/a", nil, node.Sequential())
			assert.NoError(t, err)
			kept <- n
		}()
		testbed.Receive(t, gate.Arrived(), "the first number")
		_, err = other.Create(t.Context(), "/group/a0000000000", nil)
		require.NoError(t, err)
		gate.Open()
		n := testbed.Receive(t, kept, "the node")
		require.Equal(t, "/group/a0000000001", n.Path())
		require.NoError(t, other.Delete(t.Context(), "/group/a0000000000", -1))
		second := keep(t, client, "/group/a0000000000", "")
		require.NoError(t, second.Close())
		require.NoError(t, n.Close())
		require.Equal(t, "-", data(t, other, n.Path()))
	})
}

// TestANumberThatIsBeingLeftIsNotMade has a sequential Keep fail, and stand still after it has seen that it left no node. The next
// one of the same client chooses the same number. It must not make that node as long as the first may delete it, or
// it stays: the second chooses another number then. The simulation found it.
func TestANumberThatIsBeingLeftIsNotMade(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, read, goOn := w.standsStillAt("/group/a0000000000", yes())
		require.NoError(t, w.Create("/group", nil))
		_, err := client.Session(t.Context())
		require.NoError(t, err)
		w.RefuseConnections(true)
		w.Inject(zktest.FailBefore, 0, zktest.OnOp(zktest.OpCreate))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = node.Keep(ctx, client, "/group/a", []byte("first"), node.Sequential())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		w.RefuseConnections(false)
		testbed.Receive(t, read, "the look at what was left")
		n := keep(t, client, "/group/a", "second", node.Sequential())
		close(goOn)
		w.settle()
		w.one(n, "second")
		require.NoError(t, n.Close())
		require.Empty(t, w.nodes("/group"))
	})
}

// TestPresentIsFalseFromCloseOn has the goroutine that keeps a node stand still. Close does not return then, and somebody else
// may have the node before it does. The simulation found it.
func TestPresentIsFalseFromCloseOn(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		var armed atomic.Bool
		client, read, stands := w.standsStill(&armed)
		goOn := sync.OnceFunc(func() { close(stands) })
		defer goOn()
		n := keep(t, client, "/group/a", "first")
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		armed.Store(true)
		require.NoError(t, w.Set("/group/a", []byte("changed")))
		<-read
		closed := make(chan error, 1)
		go func() { closed <- n.Close() }()
		synctest.Wait()
		there, _ := n.Present()
		require.False(t, there)
		require.ErrorIs(t, n.Err(), node.ErrClosed)
		require.NoError(t, w.ExpireSession(session.ID()))
		second := keep(t, w.client(), "/group/a", "second")
		there, _ = n.Present()
		require.False(t, there)
		goOn()
		require.NoError(t, testbed.Receive(t, closed, "the end of Close"))
		require.ErrorIs(t, n.Err(), node.ErrClosed)
		w.one(second, "second")
	})
}

// TestAKeepThatIsRefusedAfterAllDoesNotStopAnother has the outcome of creates be unknown, and the next one be refused since there is no
// parent. Another Keep of the same client makes the parent.
func TestAKeepThatIsRefusedAfterAllDoesNotStopAnother(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		_, err := client.Session(t.Context())
		require.NoError(t, err)
		for i := range 6 { // more than the client tries
			w.Inject(zktest.FailBefore, i, zktest.OnOp(zktest.OpCreate))
		}
		refused := begin(day(t), client, "refused", node.WithoutParents())
		w.settle()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n, err := node.Keep(ctx, client, "/group/a", []byte("a"))
		require.NoError(t, err)
		require.Empty(t, refused)
		w.one(n, "a")
		require.NoError(t, n.Close())
		require.NoError(t, testbed.Receive(t, refused, "the node").Close())
	})
}

// TestAKeepThatMayNotReplaceDoesNotStopAnother has a Keep try to replace a node that has a child. Another Keep of the same client is
// told that the path is taken.
func TestAKeepThatMayNotReplaceDoesNotStopAnother(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		_, err := w.client().Create(t.Context(), "/group/a/child", nil, framework.ContainerParents())
		require.NoError(t, err)
		refused := begin(day(t), client, "refused", node.IfTaken(node.Replace))
		w.settle()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = node.Keep(ctx, client, "/group/a", nil, node.IfTaken(node.Fail))
		require.ErrorIs(t, err, node.ErrTaken)
		require.NoError(t, ctx.Err())
		require.NoError(t, w.Delete("/group/a/child"))
		n := testbed.Receive(t, refused, "the node")
		w.one(n, "refused")
		require.NoError(t, n.Close())
	})
}

// TestAKeepIsToldWhenAnotherHasMadeItsNode has two Keeps of one client begin, and the second wait for the create of the first. It is
// told that the path is taken when the first has its node.
func TestAKeepIsToldWhenAnotherHasMadeItsNode(t *testing.T) {
	for name, taken := range map[string]node.Taken{"wait": node.Wait, "fail": node.Fail} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) {
				client := w.client()
				require.NoError(t, w.Create("/group", nil))
				gate := w.Block(zktest.OnOp(zktest.OpCreate))
				first := begin(day(t), client, "first")
				testbed.Receive(t, gate.Arrived(), "the create")
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				ended := make(chan error, 1)
				go func() {
					_, err := node.Keep(ctx, client, "/group/a", []byte("second"), node.IfTaken(taken))
					ended <- err
				}()
				synctest.Wait()
				require.Empty(t, ended, "there is no node yet")
				gate.Open()
				n := testbed.Receive(t, first, "the node")
				require.ErrorIs(t, testbed.Receive(t, ended, "the end of Keep"), node.ErrTaken)
				require.Equal(t, taken == node.Fail, ctx.Err() == nil, "only Fail does not wait")
				w.one(n, "first")
				require.NoError(t, n.Close())
			})
		})
	}
}

// TestKeepsThatMayNotWriteDoNotFight has several Keeps of one client replace each other at a node that none of them may write. Whoever
// came last has the path, and the others wait.
func TestKeepsThatMayNotWriteDoNotFight(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		_, err := client.Create(t.Context(), "/group/a", nil, framework.As(framework.Ephemeral), framework.ContainerParents(),
			framework.ACL(perms(zk.PermAll&^zk.PermWrite)))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		first := begin(ctx, client, "first", node.IfTaken(node.Replace))
		synctest.Wait() // it has found that it may not write
		second := begin(ctx, client, "second", node.IfTaken(node.Replace))
		synctest.Wait() // it has asked for the claim
		w.ResetCounts()
		time.Sleep(time.Minute) // virtual time: what is counted is the writes of a minute
		require.Less(t, w.Requests().Requests[zktest.OpSetData], 100, "with pauses")
		_, err = client.SetACL(t.Context(), "/group/a", perms(zk.PermAll), -1)
		require.NoError(t, err)
		n := testbed.Receive(t, second, "the node")
		w.one(n, "second")
		require.Empty(t, first)
		require.NoError(t, n.Close())
		require.NoError(t, testbed.Receive(t, first, "the node, which is free").Close())
	}, zktest.WithLatency(time.Millisecond))
}

// TestNumbersAreCountedUpToTheirEnd has more nodes than 2^30 have been made below the parent: half of what a server counts up to.
func TestNumbersAreCountedUpToTheirEnd(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		require.NoError(t, w.Create("/group", nil))
		require.NoError(t, w.SetSequence("/group", 1<<30+5))
		n := keep(t, client, "/group/a", "a", node.Sequential())
		require.Equal(t, "/group/a1073741829", n.Path())
		second := keep(t, client, "/group/a", "a", node.Sequential())
		require.Equal(t, "/group/a1073741830", second.Path())
	})
}

// TestAWriteIsNotRepeatedWithoutALook has the connection end before a write is carried out, and the node be deleted and another client
// make one before there is a connection again. That one has the version that the write has, too.
func TestAWriteIsNotRepeatedWithoutALook(t *testing.T) {
	for _, fault := range []zktest.Fault{zktest.FailBefore, zktest.LoseReply} {
		t.Run(fault.String(), func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) {
				var away atomic.Bool
				client := w.client(framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
					if away.Load() {
						return nil, errors.New("no route to host")
					}
					return w.DialContext(ctx, network, address)
				}))
				n := keep(t, client, "/group/a", "a")
				met := w.Inject(fault, 0, zktest.OnOp(zktest.OpSetData))
				away.Store(true)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- n.Set(ctx, []byte("b")) }()
				testbed.Receive(t, met.Done(), "the write")
				synctest.Wait()
				require.NoError(t, w.Delete("/group/a"))
				other := keep(t, w.client(), "/group/a", "other")
				away.Store(false)
				require.ErrorIs(t, testbed.Receive(t, ended, "the end of Set"), node.ErrTaken)
				w.one(other, "other")
				require.NoError(t, other.Close())
				await(t, n, isThere)
				w.one(n, "b")
			})
		})
	}
}
