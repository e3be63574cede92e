package lock_test

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// newServer returns an in-process server, and a bed on it.
func newServer(t *testing.T) (*zktest.Server, *testbed.Bed) {
	t.Helper()
	server := zktest.NewServer(t)
	return server, testbed.On(server)
}

func acquire(t *testing.T, q *lock.Queue) *lock.Hold {
	t.Helper()
	return acquireIn(t, testbed.Context(t), q)
}

// acquireIn is acquire with a context that matters.
func acquireIn(t *testing.T, ctx context.Context, q *lock.Queue) *lock.Hold {
	t.Helper()
	h, err := q.Acquire(ctx)
	require.NoError(t, err)
	return h
}

// acquireAndRelease is for a goroutine of a test.
func acquireAndRelease(ctx context.Context, t *testing.T, q *lock.Queue) {
	hold, err := q.Acquire(ctx)
	if assert.NoError(t, err) {
		assert.NoError(t, hold.Release())
	}
}

// try returns the hold of a TryAcquire.
func try(t *testing.T, q *lock.Queue) *lock.Hold {
	t.Helper()
	hold, err := q.TryAcquire(testbed.Context(t))
	require.NoError(t, err)
	return hold
}

// refused requires that TryAcquire finds another contender ahead.
func refused(t *testing.T, q *lock.Queue) {
	t.Helper()
	require.ErrorIs(t, testbed.Err(q.TryAcquire(testbed.Context(t))), lock.ErrNotAcquired)
}

type result struct {
	hold *lock.Hold
	err  error
}

// start calls an Acquire or a TryAcquire in a goroutine.
func start(ctx context.Context, acquire func(context.Context) (*lock.Hold, error)) <-chan result {
	return testbed.Go(func() result {
		hold, err := acquire(ctx)
		return result{hold, err}
	})
}

// acquiring begins an Acquire and returns when its node is the nth in the queue.
func acquiring(t *testing.T, ctx context.Context, q *lock.Queue, server *zktest.Server, n int) <-chan result {
	t.Helper()
	done := start(ctx, q.Acquire)
	length(t, server, q, n)
	return done
}

// received returns the hold of an acquire that has begun.
func received(t *testing.T, acquired <-chan result) *lock.Hold {
	t.Helper()
	got := testbed.Receive(t, acquired, "the lock")
	require.NoError(t, got.err)
	return got.hold
}

// acquiredAt acquires and releases in a goroutine, and returns when it acquired.
func acquiredAt(t *testing.T, ctx context.Context, q *lock.Queue) <-chan time.Time {
	return testbed.Go(func() time.Time {
		hold, err := q.Acquire(ctx)
		acquired := time.Now()
		if assert.NoError(t, err) {
			assert.NoError(t, hold.Release())
		}
		return acquired
	})
}

// patientClient returns a client that trusts its session for as long as it may.
func patientClient(t *testing.T, timeout time.Duration, servers []string, opts ...framework.Option) *framework.Client {
	t.Helper()
	client := testbed.NewClient(t, servers, append(opts, framework.WithSessionTimeout(timeout),
		framework.WithErrorPolicy(connstate.LostEndsHold), framework.WithRetryPolicy(retry.Forever(100*time.Millisecond)))...)
	require.NoError(t, client.WaitConnected(testbed.Context(t)))
	return client
}

// length waits until the queue has n nodes.
func length(t *testing.T, server *zktest.Server, q *lock.Queue, n int) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		children, err := server.Children(q.Path())
		return n == 0 && err != nil || len(children) == n
	}, fmt.Sprintf("%d nodes in the queue", n))
}

// TestAThousandWaitersInOneProcess: waiters that share a view send nothing beside the create and the
// delete of their nodes.
func TestAThousandWaitersInOneProcess(t *testing.T) { // CURATOR-716
	for name, view := range map[string]bool{"with a view": true, "without a view": false} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			q := newQueue(t, w.Client(), "/lock")
			if view {
				watched(t, q)
			}
			first := acquire(t, q)
			synctest.Wait()
			w.Server.ResetCounts()
			const n = 1000
			ctx := testbed.Context(t)
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() { acquireAndRelease(ctx, t, q) })
			}
			length(t, w.Server, q, n+1)
			if !view {
				w.Server.ResetCounts()
			}
			require.NoError(t, first.Release())
			wg.Wait()
			if view {
				require.Equal(t, map[string]int{"create": n, "delete": n + 1}, counted(w.Server))
			} else {
				assert.LessOrEqual(t, w.Server.Requests().WatchEventsSent, n+1, "one event for each node, whoever waits for it")
			}
			length(t, w.Server, q, 0)
		})
	}
}

func TestWaiterIsNotWokenByAStranger(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		a, b := newQueue(t, client, "/lock"), newQueue(t, w.Client(), "/lock")
		hold := acquire(t, a)
		waiting := acquiring(t, testbed.Context(t), b, w.Server, 2)
		time.Sleep(100 * time.Millisecond) // virtual time, after which a holder without a view watches its node
		require.Equal(t, 3, w.Server.WatchCount(), "both watch the node of a, and b its own")
		w.Server.ResetCounts()
		testbed.Set(t, client, hold.Path(), []byte("something else"))
		time.Sleep(100 * time.Millisecond) // virtual time, in which they watch again
		require.Equal(t, 3, w.Server.WatchCount(), "both watch again")
		require.Zero(t, w.Server.Requests().Requests["getChildren2"], "the queue is the same")
		require.NoError(t, hold.Release())
		require.NoError(t, received(t, waiting).Release())
	})
}

func TestCancelledWhileTheCreateIsInFlight(t *testing.T) { // CURATOR-79, -205, etcd 10111
	for name, block := range map[string]func(*zktest.Server, ...zktest.Match) *zktest.Gate{
		"before it is applied":  (*zktest.Server).Block,
		"before it is answered": (*zktest.Server).BlockReplies,
	} {
		t.Run(name, func(t *testing.T) {
			server, bed := newServer(t)
			q := newQueue(t, bed.Client(t), "/lock")
			require.NoError(t, acquire(t, q).Release()) // the path exists
			gate := block(server, zktest.OnOp("create"))
			ctx, cancel := context.WithCancelCause(t.Context())
			done := start(ctx, q.Acquire)
			testbed.Receive(t, gate.Arrived(), "the create")
			cancel(assert.AnError)
			err := testbed.Receive(t, done, "the end of Acquire, at once").err
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, assert.AnError)
			gate.Open()
			require.NoError(t, acquire(t, newQueue(t, bed.Client(t), "/lock")).Release(), "the next one gets in")
			length(t, server, q, 0)
		})
	}
}

func TestContainerReapedUnderUs(t *testing.T) { // CURATOR-308, -180
	server := zktest.NewServer(t)
	q := newQueue(t, testbed.On(server).Client(t), "/a/b/lock")
	require.NoError(t, acquire(t, q).Release())
	gate := server.Block(zktest.OnOp("create"))
	done := start(testbed.Context(t), q.Acquire)
	testbed.Receive(t, gate.Arrived(), "the create")
	server.ReapContainers()
	require.Empty(t, server.Tree())
	gate.Open()
	got := received(t, done)
	require.Contains(t, server.Tree(), "/a/b \"\" container\n", "parents are containers again")
	require.NoError(t, got.Release())
}

func TestExhaustedNumbersAreRefused(t *testing.T) {
	for _, next := range []int32{math.MaxInt32, -1, math.MinInt32} {
		t.Run(fmt.Sprint(next), func(t *testing.T) {
			server := zktest.NewServer(t)
			q := newQueue(t, testbed.On(server).Client(t), "/lock")
			require.NoError(t, acquire(t, q).Release())
			require.NoError(t, server.SetSequence("/lock", next))
			require.ErrorIs(t, testbed.Err(q.Acquire(testbed.Context(t))), lock.ErrSequenceExhausted)
			length(t, server, q, 0)
			hold := acquire(t, q)
			require.True(t, strings.HasSuffix(hold.Path(), "-lock-0000000000"), "it has healed: the path was empty, and was made anew")
			require.NoError(t, hold.Release())
		})
	}
}

func TestSomebodyElsesExhaustedNumberIsRefused(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	q := newQueue(t, client, "/lock")
	for _, name := range []string{"x-lock-2147483647", "x-lock--000000001", "x-lock--2147483648"} {
		testbed.Create(t, client, "/lock/"+name, []byte{}, framework.ContainerParents())
		require.ErrorIs(t, testbed.Err(q.Acquire(testbed.Context(t))), lock.ErrSequenceExhausted, name)
		require.ErrorIs(t, testbed.Err(q.TryAcquire(testbed.Context(t))), lock.ErrSequenceExhausted, name)
		require.NoError(t, client.Delete(testbed.Context(t), "/lock/"+name))
	}
	length(t, server, q, 0)
}

func TestNumbersStartAgainBeforeTheyEnd(t *testing.T) {
	server, bed := newServer(t)
	q := newQueue(t, bed.Client(t), "/lock")
	require.NoError(t, acquire(t, q).Release())
	require.NoError(t, server.SetSequence("/lock", 1<<30))
	hold := acquire(t, q)
	waiting := acquiring(t, testbed.Context(t), newQueue(t, bed.Client(t), "/lock"), server, 2)
	require.NoError(t, hold.Release(), "not while somebody is in the queue")
	got := received(t, waiting)
	require.True(t, strings.HasSuffix(got.Path(), "-lock-1073741825"))
	require.NoError(t, got.Release())
	require.ErrorIs(t, testbed.Err(server.Children("/lock")), zktest.ErrNoNode)
	hold = acquire(t, q)
	require.True(t, strings.HasSuffix(hold.Path(), "-lock-0000000000"))
	require.NoError(t, hold.Release())
	require.NoError(t, server.SetSequence("/lock", 1<<30))
	require.NoError(t, testbed.Err(acquire(t, q).ReleaseWith(testbed.Context(t))))
	require.False(t, server.Exists("/lock"))
}

func TestMoreLeasesWakeWaitersAndFewerTakeNothingAway(t *testing.T) { // CURATOR-75
	server := zktest.NewServer(t)
	q := newQueue(t, testbed.On(server).Client(t), "/lock")
	hold := acquire(t, q)
	waiting := acquiring(t, testbed.Context(t), q, server, 2)
	testbed.Eventually(t, func() bool { return server.WatchCount() >= 1 }, "it waits")
	q.SetMaxLeases(2)
	got := received(t, waiting)
	q.SetMaxLeases(1)
	require.NoError(t, got.Err())
	require.NoError(t, hold.Release())
	refused(t, q)
	require.NoError(t, got.Release())
	q.SetMaxLeases(0)
	refused(t, q)
	waiting = acquiring(t, testbed.Context(t), q, server, 1)
	q.SetMaxLeases(1)
	require.NoError(t, received(t, waiting).Release())
	require.Equal(t, 1, q.MaxLeases())
}

func TestErrorPolicyDecidesWhetherASuspensionEndsAHold(t *testing.T) { // CUR-CST-17, consul 830
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	standard := acquire(t, newQueue(t, client, "/a"))
	patient := acquire(t, newQueue(t, client, "/b", lock.WithErrorPolicy(connstate.LostEndsHold)))
	server.CutConnections()
	testbed.Receive(t, standard.Done(), "word of the suspension")
	require.ErrorIs(t, standard.Err(), framework.ErrSuspended)
	require.NoError(t, client.WaitConnected(testbed.Context(t)))
	require.NoError(t, patient.Err(), "its session lives")
	require.NoError(t, patient.Release())
	require.NoError(t, standard.Release(), "nobody else has held meanwhile: the node was there")
	require.Empty(t, testbed.ServerChildren(t, server, "/a"), "and the node is gone all the same")
}

// TestReleaseAfterASuspensionDoesNotGuess: a missing node after an unanswered delete does not prove
// that the delete removed it.
func TestReleaseAfterASuspensionDoesNotGuess(t *testing.T) {
	server, bed := newServer(t)
	client := bed.Client(t)
	hold := acquire(t, newQueue(t, client, "/lock"))
	server.CutConnections()
	testbed.Receive(t, hold.Done(), "word of the suspension")
	require.NoError(t, client.WaitConnected(testbed.Context(t)))
	require.NoError(t, server.Delete(hold.Path()))
	theirs := acquire(t, newQueue(t, bed.Client(t), "/lock"))
	injected := server.Inject(zktest.FailBefore, 0, zktest.OnOp("delete"))
	require.ErrorIs(t, hold.Release(), framework.ErrSuspended, "another one has held")
	require.True(t, injected.Met())
	require.NoError(t, theirs.Release())
}

func TestReleaseOutlastsAnOutage(t *testing.T) { // CURATOR-202, -486
	server := zktest.NewServer(t)
	q := newQueue(t, testbed.On(server).Client(t), "/lock", lock.WithErrorPolicy(connstate.LostEndsHold))
	hold := acquire(t, q)
	gate := server.Block(zktest.OnOp("delete"))
	released := testbed.Go(hold.Release)
	testbed.Receive(t, gate.Arrived(), "the delete")
	require.ErrorIs(t, hold.Err(), lock.ErrReleased, "the holder hears of it first")
	server.Stop()
	gate.Open()
	require.NoError(t, server.Restart())
	require.NoError(t, testbed.Receive(t, released, "the release"))
	length(t, server, q, 0)
}

// TestHolderIsNotifiedBeforeTheNextOneCanHold cuts a holder off in virtual time, so that a
// thousandth of a second counts.
func TestHolderIsNotifiedBeforeTheNextOneCanHold(t *testing.T) { // CURATOR-206, -465, -247
	for _, timeout := range []time.Duration{4 * time.Second, 6 * time.Second, 10 * time.Second, 40 * time.Second} {
		for _, idle := range []time.Duration{0, time.Second, time.Minute} {
			name := fmt.Sprintf("session of %v, held for %v", timeout, idle)
			testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
				patient := []framework.Option{framework.WithSessionTimeout(timeout), framework.WithErrorPolicy(connstate.LostEndsHold)}
				hold := acquire(t, newQueue(t, w.Client(patient...), "/lock"))
				next := acquiredAt(t, t.Context(), newQueue(t, w.Client(patient...), "/lock"))
				time.Sleep(idle) // virtual time, in which nothing happens
				require.NoError(t, hold.Err(), "nothing has happened yet")
				w.Server.Freeze(hold.Session().ID())
				frozen := time.Now()
				<-hold.Done()
				lost := time.Now()
				require.ErrorIs(t, hold.Err(), framework.ErrSessionLost)
				require.GreaterOrEqual(t, lost.Sub(frozen), timeout/2, "not in a hurry either")
				require.True(t, lost.Before(<-next), "notified first")
			})
		}
	}
}

func TestHoldOfAnHourIsNotLost(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		hold := acquire(t, newQueue(t, w.Client(), "/lock"))
		time.Sleep(time.Hour) // virtual time: the length of the hold
		require.NoError(t, hold.Err())
		require.NoError(t, hold.Release())
	})
}

func TestSequenceIsTheNumberAtTheEndOfAName(t *testing.T) {
	for child, want := range map[string]int64{
		"_c_0-lock-0000000000": 0, "lock-2147483647": math.MaxInt32, "lock--000000001": -1, "lock--2147483648": math.MinInt32,
		"lock-lock-0000000007": 7, "lock-2147483648": math.MaxInt32, "lock-9999999999": math.MaxInt32,
		"lock-": -2, "lock-1": -2, "lock-00000000001": -2, "lock--2147483649": -2, "lock-+000000001": -2, "lock-000000000x": -2, "": -2, "other-0000000001": -2,
	} {
		n, ok := lock.Sequence(child, "lock-")
		if want == -2 {
			assert.False(t, ok, child)
		} else {
			assert.True(t, ok, child)
			assert.EqualValues(t, want, n, child)
		}
	}
}

// TestStandardDriverNeverOversleeps checks the claim of Decide's comment: whichever nodes ahead go,
// a waiter that would hold then is woken.
func TestStandardDriverNeverOversleeps(t *testing.T) {
	var children []string
	for own := range 11 {
		children = append(children, fmt.Sprintf("lock-%010d", own))
		for leases := 1; leases <= 5; leases++ {
			turn, err := lock.Standard{}.Decide(lock.Line{Children: children, Own: children[own], MaxLeases: leases})
			require.NoError(t, err)
			require.Equalf(t, own < leases, turn.Held, "at %d of %d leases", own, leases)
			for gone := uint(0); !turn.Held && gone < 1<<own; gone++ { // each bit is a node ahead
				holds := own-bits.OnesCount(gone) < leases
				woken := slices.ContainsFunc(turn.Watch, func(name string) bool {
					return gone&(1<<slices.Index(children, name)) != 0
				})
				require.Falsef(t, holds && !woken, "asleep: at %d of %d leases, watch %v, gone %b", own, leases, turn.Watch, gone)
			}
		}
	}
}

func FuzzForeignChildren(f *testing.F) {
	for _, name := range []string{"_c_", "_c_x", "lock-", "_c_-lock-9999999999", "lock--999999999", "\xff"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		key, ours := lock.Standard{}.SortKey(name, "lock-")
		if _, ok := lock.Sequence(name, "lock-"); ok != ours {
			t.Fatalf("%q is ours %v, and has a number %v", name, ours, ok)
		}
		if ours && len(key) < 10 {
			t.Fatalf("%q has the key %q", name, key)
		}
		if bare, id := framework.Unprotected(name); id == "" && bare != name {
			t.Fatalf("%q is not protected, and became %q", name, bare)
		}
	})
}
