package barrier_test

import (
	"context"
	"errors"
	"path"
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
	"github.com/gocurator/curator/recipes/barrier"
	"github.com/gocurator/curator/zktest"
)

func newDouble(t *testing.T, client *framework.Client, path string, n int) *barrier.Double {
	t.Helper()
	d, err := barrier.NewDouble(client, path, n)
	require.NoError(t, err)
	return d
}

type entered struct {
	entry *barrier.Entry
	err   error
}

// entering starts an Enter and returns a channel for its result.
func entering(ctx context.Context, d *barrier.Double) <-chan entered {
	done := testbed.Go(func() entered {
		e, err := d.Enter(ctx)
		return entered{e, err}
	})
	return done
}

// leave has all of entries leave.
func leave(t *testing.T, entries ...*barrier.Entry) {
	t.Helper()
	var wg sync.WaitGroup
	ctx := testbed.Context(t)
	for _, e := range entries {
		wg.Go(func() { assert.NoError(t, e.Leave(ctx)) })
	}
	wg.Wait()
}

// left is what there is below path after a minute.
func left(t *testing.T, server *zktest.Server, path string) []string {
	t.Helper()
	time.Sleep(time.Minute) // virtual time
	synctest.Wait()
	names, err := server.Children(path)
	if err != nil {
		require.ErrorIs(t, err, zktest.ErrNoNode)
	}
	return names
}

// members waits until there are n nodes below path.
func members(t *testing.T, client *framework.Client, path string, n int) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		names, _, err := client.Children(testbed.Context(t), path)
		return len(names) == n && (n == 0 || err == nil)
	}, "the members")
}

func together(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	for _, n := range []int{1, 2, 3, 5} {
		path := testbed.Path(t)
		var inside, come atomic.Int32
		var wg sync.WaitGroup
		look := bed.Client(t)
		for i := range n {
			client := look
			if i%2 == 1 {
				client = bed.Client(t)
			}
			d := newDouble(t, client, path, n)
			if i == n-1 && n > 1 {
				members(t, look, path, n-1)
				require.Zero(t, inside.Load(), "one is missing")
			}
			wg.Go(func() {
				come.Add(1)
				e, err := d.Enter(ctx)
				if !assert.NoError(t, err) {
					return
				}
				assert.EqualValues(t, n, come.Load())
				inside.Add(1)
				assert.NoError(t, e.Context().Err())
				assert.NoError(t, e.Leave(ctx))
				assert.Equal(t, barrier.ErrLeft, context.Cause(e.Context()))
				assert.EqualValues(t, n, inside.Load(), "it left before all were in")
			})
		}
		wg.Wait()
		testbed.CatchUp(t, look)
		members(t, look, path, 0)
	}
}

func overSubscribed(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	path := testbed.Path(t)
	var wg sync.WaitGroup
	var all sync.WaitGroup // six are inside
	all.Add(6)
	look := bed.Client(t)
	for range 6 {
		d := newDouble(t, look, path, 5)
		wg.Go(func() {
			e, err := d.Enter(ctx)
			if assert.NoError(t, err) {
				all.Done()
				all.Wait()
				assert.NoError(t, e.Leave(ctx))
			}
		})
	}
	wg.Wait()
	members(t, look, path, 0)
}

func incompleteEntry(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	d := newDouble(t, bed.Client(t), path, 2)
	other := bed.Client(t)
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := d.Enter(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, zk.ErrNoServer)
	require.ErrorContains(t, err, "enter "+path)
	members(t, other, path, 0)

	short, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = newDouble(t, other, path, 2).Enter(short)
	require.ErrorIs(t, err, context.DeadlineExceeded, "who has given up does not count")
}

func incompleteLeave(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	d := newDouble(t, bed.Client(t), path, 2)
	other := entering(testbed.Context(t), newDouble(t, bed.Client(t), path, 2))
	one, err := d.Enter(testbed.Context(t))
	require.NoError(t, err)
	two := testbed.Receive(t, other, "the other entry")
	require.NoError(t, two.err)
	short := testbed.Timeout(t, 100*time.Millisecond)
	require.ErrorIs(t, one.Leave(short), context.DeadlineExceeded)
	require.NoError(t, two.entry.Leave(testbed.Context(t)), "it need not wait for who has given up")
	members(t, bed.Client(t), path, 0)
}

func entryLosesItself(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	client := bed.Client(t)
	lost := entering(testbed.Context(t), newDouble(t, client, path, 2))
	two, err := newDouble(t, bed.Client(t), path, 2).Enter(testbed.Context(t))
	require.NoError(t, err)
	one := testbed.Receive(t, lost, "the other entry")
	require.NoError(t, one.err)
	bed.ExpireSession(t, client)
	testbed.Receive(t, one.entry.Context().Done(), "word of the loss")
	require.ErrorIs(t, context.Cause(one.entry.Context()), framework.ErrSessionLost)
	require.NoError(t, two.Context().Err())
	require.NoError(t, two.Leave(testbed.Context(t)))
	require.NoError(t, one.entry.Leave(testbed.Context(t)))
}

func comesAgain(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	client, other := bed.Client(t), bed.Client(t)
	first := entering(testbed.Context(t), newDouble(t, client, path, 2))
	members(t, other, path, 1)
	bed.ExpireSession(t, client)
	testbed.Eventually(t, func() bool {
		s, err := client.Session(testbed.Context(t))
		if err != nil {
			return false
		}
		names, _, err := other.Children(testbed.Context(t), path)
		if err != nil || len(names) != 1 {
			return false
		}
		_, stat, err := other.Exists(testbed.Context(t), path+"/"+names[0])
		return err == nil && stat != nil && stat.EphemeralOwner == s.ID()
	}, "the member's node is back")
	two, err := newDouble(t, other, path, 2).Enter(testbed.Context(t))
	require.NoError(t, err)
	one := testbed.Receive(t, first, "the entry")
	require.NoError(t, one.err)
	leave(t, one.entry, two)
}

// TestDoubleWithAnyRequestFailing has two members. One of them meets the fault in Enter or Leave.
func TestDoubleWithAnyRequestFailing(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		ctx := testbed.Context(t)
		subject, other := newDouble(t, s.Subject, "/deep/down/d", 2), newDouble(t, s.Other, "/deep/down/d", 2)
		one := entering(ctx, subject)
		time.Sleep(20 * time.Second) // virtual time
		synctest.Wait()
		require.Empty(t, one, "one is missing")
		two := <-entering(ctx, other)
		require.NoError(t, two.err)
		first := <-one
		require.NoError(t, testbed.Listed(t, subject, "Enter", first.err))
		leaving := testbed.Go(func() error { return first.entry.Leave(ctx) })
		if first.entry.Context().Err() == nil {
			time.Sleep(time.Second) // virtual time
			synctest.Wait()
			require.Empty(t, leaving, "the other one is inside")
		}
		require.NoError(t, two.entry.Leave(ctx))
		require.NoError(t, testbed.Listed(t, first.entry, "Leave", <-leaving))
		require.Empty(t, left(t, s.Server, "/deep/down/d"))
	})
}

// TestAFailedEntryWithAnyRequestFailing has the subject give up alone: then another one must not
// pass.
func TestAFailedEntryWithAnyRequestFailing(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		subject, other := newDouble(t, s.Subject, "/d", 2), newDouble(t, s.Other, "/d", 2)
		_, err := subject.Enter(short)
		require.ErrorIs(t, testbed.Listed(t, subject, "Enter", err), context.DeadlineExceeded)
		require.Empty(t, left(t, s.Server, "/d"))
		short, cancel = context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err = other.Enter(short)
		require.ErrorIs(t, testbed.Listed(t, other, "Enter", err), context.DeadlineExceeded, "it counts who has given up")
	})
}

// TestACreateThatIsCarriedOutLateLeavesNoMember has a server that stands still with the create in
// its hands, until the caller has given up and the connection has been lost (CURATOR-80).
func TestACreateThatIsCarriedOutLateLeavesNoMember(t *testing.T) {
	for _, cut := range []bool{false, true} {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			require.NoError(t, w.Server.Create("/d", nil))
			d := newDouble(t, w.Client(), "/d", 1)
			gate := w.Server.Block(zktest.OnCreate(), zktest.OnPath("/d/"))
			short := testbed.Timeout(t, time.Second)
			_, err := d.Enter(short)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			if cut {
				w.Server.CutConnections()
				time.Sleep(time.Second) // virtual time
			}
			gate.Open()
			require.Empty(t, left(t, w.Server, "/d"))
		})
	}
}

// TestAReadyThatIsGoneAgainIsNotMissed has the others enter and leave before a slow member has
// looked.
func TestAReadyThatIsGoneAgainIsNotMissed(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		slow := entering(testbed.Context(t), newDouble(t, w.Client(), "/d", 2))
		time.Sleep(time.Second) // virtual time
		gate := w.Server.Block(zktest.OnOp("exists"))
		require.NoError(t, w.Server.Create("/d/ready", nil))
		require.NoError(t, w.Server.Delete("/d/ready"))
		gate.Open()
		one := <-slow
		require.NoError(t, one.err)
		leave(t, one.entry)
	})
}

// TestOneClientEntersTwice: each Enter is a member.
func TestOneClientEntersTwice(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		d := newDouble(t, w.Client(), "/d", 2)
		first := entering(t.Context(), d)
		time.Sleep(time.Second) // virtual time
		second, err := d.Enter(t.Context())
		require.NoError(t, err)
		one := <-first
		require.NoError(t, one.err)
		require.NotEqual(t, one.entry.Path(), second.Path())
		leave(t, one.entry, second)
		require.Empty(t, left(t, w.Server, "/d"))
	})
}

// TestLeaveAgain: a second Leave, after the first one is done or has timed out, does no harm.
func TestLeaveAgain(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		first := entering(t.Context(), newDouble(t, w.Client(), "/d", 2))
		two, err := newDouble(t, w.Client(), "/d", 2).Enter(t.Context())
		require.NoError(t, err)
		one := <-first
		require.NoError(t, one.err)
		short := testbed.Timeout(t, time.Second)
		require.ErrorIs(t, one.entry.Leave(short), context.DeadlineExceeded)
		again := testbed.Go(func() error { return one.entry.Leave(testbed.Context(t)) })
		time.Sleep(time.Second) // virtual time
		synctest.Wait()
		require.Empty(t, again, "the other one is inside")
		require.NoError(t, two.Leave(t.Context()))
		require.NoError(t, <-again)
		require.NoError(t, two.Leave(t.Context()))
		require.Empty(t, left(t, w.Server, "/d"))
	})
}

// TestADoubleBarrierIsUsedAgain, round after round at one path, also by a single member.
func TestADoubleBarrierIsUsedAgain(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c, other := w.Client(), w.Client()
		for range 3 {
			e, err := newDouble(t, c, "/one", 1).Enter(t.Context())
			require.NoError(t, err)
			leave(t, e)
			first := entering(t.Context(), newDouble(t, c, "/two", 2))
			time.Sleep(time.Second) // virtual time
			synctest.Wait()
			require.Empty(t, first, "the last round is over")
			second := <-entering(t.Context(), newDouble(t, other, "/two", 2))
			require.NoError(t, second.err)
			one := <-first
			require.NoError(t, one.err)
			leave(t, one.entry, second.entry)
		}
		require.Empty(t, left(t, w.Server, "/one"))
		require.Empty(t, left(t, w.Server, "/two"))
	})
}

// TestALeaveDoesNotWaitForTheNextRound: the last member leaves, and enters again before the waiting
// one looks.
func TestALeaveDoesNotWaitForTheNextRound(t *testing.T) {
	t.Run("all is answered", func(t *testing.T) { leaveBeforeTheNextRound(t, false) })
	t.Run("the answer to our delete is lost", func(t *testing.T) { leaveBeforeTheNextRound(t, true) })
}

func leaveBeforeTheNextRound(t *testing.T, lost bool) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		clients := [2]*framework.Client{w.Client(), w.Client()}
		waiting := entering(t.Context(), newDouble(t, clients[0], "/d", 2))
		second := <-entering(t.Context(), newDouble(t, clients[1], "/d", 2))
		first := <-waiting
		require.NoError(t, errors.Join(first.err, second.err))
		if first.entry.Path() > second.entry.Path() { // the first by name waits for the others
			first, second = second, first
			clients[0], clients[1] = clients[1], clients[0]
		}
		session := testbed.Session(t, clients[1])
		left := make(chan error, 1)
		answer := w.Server.BlockReplies(zktest.OnSession(session.ID()), zktest.OnOp("delete"))
		go func() { left <- second.entry.Leave(t.Context()) }()
		<-answer.Arrived()
		if lost {
			w.Server.CutConnections()
		}
		gate := w.Server.Block(zktest.OnSession(session.ID()), zktest.OnOp("getChildren2"))
		answer.Open()
		require.NoError(t, first.entry.Leave(t.Context()))
		again := entering(t.Context(), newDouble(t, clients[0], "/d", 2))
		time.Sleep(time.Second) // virtual time, in which its node is made
		gate.Open()
		require.NoError(t, <-left)
		require.Empty(t, again, "one of two")
		next := <-entering(t.Context(), newDouble(t, clients[1], "/d", 2))
		require.NoError(t, next.err)
		require.NoError(t, (<-again).err)
	})
}

// TestALeaveDoesNotSpin counts the requests of a leave that waits (CURATOR-536).
func TestALeaveDoesNotSpin(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		one := entering(testbed.Context(t), newDouble(t, w.Client(), "/d", 2))
		two := <-entering(testbed.Context(t), newDouble(t, w.Client(), "/d", 2))
		require.NoError(t, two.err)
		first := <-one
		require.NoError(t, first.err)
		w.Server.ResetCounts()
		short := testbed.Timeout(t, time.Minute)
		require.ErrorIs(t, first.entry.Leave(short), context.DeadlineExceeded)
		require.Less(t, w.Server.Requests().Requests["getChildren2"], 3)
		require.NoError(t, two.entry.Leave(testbed.Context(t)))
	})
}

// TestAReadyThatIsCarriedOutLateLetsNobodyPass has a server that stands still with the create of
// ready in its hands, until its member has entered in another session, and has left.
func TestAReadyThatIsCarriedOutLateLetsNobodyPass(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		// the servers continue with the session for as long again
		c := w.Client(framework.WithExpirationPercent(50))
		session := testbed.Session(t, c)
		gate := w.Server.Block(zktest.OnSession(session.ID()), zktest.OnOp("create", "multi"), zktest.OnPath("/d/ready"))
		one := entering(t.Context(), newDouble(t, c, "/d", 1))
		testbed.Receive(t, gate.Arrived(), "the create of ready")
		w.Server.Freeze(session.ID())
		entered := testbed.Receive(t, one, "the member")
		require.NoError(t, entered.err)
		leave(t, entered.entry)
		gate.Open()
		synctest.Wait()
		require.Empty(t, left(t, w.Server, "/d"))
	})
}

// TestAMemberThatSomebodyDeletesComesAgain deletes the node when its member is about to let
// everybody in. When it has left, no client depends on the session any more: the client does not
// ask the leader.
func TestAMemberThatSomebodyDeletesComesAgain(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		gate := w.Server.Block(zktest.OnOp("multi"), zktest.OnPath("/d/ready"))
		one := entering(testbed.Context(t), newDouble(t, w.Client(), "/d", 1))
		testbed.Receive(t, gate.Arrived(), "the create of ready")
		names := testbed.ServerChildren(t, w.Server, "/d")
		for _, name := range names {
			require.NoError(t, w.Server.Delete("/d/"+name))
		}
		gate.Open()
		entered := testbed.Receive(t, one, "the member")
		require.NoError(t, entered.err)
		require.NoError(t, entered.entry.Context().Err())
		require.Contains(t, left(t, w.Server, "/d"), path.Base(entered.entry.Path()))
		leave(t, entered.entry)
		idle(t, w.Server)
	})
}

// TestAReadyThatNobodyIsInsideOfLetsNobodyPass has a server that stands still with the create of
// ready in its hands, until both members have given up.
func TestAReadyThatNobodyIsInsideOfLetsNobodyPass(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		gate := w.Server.Block(zktest.OnOp("multi"), zktest.OnPath("/d/ready"))
		short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		one := entering(short, newDouble(t, w.Client(), "/d", 2))
		time.Sleep(time.Second) // virtual time
		two := entering(short, newDouble(t, w.Client(), "/d", 2))
		testbed.Receive(t, gate.Arrived(), "the create of ready")
		require.ErrorIs(t, (<-one).err, context.DeadlineExceeded)
		require.ErrorIs(t, (<-two).err, context.DeadlineExceeded)
		gate.Open()
		require.Equal(t, []string{"ready"}, left(t, w.Server, "/d"))
		short, cancel = context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := newDouble(t, w.Client(), "/d", 2).Enter(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, left(t, w.Server, "/d"))
	})
}

// TestAServerThatIsBehindHasNoReadyDeleted has a member enter through a server that does not know
// yet that others are inside.
func TestAServerThatIsBehindHasNoReadyDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		leader, _ := testbed.Leader(t, cluster)
		require.NoError(t, leader.Create("/d", nil))
		require.NoError(t, leader.Create("/d/ready", nil))
		time.Sleep(time.Second) // virtual time
		client := func(server *zktest.Server) *framework.Client {
			c, err := framework.New([]string{server.Addr()}, framework.WithDialer(cluster.DialContext))
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			require.NoError(t, c.Sync(t.Context()))
			return c
		}
		follower := cluster.Members()[0]
		if follower == leader {
			follower = cluster.Members()[1]
		}
		late, others := client(follower), client(leader)
		require.NoError(t, cluster.Lag(follower, time.Second))
		one := entering(t.Context(), newDouble(t, others, "/d", 2))
		two, err := newDouble(t, others, "/d", 2).Enter(t.Context())
		require.NoError(t, err)
		first := <-one
		require.NoError(t, first.err)
		third := entering(t.Context(), newDouble(t, late, "/d", 2))
		for range 40 {
			time.Sleep(100 * time.Millisecond) // virtual time
			require.True(t, leader.Exists("/d/ready"))
		}
		came := <-third
		require.NoError(t, came.err)
		leave(t, first.entry, two, came.entry)
	})
}

// TestAMemberThatComesAgainPassesIfTheOthersHaveCrashed has all members lose their sessions when
// they are complete, and one of them wait at that moment.
func TestAMemberThatComesAgainPassesIfTheOthersHaveCrashed(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c, crashed := w.Client(), w.Client()
		session := testbed.Session(t, c)
		one := entering(testbed.Context(t), newDouble(t, c, "/d", 2))
		time.Sleep(time.Second) // virtual time
		w.Server.Freeze(session.ID())
		_, err := newDouble(t, crashed, "/d", 2).Enter(t.Context())
		require.NoError(t, err)
		require.NoError(t, crashed.Close())
		require.NoError(t, w.Server.ExpireSession(session.ID()))
		entered := testbed.Receive(t, one, "the member")
		require.NoError(t, entered.err)
		leave(t, entered.entry)
		require.Empty(t, left(t, w.Server, "/d"))
	})
}

// idle checks that no client depends on a session: clients then do not ask the leader.
func idle(t *testing.T, server *zktest.Server) {
	t.Helper()
	server.ResetCounts()
	time.Sleep(time.Hour) // virtual time
	require.Zero(t, server.Requests().Requests["multi"])
}

// TestAMemberThatGivesUpDependsOnNoSession gives up in Enter.
func TestAMemberThatGivesUpDependsOnNoSession(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		short := testbed.Timeout(t, time.Second)
		one := entering(short, newDouble(t, w.Client(), "/d", 2))
		synctest.Wait()
		require.Len(t, testbed.ServerChildren(t, w.Server, "/d"), 1, "it has come")
		require.ErrorIs(t, testbed.Receive(t, one, "the end of Enter").err, context.DeadlineExceeded)
		require.Empty(t, left(t, w.Server, "/d"))
		idle(t, w.Server)
	})
}

// TestAMemberThatLeavesDependsOnNoSession gives up in Leave. Its context has ended before.
func TestAMemberThatLeavesDependsOnNoSession(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		first := entering(t.Context(), newDouble(t, w.Client(), "/d", 2))
		two, err := newDouble(t, w.Client(), "/d", 2).Enter(t.Context())
		require.NoError(t, err)
		one := <-first
		require.NoError(t, one.err)
		short := testbed.Timeout(t, time.Second)
		left := testbed.Go(func() error { return one.entry.Leave(short) })
		synctest.Wait()
		require.Empty(t, left, "the other one is inside")
		require.Equal(t, barrier.ErrLeft, context.Cause(one.entry.Context()))
		require.ErrorIs(t, testbed.Receive(t, left, "the end of Leave"), context.DeadlineExceeded)
		leave(t, two)
		idle(t, w.Server)
	})
}

// TestAMemberThatSomebodyDeletesLeaves deletes its node, or the barrier as well, while it is
// inside.
func TestAMemberThatSomebodyDeletesLeaves(t *testing.T) {
	for name, more := range map[string][]string{"its node": nil, "all": {"/d/ready", "/d"}} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			e, err := newDouble(t, w.Client(), "/d", 1).Enter(t.Context())
			require.NoError(t, err)
			for _, path := range append([]string{e.Path()}, more...) {
				require.NoError(t, w.Server.Delete(path))
			}
			require.NoError(t, e.Leave(testbed.Context(t)))
			require.Equal(t, barrier.ErrLeft, context.Cause(e.Context()))
			require.Empty(t, left(t, w.Server, "/d"))
			idle(t, w.Server)
		})
	}
}
