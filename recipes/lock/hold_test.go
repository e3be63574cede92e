package lock_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
	"github.com/stretchr/testify/require"
)

// TestLossWhileAHoldBegins has both the node deleted and the connection lost while a hold begins.
func TestLossWhileAHoldBegins(t *testing.T) {
	server := zktest.NewServer(t)
	hold := acquire(t, newQueue(t, testbed.On(server).Client(t), "/lock"))
	err := hold.HoldAgainWhileLost(func() {
		running(t, "lock.(*node).begin")
		server.CutConnections()
		running(t, "lock.(*lease).lose")
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

// TestGroupEndsBeforeAReleaseIsSent: the observer is told after the holder, and before the delete is sent.
func TestGroupEndsBeforeAReleaseIsSent(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // other goroutines do not run by chance
	var group *lock.Group
	live := make(chan bool, 1)
	client := testbed.InProcess(t).Client(t, framework.WithObserver(framework.Observer{Ended: func(context.Context, framework.EndedEvent) {
		select {
		case live <- group.Err() == nil:
		default: // the other hold
		}
	}}))
	first, second := acquire(t, newQueue(t, client, "/a")), acquire(t, newQueue(t, client, "/b"))
	group, err := lock.NewGroup(first, second)
	require.NoError(t, err)
	require.NoError(t, first.Release())
	require.False(t, <-live, "the group outlives its hold")
	require.ErrorIs(t, group.Err(), lock.ErrReleased)
	require.ErrorIs(t, group.Release(), lock.ErrReleased)

	late, err := lock.NewGroup(first)
	require.NoError(t, err)
	require.ErrorIs(t, late.Err(), lock.ErrReleased, "it has ended before")
}

// TestGroupOfAHoldThatIsBeingReleased: Release is held up after it has ended the groups of its hold, and before it ends the hold.
func TestGroupOfAHoldThatIsBeingReleased(t *testing.T) {
	q := newQueue(t, testbed.InProcess(t).Client(t), "/lock")
	outer := acquire(t, q)
	inner, err := q.Acquire(outer.Context())
	require.NoError(t, err)
	before, err := lock.NewGroup(inner, outer)
	require.NoError(t, err)
	for range 200_000 { // contexts that end with the group, one after the other
		_, cancel := context.WithCancel(before.Context())
		defer cancel()
	}
	released := make(chan error, 1)
	go func() { released <- inner.Release() }()
	testbed.Receive(t, before.Done(), "the end of the group")
	group, err := lock.NewGroup(inner, outer)
	require.NoError(t, err)
	require.NoError(t, testbed.Receive(t, released, "the release"))
	require.ErrorIs(t, group.Err(), lock.ErrReleased)
	require.NoError(t, outer.Err(), "the lease is still held")
	require.NoError(t, outer.Release())
}
