package lock_test

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// TestLossWhileAHoldBegins has both the node deleted and the connection lost while a hold begins.
func TestLossWhileAHoldBegins(t *testing.T) {
	server := zktest.NewServer(t)
	err := acquire(t, newQueue(t, testbed.On(server).Client(t), "/lock")).HoldAgainWhileLost(func() {
		running(t, "lock.(*node).begin")
		server.CutConnections()
		running(t, "lock.(*term).lose")
	})
	require.ErrorIs(t, err, lock.ErrNodeDeleted)
}

// running waits until a goroutine is in a function.
func running(t *testing.T, function string) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), function)
	}, function)
}

// TestGroupEndsBeforeAReleaseIsSent: the observer is called after the context has ended, and before
// the delete is sent.
func TestGroupEndsBeforeAReleaseIsSent(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // other goroutines do not run by chance
	var group *lock.Group
	live := make(chan bool, 1)
	client := testbed.InProcess(t).Client(t, lock.WithObserver(lock.Observer{Ended: func(context.Context, lock.EndedEvent) {
		select {
		case live <- group.Err() == nil:
		default: // the other hold
		}
	}}))
	first, second := acquire(t, newQueue(t, client, "/a")), acquire(t, newQueue(t, client, "/b"))
	group = lock.NewGroup([]*lock.Hold{first, second})
	require.NoError(t, first.Release())
	require.False(t, <-live, "the group outlives its hold")
	require.ErrorIs(t, group.Err(), lock.ErrReleased)
	require.ErrorIs(t, group.Release(), lock.ErrReleased)

	require.ErrorIs(t, lock.NewGroup([]*lock.Hold{first}).Err(), lock.ErrReleased, "it has ended before")
}

// TestGroupOfAHoldThatEndsMeanwhile: a hold ends while it is put into a group.
func TestGroupOfAHoldThatEndsMeanwhile(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	first, second := acquire(t, newQueue(t, client, "/a")), acquire(t, newQueue(t, client, "/b"))
	var made <-chan *lock.Group
	first.EndDuring(func() {
		made = testbed.Go(func() *lock.Group { return lock.NewGroup([]*lock.Hold{first, second}) })
		running(t, "(*Hold).endsWith")
	})
	group := testbed.Receive(t, made, "the group")
	require.ErrorIs(t, group.Err(), lock.ErrReleased)
	require.NoError(t, second.Err())
	require.NoError(t, group.Release())
}

// TestContextsOfAHoldThatIsBeingReleasedEndFirst lets the time of WithMaxHold pass while one of two
// holds of a lease is being released. The next holder is alone. (Seed 3119 of the simulation.)
func TestContextsOfAHoldThatIsBeingReleasedEndFirst(t *testing.T) {
	// Whether the release is in flight when the lease ends depends on the machine.
	leads := []time.Duration{10, 30, 2, 60}
	for _, lead := range testlevel.Pick(leads[:2], leads, leads) {
		releasedWhileTheLeaseEnds(t, lead*time.Millisecond)
	}
}

func releasedWhileTheLeaseEnds(t *testing.T, lead time.Duration) {
	t.Helper()
	const d = 500 * time.Millisecond
	bed := testbed.InProcess(t)
	q, other := newQueue(t, bed.Client(t), "/lock", lock.WithMaxHold(d), lock.WithReentry()), newQueue(t, bed.Client(t), "/lock")
	outer := acquire(t, q)
	began := time.Now()
	inner := acquireIn(t, outer.Context(), q)
	work := make([]context.Context, 40_000) // they end one after the other
	for i := range work {
		ctx, cancel := context.WithCancel(inner.Context())
		defer cancel()
		work[i] = ctx
	}
	next := testbed.Go(func() (live int) {
		h, err := other.Acquire(testbed.Context(t))
		for _, ctx := range work {
			if ctx.Err() == nil {
				live++
			}
		}
		if err != nil {
			return -1
		}
		_ = h.Release()
		return live
	})
	time.Sleep(d - time.Since(began) - lead) // real time: the limit of WithMaxHold
	_ = inner.Release()
	require.Zero(t, testbed.Receive(t, next, "the next hold"))
	_ = outer.Release()
}

// TestDoSaysThatTheHoldWasLost: a function that only says that its context is done hides why.
func TestDoSaysThatTheHoldWasLost(t *testing.T) {
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		returns func(ctx context.Context) error
		want    []error
	}{
		"the error of the context": {context.Context.Err, []error{context.Canceled, framework.ErrSuspended}},
		"its cause":                {context.Cause, []error{framework.ErrSuspended}},
		"another error":            {func(context.Context) error { return failed }, []error{failed, framework.ErrSuspended}},
		// No other client has held in between: see Release.
		"nothing": {func(context.Context) error { return nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			first, second := newQueue(t, testbed.On(server).Client(t), "/a"), newQueue(t, testbed.On(server).Client(t), "/b")
			work := func(ctx context.Context) error {
				server.CutConnections()
				testbed.Receive(t, ctx.Done(), "the loss")
				return c.returns(ctx)
			}
			one := first.Do(testbed.Context(t), work)
			group := lock.NewGroup([]*lock.Hold{acquire(t, second)}).Do(testbed.Context(t), work)
			for _, err := range []error{one, group} {
				if c.want == nil {
					require.NoError(t, err)
				}
				for _, want := range c.want {
					require.ErrorIs(t, err, want)
				}
			}
		})
	}
}

// TestRelease_OfACopy: go vet reports the copy. It is the same hold nevertheless: otherwise Release
// would return ErrReleased while the lock is held.
func TestRelease_OfACopy(t *testing.T) {
	bed := testbed.InProcess(t)
	q, other := newQueue(t, bed.Client(t), "/lock", lock.WithReentry()), newQueue(t, bed.Client(t), "/lock")
	hold := acquire(t, q)
	copied := new(lock.Hold)
	reflect.ValueOf(copied).Elem().Set(reflect.ValueOf(hold).Elem())
	require.NoError(t, copied.Do(testbed.Context(t), func(ctx context.Context) error {
		return acquireIn(t, copied.Context(), q).Release()
	}))
	require.ErrorIs(t, hold.Err(), lock.ErrReleased)
	require.ErrorIs(t, hold.Release(), lock.ErrReleased)
	require.NoError(t, acquire(t, other).Release(), "the lock is free")

	hold = acquire(t, q)
	reflect.ValueOf(copied).Elem().Set(reflect.ValueOf(hold).Elem())
	require.NoError(t, copied.Release())
	require.NoError(t, acquire(t, other).Release(), "the lock is free")
}

// TestReleaseWith_OfALostHoldDoesNotWaitForARelease has another goroutine release the hold while no
// server can be reached, which takes as long as the session lasts.
func TestReleaseWith_OfALostHoldDoesNotWaitForARelease(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		hold := acquire(t, newQueue(t, w.Client(), "/lock"))
		w.Server.RefuseConnections(true)
		w.Server.CutConnections()
		testbed.Receive(t, hold.Done(), "word of the loss")
		released := testbed.Go(hold.Release)
		synctest.Wait()
		began := time.Now()
		require.ErrorIs(t, testbed.Err(hold.ReleaseWith(testbed.Timeout(t, time.Second))), framework.ErrSuspended)
		require.LessOrEqual(t, time.Since(began), time.Second)
		w.Server.RefuseConnections(false)
		require.NoError(t, testbed.Receive(t, released, "the release"))
	})
}

// TestReleaseWith_OfALostHoldLeavesTheNodeToOthers has a holder that re-entered release after a
// loss of the connection, while its other hold is not released: its work may continue.
func TestReleaseWith_OfALostHoldLeavesTheNodeToOthers(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := newQueue(t, w.Client(), "/lock", lock.WithReentry())
		outer := acquire(t, q)
		inner := acquireIn(t, outer.Context(), q)
		w.Server.CutConnections()
		testbed.Receive(t, outer.Done(), "word of the loss")
		require.ErrorIs(t, testbed.Err(outer.ReleaseWith(t.Context())), framework.ErrSuspended)
		time.Sleep(time.Minute) // virtual time
		length(t, w.Server, q, 1)
		require.NoError(t, inner.Release())
		length(t, w.Server, q, 0)
	})
}
