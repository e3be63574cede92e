package barrier_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/barrier"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBarrier(t *testing.T) {
	testbed.Run(t, []testbed.Case{
		// CUR-BAR-02
		{Name: "waiters go on when the barrier is removed, whoever has set it", Test: waitersGoOn},
		// KZ-BAR-01, CUR-BAR-01
		{Name: "a wait that times out says so, and a removal what it has found", Test: timeoutIsNoPass},
		// GH-1290
		{Name: "a barrier that was set before the call is seen on each server", Test: seenOnEachServer},
		// CUR-BAR-03, KZ-BAR-02
		{Name: "a double barrier lets members in and out together", Test: together},
		// CUR-BAR-04
		{Name: "more members than needed enter and leave", Test: overSubscribed},
		// CUR-BAR-05, CURATOR-80
		{Name: "an entry that is not complete times out and leaves no node", Test: incompleteEntry},
		// CURATOR-536
		{Name: "a leave that times out says so, and leaves no node", Test: incompleteLeave},
		// CURATOR-233
		{Name: "an entry's context ends with its session, and the others can leave", Test: entryLosesItself},
		{Name: "a waiting member whose session ends comes again", Test: comesAgain},
	})
}

func newBarrier(client *framework.Client, path string) *barrier.Barrier {
	return testbed.Must(barrier.New(client, path))
}

// waiting starts a Wait and returns a channel for its result.
func waiting(ctx context.Context, b *barrier.Barrier) <-chan error {
	return testbed.Go(func() error { return b.Wait(ctx) })
}

func waitersGoOn(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	setter := bed.Client(t)
	require.NoError(t, newBarrier(setter, path).Set(testbed.Context(t)))
	require.NoError(t, newBarrier(setter, path).Set(testbed.Context(t)), "it is set already")
	require.NoError(t, setter.Close())
	var waiters []<-chan error
	for range 5 {
		waiters = append(waiters, waiting(testbed.Context(t), newBarrier(bed.Client(t), path)))
	}
	for _, w := range waiters {
		require.Empty(t, w, "passed")
	}
	require.True(t, testbed.Must(newBarrier(bed.Client(t), path).Remove(testbed.Context(t))))
	for _, w := range waiters {
		require.NoError(t, testbed.Receive(t, w, "a waiter"))
	}
}

func timeoutIsNoPass(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	b := newBarrier(bed.Client(t), testbed.Path(t))
	require.NoError(t, b.Set(ctx))
	err := b.Wait(testbed.Timeout(t, 50*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, zk.ErrNoServer)
	require.ErrorContains(t, err, "wait for barrier "+b.Path())
	for _, want := range []bool{true, false} {
		require.Equal(t, want, testbed.Must(b.Remove(ctx)))
		require.NoError(t, b.Wait(ctx))
	}
}

func seenOnEachServer(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	var all []*barrier.Barrier
	for range 3 { // clients are on different servers
		all = append(all, newBarrier(bed.Client(t), path))
	}
	for i, b := range all {
		require.NoError(t, b.Set(testbed.Context(t)))
		require.ErrorIs(t, all[(i+1)%3].Wait(testbed.Timeout(t, 100*time.Millisecond)), context.DeadlineExceeded)
		require.NoError(t, testbed.Err(b.Remove(testbed.Context(t))))
		require.NoError(t, all[(i+2)%3].Wait(testbed.Context(t)))
	}
}

// TestAServerThatIsBehindLetsNobodyPass has a follower that knows of the barrier a second late.
func TestAServerThatIsBehindLetsNobodyPass(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		leader, followers := testbed.Leader(t, cluster)
		follower := followers[0]
		bed := testbed.OnCluster(cluster)
		near := newBarrier(bed.Client(t, framework.WithDialer(leader.DialContext)), "/b")
		far := newBarrier(bed.Client(t, framework.WithDialer(follower.DialContext)), "/b")
		require.NoError(t, cluster.Lag(follower, time.Second))
		require.NoError(t, near.Set(t.Context()))
		passed := waiting(t.Context(), far)
		time.Sleep(time.Minute) // virtual time, in which no client may pass
		synctest.Wait()
		require.Empty(t, passed)
		require.NoError(t, testbed.Err(near.Remove(t.Context())))
		require.NoError(t, <-passed)
	})
}

// TestBarrierWithAnyRequestFailing has the subject set, wait and remove, while another one waits.
func TestBarrierWithAnyRequestFailing(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		ctx := testbed.Context(t)
		b, other := newBarrier(s.Subject, "/deep/down/b"), newBarrier(s.Other, "/deep/down/b")
		require.NoError(t, testbed.Listed(t, b, "Set", b.Set(ctx)))
		require.True(t, s.Server.Exists("/deep/down/b"))
		passed := []<-chan error{waiting(ctx, b), waiting(ctx, other)}
		time.Sleep(10 * time.Second) // virtual time, in which no client may pass
		synctest.Wait()
		for _, p := range passed {
			require.Empty(t, p, "nobody has removed it")
		}
		_, err := b.Remove(ctx)
		require.NoError(t, testbed.Listed(t, b, "Remove", err))
		require.False(t, s.Server.Exists("/deep/down/b"))
		for _, p := range passed {
			require.NoError(t, testbed.Listed(t, b, "Wait", <-p))
		}
	})
}

// TestARequestOfAnEarlierSessionUndoesNothing: a client declares its session lost before the
// servers do, and its requests may arrive in between. So a Remove or a Set does not continue in the
// next session.
func TestARequestOfAnEarlierSessionUndoesNothing(t *testing.T) {
	for name, write := range map[string]func(context.Context, *barrier.Barrier) error{
		"set":    func(ctx context.Context, b *barrier.Barrier) error { return b.Set(ctx) },
		"remove": func(ctx context.Context, b *barrier.Barrier) error { _, err := b.Remove(ctx); return err },
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			c := w.Client()
			b := newBarrier(c, "/b")
			if name == "remove" {
				require.NoError(t, b.Set(t.Context()))
			}
			w.Server.Freeze(testbed.Session(t, c).ID())
			err := write(t.Context(), b)
			testbed.Listed(t, b, map[string]string{"set": "Set", "remove": "Remove"}[name], err)
			require.ErrorIs(t, err, framework.ErrSessionLost)
			require.True(t, retry.Unknown(err), "it is said that it may be carried out")
			require.NoError(t, c.Sync(t.Context()), "there is a next session")
		})
	}
}

// TestABarrierThatIsSetAgainLetsWaitersPass: it is removed and set again before the waiter can
// look.
func TestABarrierThatIsSetAgainLetsWaitersPass(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		b := newBarrier(c, "/b")
		require.NoError(t, b.Set(t.Context()))
		passed := waiting(t.Context(), b)
		time.Sleep(time.Second) // virtual time
		testbed.Set(t, c, "/b", []byte("still set"))
		time.Sleep(time.Second) // virtual time
		synctest.Wait()
		require.Empty(t, passed, "other data are no removal")
		gate := w.Server.Block(zktest.OnOp("exists"))
		require.NoError(t, w.Server.Delete("/b"))
		require.NoError(t, w.Server.Create("/b", nil))
		gate.Open()
		require.NoError(t, <-passed)
		late := waiting(t.Context(), b)
		time.Sleep(time.Minute) // virtual time
		synctest.Wait()
		require.Empty(t, late, "it is set")
		require.NoError(t, w.Server.Delete("/b"))
		require.NoError(t, <-late)
	})
}

// TestABarrierThatIsSetAgainUnseenLetsWaitersPass: it is removed and set again after the waiter's
// watch was used up by other data, or has ended with its connection.
func TestABarrierThatIsSetAgainUnseenLetsWaitersPass(t *testing.T) {
	for name, unwatch := range map[string]func(*zktest.Server) error{
		"other data":      func(server *zktest.Server) error { return server.Set("/b", []byte("still set")) },
		"connection lost": func(server *zktest.Server) error { server.CutConnections(); return nil },
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			b := newBarrier(w.Client(), "/b")
			require.NoError(t, b.Set(t.Context()))
			passed := waiting(t.Context(), b)
			synctest.Wait() // it waits
			gate := w.Server.Block(zktest.OnOp("exists"))
			require.NoError(t, unwatch(w.Server))
			<-gate.Arrived()
			require.NoError(t, w.Server.Delete("/b"))
			require.NoError(t, w.Server.Create("/b", nil))
			gate.Open()
			require.NoError(t, <-passed)
		})
	}
}

// TestAContextThatEndedWithASessionEndsSetAndRemove, for example the context of a hold.
func TestAContextThatEndedWithASessionEndsSetAndRemove(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		session := testbed.Session(t, c)
		b := newBarrier(c, "/b")
		ctx := session.Context()
		require.NoError(t, w.Server.ExpireSession(session.ID()))
		<-ctx.Done()
		require.ErrorIs(t, b.Set(ctx), framework.ErrSessionLost)
		require.ErrorIs(t, testbed.Err(b.Remove(ctx)), framework.ErrSessionLost)
		require.NoError(t, b.Set(t.Context()), "in the next session")
		require.ErrorIs(t, newBarrier(c.In(session), "/b").Set(t.Context()), framework.ErrSessionLost)
	})
}

// TestCloseEndsWaits: of a barrier, of Enter and of Leave.
func TestCloseEndsWaits(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		b := newBarrier(c, "/b")
		require.NoError(t, b.Set(t.Context()))
		waits := waiting(t.Context(), b)
		enters := entering(t.Context(), newDouble(c, "/enter", 2))
		one, _ := enterBoth(t, c, w.Client(), "/leave")
		leaves := testbed.Go(func() error { return one.Leave(t.Context()) })
		time.Sleep(time.Second) // virtual time
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-waits, framework.ErrClosed)
		require.ErrorIs(t, (<-enters).err, framework.ErrClosed)
		require.ErrorIs(t, <-leaves, framework.ErrClosed)
		require.Empty(t, left(t, w.Server, "/enter"))
		require.True(t, w.Server.Exists("/b"), "it does not belong to the client")
	})
}

func TestAWaitLastsThroughAnOutage(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		b := newBarrier(w.Client(), "/b")
		require.NoError(t, b.Set(t.Context()))
		passed := waiting(t.Context(), b)
		time.Sleep(time.Second) // virtual time
		w.Server.Stop()
		err := b.Wait(testbed.Timeout(t, 5*time.Minute))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrNoServer)
		require.Empty(t, passed)
		require.NoError(t, w.Server.Restart())
		require.NoError(t, w.Server.Delete("/b"))
		require.NoError(t, <-passed)
	})
}

func TestBarriersOnAKeeper(t *testing.T) {
	for _, age := range []string{"old", "recent", "new", "newest"} {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			b := newBarrier(w.Client(), "/b")
			require.NoError(t, b.Set(t.Context()))
			passed := waiting(t.Context(), newBarrier(w.Client(), "/b"))
			first := entering(t.Context(), newDouble(w.Client(), "/d", 2))
			time.Sleep(time.Second)   // virtual time
			w.Server.CutConnections() // all sessions are lost
			time.Sleep(time.Second)   // virtual time
			require.Empty(t, passed)
			require.Empty(t, first)
			require.NoError(t, testbed.Err(b.Remove(t.Context())))
			require.NoError(t, <-passed)
			second := enter(t, w.Client(), "/d", 2)
			one := inside(t, first)
			time.Sleep(time.Minute) // virtual time: the old sessions have ended
			require.True(t, w.Server.Exists(one.Path()), "it belongs to the present session")
			leave(t, one, second)
			require.Empty(t, left(t, w.Server, "/d"))
		}, zktest.LikeKeeper(age))
	}
}

// TestABarrierOnAKeeperIsNotSetTwice: a Keeper keeps the old session beside the new session, so a
// create whose answer was lost may be carried out after the requests of the new session.
func TestABarrierOnAKeeperIsNotSetTwice(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		b := newBarrier(w.Client(), "/b")
		w.Server.Inject(zktest.FailBefore, 0, zktest.OnCreate())
		err := b.Set(t.Context())
		require.ErrorIs(t, err, framework.ErrSessionLost)
		require.True(t, retry.Unknown(err), "%v", err)
		require.False(t, w.Server.Exists("/b"), "nobody has set it in the next session")
		require.NoError(t, b.Set(t.Context()))
		w.Server.Inject(zktest.LoseReply, 0, zktest.OnOp("delete"))
		_, err = b.Remove(t.Context())
		require.ErrorIs(t, err, framework.ErrSessionLost)
		require.True(t, retry.Unknown(err), "%v", err)
	}, zktest.LikeKeeper("recent"))
}

func TestBadArguments(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		for _, path := range []string{"", "relative", "/", "/a/"} {
			require.ErrorIs(t, testbed.Err(barrier.New(c, path)), framework.ErrBadPath)
			require.ErrorIs(t, testbed.Err(barrier.NewDouble(c, path, 1)), framework.ErrBadPath)
		}
		bad := func(_ any, err error) {
			t.Helper()
			require.ErrorIs(t, err, framework.ErrBadArgument)
		}
		bad(barrier.New(nil, "/a"))
		bad(barrier.New(c, "/a", nil))
		bad(barrier.NewDouble(c, "/a", 0))
		bad(barrier.NewDouble(c, "/a", 2, nil))
		require.NoError(t, c.Close())
		require.ErrorIs(t, newBarrier(c, "/a").Wait(t.Context()), framework.ErrClosed)
		require.ErrorIs(t, testbed.Err(newDouble(c, "/a", 1).Enter(t.Context())), framework.ErrClosed)
	})
}
