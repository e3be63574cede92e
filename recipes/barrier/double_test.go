package barrier_test

import (
	"context"
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

func newDouble(client *framework.Client, path string, n int) *barrier.Double {
	return testbed.Must(barrier.NewDouble(client, path, n))
}

type entered struct {
	entry *barrier.Entry
	err   error
}

// entering starts an Enter and returns a channel for its result.
func entering(ctx context.Context, d *barrier.Double) <-chan entered {
	return testbed.Go(func() entered {
		e, err := d.Enter(ctx)
		return entered{e, err}
	})
}

// inside waits for an Enter to succeed.
func inside(t *testing.T, c <-chan entered) *barrier.Entry {
	t.Helper()
	e := testbed.Receive(t, c, "the entry")
	require.NoError(t, e.err)
	return e.entry
}

// enter has a client enter a barrier for n members.
func enter(t *testing.T, client *framework.Client, path string, n int) *barrier.Entry {
	t.Helper()
	return inside(t, entering(testbed.Context(t), newDouble(client, path, n)))
}

// enterBoth has two clients enter a barrier for two members.
func enterBoth(t *testing.T, one, other *framework.Client, path string) (first, second *barrier.Entry) {
	t.Helper()
	c := entering(testbed.Context(t), newDouble(one, path, 2))
	second = enter(t, other, path, 2)
	return inside(t, c), second
}

// givesUp requires that a member does not enter.
func givesUp(t *testing.T, d *barrier.Double, why ...any) {
	t.Helper()
	require.ErrorIs(t, testbed.Err(d.Enter(testbed.Timeout(t, 5*time.Second))), context.DeadlineExceeded, why...)
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
			d := newDouble(client, path, n)
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
		d := newDouble(look, path, 5)
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
	d := newDouble(bed.Client(t), path, 2)
	other := bed.Client(t)
	_, err := d.Enter(testbed.Timeout(t, 100*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, zk.ErrNoServer)
	require.ErrorContains(t, err, "enter "+path)
	members(t, other, path, 0)

	_, err = newDouble(other, path, 2).Enter(testbed.Timeout(t, 100*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded, "who has given up does not count")
}

func incompleteLeave(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	one, two := enterBoth(t, bed.Client(t), bed.Client(t), path)
	require.ErrorIs(t, one.Leave(testbed.Timeout(t, 100*time.Millisecond)), context.DeadlineExceeded)
	require.NoError(t, two.Leave(testbed.Context(t)), "it need not wait for who has given up")
	members(t, bed.Client(t), path, 0)
}

func entryLosesItself(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	client := bed.Client(t)
	one, two := enterBoth(t, client, bed.Client(t), path)
	bed.ExpireSession(t, client)
	testbed.Receive(t, one.Context().Done(), "word of the loss")
	require.ErrorIs(t, context.Cause(one.Context()), framework.ErrSessionLost)
	require.NoError(t, two.Context().Err())
	require.NoError(t, two.Leave(testbed.Context(t)))
	require.NoError(t, one.Leave(testbed.Context(t)))
}

func comesAgain(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	client, other := bed.Client(t), bed.Client(t)
	first := entering(testbed.Context(t), newDouble(client, path, 2))
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
	leave(t, enter(t, other, path, 2), inside(t, first))
}

// TestDoubleWithAnyRequestFailing has two members. One of them meets the fault in Enter or Leave.
func TestDoubleWithAnyRequestFailing(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		ctx := testbed.Context(t)
		subject, other := newDouble(s.Subject, "/deep/down/d", 2), newDouble(s.Other, "/deep/down/d", 2)
		one := entering(ctx, subject)
		time.Sleep(20 * time.Second) // virtual time
		synctest.Wait()
		require.Empty(t, one, "one is missing")
		two := inside(t, entering(ctx, other))
		first := <-one
		require.NoError(t, testbed.Listed(t, subject, "Enter", first.err))
		leaving := testbed.Go(func() error { return first.entry.Leave(ctx) })
		if first.entry.Context().Err() == nil {
			time.Sleep(time.Second) // virtual time
			synctest.Wait()
			require.Empty(t, leaving, "the other one is inside")
		}
		require.NoError(t, two.Leave(ctx))
		require.NoError(t, testbed.Listed(t, first.entry, "Leave", <-leaving))
		require.Empty(t, left(t, s.Server, "/deep/down/d"))
	})
}

// TestAFailedEntryWithAnyRequestFailing has the subject give up alone: then another one must not
// pass.
func TestAFailedEntryWithAnyRequestFailing(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		subject := newDouble(s.Subject, "/d", 2)
		_, err := subject.Enter(testbed.Timeout(t, 5*time.Second))
		require.ErrorIs(t, testbed.Listed(t, subject, "Enter", err), context.DeadlineExceeded)
		require.Empty(t, left(t, s.Server, "/d"))
		givesUp(t, newDouble(s.Other, "/d", 2), "it counts who has given up")
	})
}

// TestACreateThatIsCarriedOutLateLeavesNoMember has a server that stands still with the create in
// its hands, until the caller has given up and the connection has been lost (CURATOR-80).
func TestACreateThatIsCarriedOutLateLeavesNoMember(t *testing.T) {
	for _, cut := range []bool{false, true} {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			require.NoError(t, w.Server.Create("/d", nil))
			d := newDouble(w.Client(), "/d", 1)
			gate := w.Server.Block(zktest.OnCreate(), zktest.OnPath("/d/"))
			givesUp(t, d)
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
		slow := entering(testbed.Context(t), newDouble(w.Client(), "/d", 2))
		time.Sleep(time.Second) // virtual time
		gate := w.Server.Block(zktest.OnOp("exists"))
		require.NoError(t, w.Server.Create("/d/ready", nil))
		require.NoError(t, w.Server.Delete("/d/ready"))
		gate.Open()
		leave(t, inside(t, slow))
	})
}

// TestOneClientEntersTwice by one Double: each Enter is a member.
func TestOneClientEntersTwice(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		d := newDouble(w.Client(), "/d", 2)
		first, second := entering(t.Context(), d), entering(t.Context(), d)
		one, two := inside(t, first), inside(t, second)
		require.NotEqual(t, one.Path(), two.Path())
		leave(t, one, two)
		require.Empty(t, left(t, w.Server, "/d"))
	})
}

// TestLeaveAgain: a second Leave, after the first one is done or has timed out, does no harm.
func TestLeaveAgain(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		one, two := enterBoth(t, w.Client(), w.Client(), "/d")
		require.ErrorIs(t, one.Leave(testbed.Timeout(t, time.Second)), context.DeadlineExceeded)
		again := testbed.Go(func() error { return one.Leave(testbed.Context(t)) })
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
			leave(t, enter(t, c, "/one", 1))
			first := entering(t.Context(), newDouble(c, "/two", 2))
			time.Sleep(time.Second) // virtual time
			synctest.Wait()
			require.Empty(t, first, "the last round is over")
			leave(t, enter(t, other, "/two", 2), inside(t, first))
		}
		require.Empty(t, left(t, w.Server, "/one"))
		require.Empty(t, left(t, w.Server, "/two"))
	})
}

// TestALeaveDoesNotWaitForTheNextRound: the last member leaves, and enters again before the waiting
// one looks.
func TestALeaveDoesNotWaitForTheNextRound(t *testing.T) {
	for name, lost := range map[string]bool{"all is answered": false, "the answer to our delete is lost": true} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			a, b := w.Client(), w.Client()
			first, second := enterBoth(t, a, b, "/d")
			if first.Path() > second.Path() { // the first by name waits for the others
				first, second, a, b = second, first, b, a
			}
			session := testbed.Session(t, b)
			answer := w.Server.BlockReplies(zktest.OnSession(session.ID()), zktest.OnOp("delete"))
			left := testbed.Go(func() error { return second.Leave(t.Context()) })
			<-answer.Arrived()
			if lost {
				w.Server.CutConnections()
			}
			gate := w.Server.Block(zktest.OnSession(session.ID()), zktest.OnOp("getChildren2"))
			answer.Open()
			require.NoError(t, first.Leave(t.Context()))
			again := entering(t.Context(), newDouble(a, "/d", 2))
			time.Sleep(time.Second) // virtual time, in which its node is made
			gate.Open()
			require.NoError(t, <-left)
			require.Empty(t, again, "one of two")
			enter(t, b, "/d", 2)
			inside(t, again)
		})
	}
}

// TestALeaveDoesNotSpin counts the requests of a leave that waits (CURATOR-536). The member's
// context has ended before, and it does not depend on its session afterwards.
func TestALeaveDoesNotSpin(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		one, two := enterBoth(t, w.Client(), w.Client(), "/d")
		w.Server.ResetCounts()
		left := testbed.Go(func() error { return one.Leave(testbed.Timeout(t, time.Minute)) })
		synctest.Wait()
		require.Empty(t, left, "the other one is inside")
		require.Equal(t, barrier.ErrLeft, context.Cause(one.Context()))
		require.ErrorIs(t, <-left, context.DeadlineExceeded)
		require.Less(t, w.Server.Requests().Requests["getChildren2"], 3)
		leave(t, two)
		idle(t, w.Server)
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
		one := entering(t.Context(), newDouble(c, "/d", 1))
		testbed.Receive(t, gate.Arrived(), "the create of ready")
		w.Server.Freeze(session.ID())
		leave(t, inside(t, one))
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
		one := entering(testbed.Context(t), newDouble(w.Client(), "/d", 1))
		testbed.Receive(t, gate.Arrived(), "the create of ready")
		for _, name := range testbed.ServerChildren(t, w.Server, "/d") {
			require.NoError(t, w.Server.Delete("/d/"+name))
		}
		gate.Open()
		entry := inside(t, one)
		require.NoError(t, entry.Context().Err())
		require.Contains(t, left(t, w.Server, "/d"), path.Base(entry.Path()))
		leave(t, entry)
		idle(t, w.Server)
	})
}

// TestAReadyThatNobodyIsInsideOfLetsNobodyPass has a server that stands still with the create of
// ready in its hands, until both members have given up.
func TestAReadyThatNobodyIsInsideOfLetsNobodyPass(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		gate := w.Server.Block(zktest.OnOp("multi"), zktest.OnPath("/d/ready"))
		short := testbed.Timeout(t, 2*time.Second)
		one := entering(short, newDouble(w.Client(), "/d", 2))
		time.Sleep(time.Second) // virtual time
		two := entering(short, newDouble(w.Client(), "/d", 2))
		testbed.Receive(t, gate.Arrived(), "the create of ready")
		require.ErrorIs(t, (<-one).err, context.DeadlineExceeded)
		require.ErrorIs(t, (<-two).err, context.DeadlineExceeded)
		gate.Open()
		require.Equal(t, []string{"ready"}, left(t, w.Server, "/d"))
		givesUp(t, newDouble(w.Client(), "/d", 2))
		require.Empty(t, left(t, w.Server, "/d"))
	})
}

// TestAServerThatIsBehindHasNoReadyDeleted has a member enter through a server that does not know
// yet that others are inside.
func TestAServerThatIsBehindHasNoReadyDeleted(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		leader, followers := testbed.Leader(t, cluster)
		require.NoError(t, leader.Create("/d", nil))
		require.NoError(t, leader.Create("/d/ready", nil))
		time.Sleep(time.Second) // virtual time
		late, others := testbed.ClientOf(t, followers[0]), testbed.ClientOf(t, leader)
		testbed.CatchUp(t, late)
		require.NoError(t, cluster.Lag(followers[0], time.Second))
		one, two := enterBoth(t, others, others, "/d")
		third := entering(t.Context(), newDouble(late, "/d", 2))
		for range 40 {
			time.Sleep(100 * time.Millisecond) // virtual time
			require.True(t, leader.Exists("/d/ready"))
		}
		leave(t, one, two, inside(t, third))
	})
}

// TestAMemberThatComesAgainPassesIfTheOthersHaveCrashed has all members lose their sessions when
// they are complete, and one of them wait at that moment.
func TestAMemberThatComesAgainPassesIfTheOthersHaveCrashed(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c, crashed := w.Client(), w.Client()
		session := testbed.Session(t, c)
		one := entering(testbed.Context(t), newDouble(c, "/d", 2))
		time.Sleep(time.Second) // virtual time
		w.Server.Freeze(session.ID())
		enter(t, crashed, "/d", 2)
		require.NoError(t, crashed.Close())
		require.NoError(t, w.Server.ExpireSession(session.ID()))
		leave(t, inside(t, one))
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
		one := entering(testbed.Timeout(t, time.Second), newDouble(w.Client(), "/d", 2))
		synctest.Wait()
		require.Len(t, testbed.ServerChildren(t, w.Server, "/d"), 1, "it has come")
		require.ErrorIs(t, testbed.Receive(t, one, "the end of Enter").err, context.DeadlineExceeded)
		require.Empty(t, left(t, w.Server, "/d"))
		idle(t, w.Server)
	})
}

// TestAMemberThatSomebodyDeletesLeaves deletes its node, or the barrier as well, while it is
// inside.
func TestAMemberThatSomebodyDeletesLeaves(t *testing.T) {
	for name, more := range map[string][]string{"its node": nil, "all": {"/d/ready", "/d"}} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			e := enter(t, w.Client(), "/d", 1)
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
