package lock_test

import (
	"context"
	"errors"
	"fmt"
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
func foreign(t *testing.T, client *framework.Client, path string) string {
	t.Helper()
	node, err := client.Create(testbed.Context(t), path+"/lock-", nil, framework.As(framework.EphemeralSequential), framework.Protected(), framework.ContainerParents())
	require.NoError(t, err)
	return node
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
			released := make(chan error, 1)
			go func() { released <- hold.Release() }()
			testbed.Eventually(t, func() bool { children, _ := w.Server.Children("/lock"); return len(children) == 0 }, "the node goes")
			// as a server does with an empty container
			_ = other.Delete(testbed.Context(t), "/lock")
			theirs := foreign(t, other, "/lock")
			mine := acquiring(t, testbed.Context(t), q, w.Server, 2)
			blocked(t, mine)
			require.NoError(t, other.Delete(testbed.Context(t), theirs))
			got := testbed.Receive(t, mine, "the lock")
			require.NoError(t, got.err)
			require.NoError(t, got.hold.Release())
			require.NoError(t, testbed.Receive(t, released, "the release"))
		}
	})
}

// TestViewThatMissedANodeIsNotAsked is about a node that the client may not read: servers send no
// event of it. The numbers show that it exists.
func TestViewThatMissedANodeIsNotAsked(t *testing.T) {
	for name, created := range map[string]int32{"few numbers": 5, "where Cversion turns negative": 1<<30 + 5} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			bed := testbed.On(server)
			client := bed.Client(t)
			_, err := client.Create(testbed.Context(t), "/lock", []byte("an operator's, so numbers do not start again"))
			require.NoError(t, err)
			require.NoError(t, server.SetSequence("/lock", created))
			q := newQueue(t, client, "/lock")
			watched(t, q)
			secret := bed.Client(t, framework.WithAuth("digest", []byte("user:password")))
			node, err := secret.Create(testbed.Context(t), "/lock/lock-", nil, framework.As(framework.EphemeralSequential), framework.Protected(),
				framework.ACL(zk.DigestACL(zk.PermAll, "user", "password")))
			require.NoError(t, err)
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
		got := testbed.Receive(t, mine, "the lock")
		require.NoError(t, got.err)
		require.NoError(t, got.hold.Release())
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
			node, err := secret.Create(testbed.Context(t), "/lock/lock-", nil, framework.As(framework.EphemeralSequential), framework.Protected(),
				framework.ContainerParents(), framework.ACL(zk.DigestACL(zk.PermAll, "user", "password")))
			require.NoError(t, err)
			_, err = q.TryAcquire(testbed.Context(t))
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			_, err = q.Acquire(testbed.Context(t))
			require.ErrorIs(t, err, zk.ErrNoAuth)
			require.NoError(t, secret.Delete(testbed.Context(t), node))
			hold, err := acquire(q, testbed.Context(t))
			require.NoError(t, err)
			require.NoError(t, hold.Release())
		})
	}
}

// TestNodeThatComesAheadOfOursIsSeen is a downgrade at the level of nodes: a node with a lower
// number is created later.
func TestNodeThatComesAheadOfOursIsSeen(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	q := newQueue(t, bed.Client(t), "/lock")
	watched(t, q)
	other := bed.Client(t)
	first := foreign(t, other, "/lock")
	_, name := framework.Split(first)
	mine := acquiring(t, testbed.Context(t), q, server, 2)
	number := name[len(name)-10:]
	inPlace, err := other.Create(testbed.Context(t), "/lock/lock-"+number, nil, framework.As(framework.Ephemeral), framework.Protected())
	require.NoError(t, err)
	require.NoError(t, other.Delete(testbed.Context(t), first))
	blocked(t, mine)
	require.NoError(t, other.Delete(testbed.Context(t), inPlace))
	got := testbed.Receive(t, mine, "the lock")
	require.NoError(t, got.err)
	require.NoError(t, got.hold.Release())
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
	server := zktest.NewServer(t)
	bed := testbed.On(server)
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
	got := testbed.Receive(t, mine, "the lock")
	require.NoError(t, got.err)
	require.NoError(t, got.hold.Release())
}

func TestHolderInAViewLearnsThatItsNodeWasDeleted(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
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
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	q := newQueue(t, bed.Client(t), "/lock")
	watched(t, q)
	other := bed.Client(t)
	theirs := foreign(t, other, "/lock")
	mine := acquiring(t, testbed.Context(t), q, server, 2)
	children, err := server.Children("/lock")
	require.NoError(t, err)
	var old string
	for _, child := range children {
		if "/lock/"+child != theirs {
			old = child
		}
	}
	require.NoError(t, other.Delete(testbed.Context(t), "/lock/"+old))
	testbed.Eventually(t, func() bool {
		children, _ := server.Children("/lock")
		return len(children) == 2 && !server.Exists("/lock/"+old)
	}, "it is in the queue again, behind the same holder")
	require.NoError(t, other.Delete(testbed.Context(t), theirs))
	got := testbed.Receive(t, mine, "the lock")
	require.NoError(t, got.err)
	require.NoError(t, got.hold.Release())
}

// TestViewIsGivenUpWhenItCostsMoreThanLists has other clients acquire and release while this one
// waits.
func TestViewIsGivenUpWhenItCostsMoreThanLists(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
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
	got := testbed.Receive(t, mine, "the lock")
	require.NoError(t, got.err)
	require.NoError(t, got.hold.Release())
	require.NoError(t, acquire(t, q).Release())
	require.False(t, q.Viewed(), "not again at once")
}

func TestViewsOfIdleLocksAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client := memoryClient(t, server)
		for i := range 200 { // used once
			require.NoError(t, acquire(t, newQueue(t, client, fmt.Sprint("/once/", i))).Release())
		}
		require.Zero(t, server.WatchCount(), "nothing for a lock that is used once")
		var often []*lock.Queue
		for i := range 200 {
			q := newQueue(t, client, fmt.Sprint("/often/", i))
			for range 3 {
				require.NoError(t, acquire(t, q).Release())
			}
			often = append(often, q)
		}
		synctest.Wait()
		require.NotZero(t, server.WatchCount())
		time.Sleep(5 * time.Second) // virtual time, in which the views are not used
		held := acquire(t, often[0])
		time.Sleep(30 * time.Second) // virtual time, as below: longer than an unused view is kept
		synctest.Wait()
		require.True(t, often[0].Viewed(), "somebody holds")
		require.False(t, often[1].Viewed())
		require.NoError(t, held.Release())
		time.Sleep(30 * time.Second) // virtual time
		synctest.Wait()
		require.Zero(t, server.WatchCount())
	})
}

// memoryClient is a client in virtual time.
func memoryClient(t *testing.T, server *zktest.Server) *framework.Client {
	t.Helper()
	client, err := framework.New([]string{server.Addr()}, framework.WithDialer(server.DialContext), framework.WithSessionTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	require.NoError(t, client.WaitConnected(t.Context()))
	return client
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
	for name, driver := range map[string]lock.Driver{"comparable": struct{ lock.Standard }{}, "not": sliceDriver{names: []string{"x"}}} {
		t.Run(name, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
				q, err := lock.New(w.Client(), "/lock", "lock-", driver)
				require.NoError(t, err)
				watched(t, q)
				synctest.Wait()
				w.Server.ResetCounts()
				for range 20 {
					require.NoError(t, acquire(t, q).Release())
				}
				require.Equal(t, map[string]int{"create": 20, "delete": 20}, counted(w.Server))
			})
		})
	}
}

type sliceDriver struct {
	lock.Standard
	names []string
}

// TestTryOnAHeldLockAsksOnce: a view alone is no proof that another client holds.
func TestTryOnAHeldLockAsksOnce(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := newQueue(t, w.Client(), "/lock")
		watched(t, q)
		other := w.Client()
		held := foreign(t, other, "/lock")
		_, err := q.TryAcquire(testbed.Context(t))
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		synctest.Wait()
		w.Server.ResetCounts()
		for range 3 {
			_, err := q.TryAcquire(testbed.Context(t))
			require.ErrorIs(t, err, lock.ErrNotAcquired)
		}
		require.Equal(t, map[string]int{"getChildren2": 3}, counted(w.Server))
		release(t, other, held)
	})
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
	for name, age := range map[string]string{
		"old": "old", "recent": "recent", "new": "new", "newest": "newest",
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
				first := w.Client()
				session, err := first.Session(testbed.Context(t))
				require.NoError(t, err)
				a, b := newQueue(t, first, "/lock"), newQueue(t, w.Client(), "/lock")
				for range 20 {
					hold := acquire(t, a)
					mine := acquiring(t, testbed.Context(t), b, w.Server, 2)
					blocked(t, mine)
					require.NoError(t, hold.Release())
					got := testbed.Receive(t, mine, "the lock")
					require.NoError(t, got.err)
					require.NoError(t, got.hold.Release())
				}
				require.NoError(t, session.Err())
				require.Equal(t, "/lock \"\"\n", w.Server.Tree())
			}, zktest.LikeKeeper(age))
		})
	}
}

// TestTimedOutInTheQueueIsNotAcquired: the caller can distinguish a lock that others hold from
// servers out of reach.
func TestTimedOutInTheQueueIsNotAcquired(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		hold := acquire(t, newQueue(t, w.Client(), "/lock"))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := newQueue(t, w.Client(), "/lock").Acquire(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "acquire /lock: not free: context deadline exceeded")
		require.NoError(t, hold.Release())
	})
}

// TestAcquireDoesNotOutliveItsContextInAnOutage: giving up waits for no server that is out of
// reach.
func TestAcquireDoesNotOutliveItsContextInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client, other := memoryClient(t, server), memoryClient(t, server)
		hold := acquire(t, newQueue(t, other, "/lock"))
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		began := time.Now()
		done := make(chan error, 1)
		go func() {
			_, err := newQueue(t, client, "/lock").Acquire(ctx)
			done <- err
		}()
		synctest.Wait()
		server.Stop()
		err := <-done
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, time.Since(began), 500*time.Millisecond)
		require.NoError(t, server.Restart())
		_ = hold.Release()
		require.NoError(t, client.WaitConnected(t.Context()))
		time.Sleep(time.Minute) // virtual time, in which the node is deleted
		children, err := server.Children("/lock")
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
			server := zktest.NewServer(t)
			bed := testbed.On(server)
			client := bed.Client(t)
			q := newQueue(t, client, "/lock", opts...)
			stuck := acquire(t, q)
			next := make(chan result, 1)
			go func() {
				hold, err := q.Acquire(testbed.Context(t))
				next <- result{hold, err}
			}()
			server.CutConnections()
			testbed.Receive(t, stuck.Done(), "word of the suspension")
			testbed.CatchUp(t, client)
			require.NoError(t, bed.Client(t).Delete(testbed.Context(t), stuck.Path()))
			got := testbed.Receive(t, next, "the lock")
			require.NoError(t, got.err)
			require.NoError(t, got.hold.Release())
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
			go func() {
				hold, err := q.Acquire(testbed.Context(t))
				next <- result{hold, err}
			}()
		}
		go func() { _ = hold.Release() }()
		_ = hold.Release()
		first := testbed.Receive(t, next, "the lock")
		require.NoError(t, first.err)
		select {
		case <-next:
			t.Fatal("two holders")
		default:
		}
		require.NoError(t, first.hold.Err())
		require.NoError(t, first.hold.Release())
		second := testbed.Receive(t, next, "the lock")
		require.NoError(t, second.err)
		require.NoError(t, second.hold.Release())
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
			_, err := client.Create(testbed.Context(t), "/lock", c.data, framework.ACL(c.acl))
			require.NoError(t, err)
			require.NoError(t, server.SetSequence("/lock", 1<<30))
			require.NoError(t, acquire(t, newQueue(t, client, "/lock")).Release())
			require.Equal(t, c.kept, server.Exists("/lock"))
		})
	}
}

// withField is a driver that cannot be compared because of what its field holds.
type withField struct {
	lock.Standard
	field any
}

// TestDriversNeedNotBeComparable: a view sorts the children for each of them.
func TestDriversNeedNotBeComparable(t *testing.T) {
	client := testbed.On(zktest.NewServer(t)).Client(t)
	for _, field := range []any{1, "text", []int{1}} {
		q, err := lock.New(client, "/lock", "lock-", withField{field: field})
		require.NoError(t, err)
		watched(t, q)
		require.NoError(t, acquire(t, q).Release())
	}
}

// TestManyLeasesThatNobodyElseMayRead: the deletion of an unreadable node causes no event, except
// for a change of the list of children.
func TestManyLeasesThatNobodyElseMayRead(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	require.NoError(t, server.Create("/lock", []byte("an operator's")))
	secret := bed.Client(t, framework.WithAuth("digest", []byte("user:password")))
	var nodes []string
	for range 5 { // more than are watched one by one
		node, err := secret.Create(testbed.Context(t), "/lock/lock-", nil, framework.As(framework.EphemeralSequential), framework.Protected(),
			framework.ACL(zk.DigestACL(zk.PermAll, "user", "password")))
		require.NoError(t, err)
		nodes = append(nodes, node)
	}
	q := newQueue(t, bed.Client(t), "/lock", lock.WithMaxLeases(5))
	mine := acquiring(t, testbed.Context(t), q, server, 6)
	blocked(t, mine)
	require.NoError(t, secret.Delete(testbed.Context(t), nodes[2]))
	got := testbed.Receive(t, mine, "the lease")
	require.NoError(t, got.err)
	require.NoError(t, got.hold.Release())
}

// TestAContextThatIsDoneEndsWhatAViewCouldAnswer, each time.
func TestAContextThatIsDoneEndsWhatAViewCouldAnswer(t *testing.T) {
	q := newQueue(t, testbed.InProcess(t).Client(t), "/lock")
	watched(t, q)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		_, err := q.Participants(ctx)
		require.ErrorIs(t, err, context.Canceled)
	}
}
