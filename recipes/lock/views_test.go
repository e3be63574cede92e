package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// The rule for who holds, in docs/PROTOCOL.md: each condition has a test that fails without it.

// foreign creates a node of a lock as a client without this library does.
func foreign(t *testing.T, client *framework.Client, path string, opts ...framework.CreateOption) string {
	t.Helper()
	return testbed.Create(t, client, path+"/lock-", nil, append(opts, framework.As(framework.EphemeralSequential),
		framework.Protected(), framework.ContainerParents())...)
}

// secretNode is foreign with a node that only the user of the client may read.
func secretNode(t *testing.T, client *framework.Client) string {
	t.Helper()
	return foreign(t, client, "/lock", framework.ACL(zk.DigestACL(zk.PermAll, "user", "password")))
}

// blocked requires that an acquire does not return.
func blocked(t *testing.T, acquired <-chan result) {
	t.Helper()
	select {
	case got := <-acquired:
		t.Fatalf("two holders: %+v", got)
	case <-time.After(20 * time.Millisecond):
	}
}

// TestHolderOfAnotherParentIsSeen has the path recreated, with another holder, during a release.
func TestHolderOfAnotherParentIsSeen(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := newQueue(t, w.Client(), "/lock")
		other := w.Client()
		for range 50 {
			watched(t, q)
			hold := acquire(t, q)
			released := testbed.Go(hold.Release)
			testbed.Eventually(t, func() bool { children, _ := w.Server.Children("/lock"); return len(children) == 0 }, "the node goes")
			// as a server does with an empty container
			_ = other.Delete(testbed.Context(t), "/lock")
			theirs := foreign(t, other, "/lock")
			mine := acquiring(t, testbed.Context(t), q, w.Server, 2)
			blocked(t, mine)
			require.NoError(t, other.Delete(testbed.Context(t), theirs))
			require.NoError(t, received(t, mine).Release())
			require.NoError(t, testbed.Receive(t, released, "the release"))
		}
	})
}

// TestViewThatMissedANodeIsNotAsked is about a node that the client may not read: servers send no
// event of it. The numbers show that it exists.
func TestViewThatMissedANodeIsNotAsked(t *testing.T) {
	for name, created := range map[string]int32{"few numbers": 5, "where Cversion turns negative": 1<<30 + 5} {
		t.Run(name, func(t *testing.T) {
			server, bed := newServer(t)
			client := bed.Client(t)
			require.NoError(t, server.Create("/lock", []byte("an operator's, so numbers do not start again")))
			require.NoError(t, server.SetSequence("/lock", created))
			q := newQueue(t, client, "/lock")
			watched(t, q)
			secret := bed.Client(t, framework.WithAuth("digest", []byte("user:password")))
			node := secretNode(t, secret)
			hold, err := q.Acquire(testbed.Context(t))
			require.Nil(t, hold)
			require.ErrorIs(t, err, zk.ErrNoAuth, "the node ahead cannot be watched")
			require.NoError(t, secret.Delete(testbed.Context(t), node))
			require.NoError(t, acquire(t, q).Release())
		})
	}
}

// TestNodeThatWasThereBeforeTheViewIsWaitedFor is about nodes that are known from a list, and not
// from an event.
func TestNodeThatWasThereBeforeTheViewIsWaitedFor(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		other := w.Client()
		theirs := foreign(t, other, "/lock")
		var watches atomic.Int32
		w.Server.Inject(zktest.FailBefore, 0, zktest.OnOp("getData"), zktest.On(func(r zktest.Request) bool {
			if r.Watch {
				watches.Add(1)
			}
			return false
		}))
		// has a view from the first acquire on
		q := newQueue(t, w.Client(), "/lock", lock.WithRetention(time.Millisecond))
		mine := acquiring(t, testbed.Context(t), q, w.Server, 2)
		synctest.Wait()
		require.True(t, q.Viewed())
		blocked(t, mine)
		require.Zero(t, watches.Load(), "the view's watch is enough")
		require.NoError(t, other.Delete(testbed.Context(t), theirs))
		require.NoError(t, received(t, mine).Release())
	})
}

// TestUnreadableNodeThatWasThereBeforeTheViewKeepsNobodyOut: no client is notified of its end.
func TestUnreadableNodeThatWasThereBeforeTheViewKeepsNobodyOut(t *testing.T) {
	for name, acquire := range map[string]func(*lock.Queue, context.Context) (*lock.Hold, error){
		"Acquire":    (*lock.Queue).Acquire,
		"TryAcquire": (*lock.Queue).TryAcquire,
	} {
		t.Run(name, func(t *testing.T) {
			bed := testbed.On(zktest.NewServer(t))
			// has a view from the first acquire on
			q := newQueue(t, bed.Client(t), "/lock", lock.WithRetention(time.Millisecond))
			secret := bed.Client(t, framework.WithAuth("digest", []byte("user:password")))
			node := secretNode(t, secret)
			refused(t, q)
			require.ErrorIs(t, testbed.Err(q.Acquire(testbed.Context(t))), zk.ErrNoAuth)
			require.NoError(t, secret.Delete(testbed.Context(t), node))
			require.NoError(t, testbed.Must(acquire(q, testbed.Context(t))).Release())
		})
	}
}

// TestNodeThatComesAheadOfOursIsSeen is a downgrade at the level of nodes: a node with a lower
// number is created later.
func TestNodeThatComesAheadOfOursIsSeen(t *testing.T) {
	server, bed := newServer(t)
	q := newQueue(t, bed.Client(t), "/lock")
	watched(t, q)
	other := bed.Client(t)
	first := foreign(t, other, "/lock")
	_, name := framework.Split(first)
	mine := acquiring(t, testbed.Context(t), q, server, 2)
	number := name[len(name)-10:]
	inPlace := testbed.Create(t, other, "/lock/lock-"+number, nil, framework.As(framework.Ephemeral), framework.Protected())
	require.NoError(t, other.Delete(testbed.Context(t), first))
	blocked(t, mine)
	require.NoError(t, other.Delete(testbed.Context(t), inPlace))
	require.NoError(t, received(t, mine).Release())
}

func TestLostConnectionEndsTheView(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	q := newQueue(t, client, "/lock")
	watched(t, q)
	server.CutConnections()
	testbed.CatchUp(t, client)
	require.False(t, q.Viewed())
	server.ResetCounts()
	require.NoError(t, acquire(t, q).Release())
	watched(t, q)
}

func TestWaitersGoOnWhenTheViewEnds(t *testing.T) {
	server, bed := newServer(t)
	client := bed.Client(t)
	q := newQueue(t, client, "/lock")
	watched(t, q)
	other := bed.Client(t)
	theirs := foreign(t, other, "/lock")
	mine := acquiring(t, testbed.Context(t), q, server, 2)
	blocked(t, mine)
	server.CutConnections()
	testbed.CatchUp(t, client)
	testbed.CatchUp(t, other)
	blocked(t, mine)
	require.NoError(t, other.Delete(testbed.Context(t), theirs))
	require.NoError(t, received(t, mine).Release())
}

func TestHolderInAViewLearnsThatItsNodeWasDeleted(t *testing.T) {
	server, bed := newServer(t)
	client := bed.Client(t)
	q := newQueue(t, client, "/lock", lock.WithErrorPolicy(1)) // LostEndsHold
	watched(t, q)
	operator := bed.Client(t)

	hold := acquire(t, q)
	require.NoError(t, operator.Delete(testbed.Context(t), hold.Path()))
	testbed.Receive(t, hold.Done(), "word of the loss")
	require.ErrorIs(t, hold.Err(), lock.ErrNodeDeleted)
	require.ErrorIs(t, hold.Err(), framework.ErrLost)
	require.ErrorIs(t, hold.Release(), lock.ErrNodeDeleted)

	// The view ends while the lock is held.
	hold = acquire(t, q)
	server.CutConnections()
	testbed.CatchUp(t, client)
	require.NoError(t, hold.Err())
	testbed.CatchUp(t, operator)
	require.NoError(t, operator.Delete(testbed.Context(t), hold.Path()))
	testbed.Receive(t, hold.Done(), "word of the loss")
	require.ErrorIs(t, hold.Err(), lock.ErrNodeDeleted)
}

func TestWaiterInAViewQueuesAgainAtOnceWhenItsNodeIsDeleted(t *testing.T) {
	server, bed := newServer(t)
	q := newQueue(t, bed.Client(t), "/lock")
	watched(t, q)
	other := bed.Client(t)
	theirs := foreign(t, other, "/lock")
	mine := acquiring(t, testbed.Context(t), q, server, 2)
	old := own(t, q, 1)
	release(t, other, old)
	testbed.Eventually(t, func() bool {
		children, _ := server.Children("/lock")
		return len(children) == 2 && !server.Exists(old)
	}, "it is in the queue again, behind the same holder")
	require.NoError(t, other.Delete(testbed.Context(t), theirs))
	require.NoError(t, received(t, mine).Release())
}

// TestViewIsGivenUpWhenItCostsMoreThanLists has other clients acquire and release while this one
// waits.
func TestViewIsGivenUpWhenItCostsMoreThanLists(t *testing.T) {
	server, bed := newServer(t)
	q := newQueue(t, bed.Client(t), "/lock")
	watched(t, q)
	other := bed.Client(t)
	theirs := foreign(t, other, "/lock")
	mine := acquiring(t, testbed.Context(t), q, server, 2)
	for range 2000 {
		if !q.Viewed() {
			break
		}
		require.NoError(t, other.Delete(testbed.Context(t), foreign(t, other, "/lock")))
	}
	require.False(t, q.Viewed())
	require.NoError(t, other.Delete(testbed.Context(t), theirs))
	require.NoError(t, received(t, mine).Release())
	require.NoError(t, acquire(t, q).Release())
	require.False(t, q.Viewed(), "not again at once")
}

func TestViewsOfIdleLocksAreGivenUp(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		for i := range 200 { // used once
			require.NoError(t, acquire(t, newQueue(t, client, fmt.Sprint("/once/", i))).Release())
		}
		require.Zero(t, w.Server.WatchCount(), "nothing for a lock that is used once")
		var often []*lock.Queue
		for i := range 200 {
			q := newQueue(t, client, fmt.Sprint("/often/", i))
			for range 3 {
				require.NoError(t, acquire(t, q).Release())
			}
			often = append(often, q)
		}
		synctest.Wait()
		require.NotZero(t, w.Server.WatchCount())
		time.Sleep(5 * time.Second) // virtual time, in which the views are not used
		held := acquire(t, often[0])
		time.Sleep(30 * time.Second) // virtual time, as below: longer than an unused view is kept
		synctest.Wait()
		require.True(t, often[0].Viewed(), "somebody holds")
		require.False(t, often[1].Viewed())
		require.NoError(t, held.Release())
		time.Sleep(30 * time.Second) // virtual time
		synctest.Wait()
		require.Zero(t, w.Server.WatchCount())
	})
}

func TestQueuesOfOnePathShareAView(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		watched(t, newQueue(t, client, "/lock"))
		synctest.Wait()
		w.Server.ResetCounts()
		for range 20 {
			// a Queue for each use
			require.NoError(t, acquire(t, newQueue(t, client, "/lock")).Release())
		}
		require.Equal(t, map[string]int{"create": 20, "delete": 20}, counted(w.Server))
	})
}

// TestDriversOfUsersGoThroughTheView is about drivers that cannot be compared, too.
func TestDriversOfUsersGoThroughTheView(t *testing.T) {
	for name, driver := range map[string]lock.Driver{
		"comparable":               struct{ lock.Standard }{},
		"not comparable":           sliceDriver{names: []string{"x"}},
		"not comparable after all": anyDriver{any: []int{1}},
		"not equal to itself":      anyDriver{any: math.NaN()},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			q := driven(w.Client(), driver)
			watched(t, q)
			synctest.Wait()
			w.Server.ResetCounts()
			for range 20 {
				require.NoError(t, acquire(t, q).Release())
			}
			require.Equal(t, map[string]int{"create": 20, "delete": 20}, counted(w.Server))
		})
	}
}

type sliceDriver struct {
	lock.Standard
	names []string
}

type anyDriver struct {
	lock.Standard
	any
}

// TestTryOnAHeldLockAsksOnce, and writes nothing: a view alone is no proof that another client holds.
func TestTryOnAHeldLockAsksOnce(t *testing.T) {
	for name, view := range map[string]bool{"with a view": true, "without a view": false} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			q, other := newQueue(t, w.Client(), "/lock"), w.Client()
			if view {
				watched(t, q)
			}
			held := foreign(t, other, "/lock")
			synctest.Wait()
			for range 3 {
				w.Server.ResetCounts()
				refused(t, q)
				require.Equal(t, map[string]int{"getChildren2": 1}, counted(w.Server))
				if !view {
					break // the second try may begin a view
				}
			}
			release(t, other, held)
		})
	}
}

// TestSeveralLeasesWakeNoHerd: with more leases than are watched one by one.
func TestSeveralLeasesWakeNoHerd(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := newQueue(t, w.Client(), "/lock", lock.WithMaxLeases(6))
		var first []*lock.Hold
		for range 6 {
			first = append(first, acquire(t, q))
		}
		ctx := testbed.Context(t)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if hold, err := q.Acquire(ctx); err == nil {
					_ = hold.Release()
				}
			})
		}
		length(t, w.Server, q, 106)
		w.Server.ResetCounts()
		for _, hold := range first {
			require.NoError(t, hold.Release())
		}
		wg.Wait()
		require.Less(t, counted(w.Server)["getChildren2"], 10)
		length(t, w.Server, q, 0)
	})
}

// TestServersLikeKeeper: the parents are persistent, and contenders list. No session is lost by it.
func TestServersLikeKeeper(t *testing.T) {
	for _, age := range []string{"old", "recent", "new", "newest"} {
		testbed.RunWorld(t, age, func(t *testing.T, w *testbed.World) {
			first := w.Client()
			session := testbed.Session(t, first)
			a, b := newQueue(t, first, "/lock"), newQueue(t, w.Client(), "/lock")
			for range 20 {
				hold := acquire(t, a)
				mine := acquiring(t, testbed.Context(t), b, w.Server, 2)
				blocked(t, mine)
				require.NoError(t, hold.Release())
				require.NoError(t, received(t, mine).Release())
			}
			require.NoError(t, session.Err())
			require.Equal(t, "/lock \"\"\n", w.Server.Tree())
		}, zktest.LikeKeeper(age))
	}
}

// TestAcquireDoesNotOutliveItsContextInAnOutage: giving up waits for no server that is out of
// reach.
func TestAcquireDoesNotOutliveItsContextInAnOutage(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client, other := w.Client(), w.Client()
		hold := acquire(t, newQueue(t, other, "/lock"))
		began := time.Now()
		done := start(testbed.Timeout(t, 500*time.Millisecond), newQueue(t, client, "/lock").Acquire)
		synctest.Wait()
		w.Server.Stop()
		require.ErrorIs(t, (<-done).err, context.DeadlineExceeded)
		require.LessOrEqual(t, time.Since(began), 500*time.Millisecond)
		require.NoError(t, w.Server.Restart())
		_ = hold.Release()
		require.NoError(t, client.WaitConnected(t.Context()))
		time.Sleep(time.Minute) // virtual time, in which the node is deleted
		children, err := w.Server.Children("/lock")
		require.True(t, err != nil || len(children) == 0, "the node goes in the background: %v", children)
	})
}

// TestMaxHoldEndsAStuckHolder: the holder is notified that the connection is suspended, and does
// not release.
func TestMaxHoldEndsAStuckHolder(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		stuck := acquire(t, newQueue(t, w.Client(), "/lock", lock.WithMaxHold(200*time.Millisecond)))
		w.Server.CutConnections()
		testbed.Receive(t, stuck.Done(), "word of the suspension")
		require.NoError(t, acquire(t, newQueue(t, w.Client(), "/lock")).Release())
		err := stuck.Release()
		require.True(t, errors.Is(err, lock.ErrMaxHold) || errors.Is(err, framework.ErrSuspended), "%v", err)
	})
}

// TestNodeOfAStuckHolderIsDeletedByForce notifies the waiters behind it, in memory and on the
// server.
func TestNodeOfAStuckHolderIsDeletedByForce(t *testing.T) {
	for name, opts := range map[string][]lock.Option{"queue": nil, "retention": {lock.WithRetention(time.Hour)}} {
		t.Run(name, func(t *testing.T) {
			server, bed := newServer(t)
			client := bed.Client(t)
			q := newQueue(t, client, "/lock", opts...)
			stuck := acquire(t, q)
			next := start(testbed.Context(t), q.Acquire)
			server.CutConnections()
			testbed.Receive(t, stuck.Done(), "word of the suspension")
			testbed.CatchUp(t, client)
			require.NoError(t, bed.Client(t).Delete(testbed.Context(t), stuck.Path()))
			require.NoError(t, received(t, next).Release())
			require.Error(t, stuck.Release())
		})
	}
}

// TestReleaseFromTwoGoroutines: the node is passed on or deleted, not both.
func TestReleaseFromTwoGoroutines(t *testing.T) {
	server := zktest.NewServer(t)
	q := newQueue(t, testbed.On(server).Client(t), "/lock", lock.WithRetention(time.Millisecond))
	for range 300 {
		hold := acquire(t, q)
		next := make(chan result, 2)
		for range 2 {
			go func() { next <- <-start(testbed.Context(t), q.Acquire) }()
		}
		go func() { _ = hold.Release() }()
		_ = hold.Release()
		first := received(t, next)
		require.Empty(t, next, "two holders")
		require.NoError(t, first.Err())
		require.NoError(t, first.Release())
		require.NoError(t, received(t, next).Release())
	}
}

// TestPathOfAnOperatorIsNotDeleted: numbers start again only for a path as this library creates it.
func TestPathOfAnOperatorIsNotDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		acl  []zk.ACL
		kept bool
	}{
		"like ours":   {data: []byte{}, acl: zk.WorldACL(zk.PermAll)},
		"with data":   {data: []byte("do not delete"), acl: zk.WorldACL(zk.PermAll), kept: true},
		"with an ACL": {data: []byte{}, acl: zk.WorldACL(zk.PermAll &^ zk.PermAdmin), kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			client := testbed.On(server).Client(t)
			testbed.Create(t, client, "/lock", c.data, framework.ACL(c.acl))
			require.NoError(t, server.SetSequence("/lock", 1<<30))
			require.NoError(t, acquire(t, newQueue(t, client, "/lock")).Release())
			require.Equal(t, c.kept, server.Exists("/lock"))
		})
	}
}

// TestManyLeasesThatNobodyElseMayRead: the deletion of an unreadable node causes no event, except
// for a change of the list of children.
func TestManyLeasesThatNobodyElseMayRead(t *testing.T) {
	server, bed := newServer(t)
	require.NoError(t, server.Create("/lock", []byte("an operator's")))
	secret := bed.Client(t, framework.WithAuth("digest", []byte("user:password")))
	var nodes []string
	for range 5 { // more than are watched one by one
		nodes = append(nodes, secretNode(t, secret))
	}
	q := newQueue(t, bed.Client(t), "/lock", lock.WithMaxLeases(5))
	mine := acquiring(t, testbed.Context(t), q, server, 6)
	blocked(t, mine)
	require.NoError(t, secret.Delete(testbed.Context(t), nodes[2]))
	require.NoError(t, received(t, mine).Release())
}

// TestAContextThatIsDoneEndsWhatAViewCouldAnswer, each time.
func TestAContextThatIsDoneEndsWhatAViewCouldAnswer(t *testing.T) {
	q := newQueue(t, testbed.InProcess(t).Client(t), "/lock")
	watched(t, q)
	for range 100 {
		require.ErrorIs(t, testbed.Err(q.Participants(testbed.Cancelled(t))), context.Canceled)
	}
}
