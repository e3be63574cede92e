package lock_test

import (
	"context"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// TestLossWhileAHoldBegins has both the node deleted and the connection lost while a hold begins.
func TestLossWhileAHoldBegins(t *testing.T) {
	server := zktest.NewServer(t)
	hold := acquire(t, newQueue(t, testbed.On(server).Client(t), "/lock"))
	err := hold.HoldAgainWhileLost(func() {
		running(t, "lock.(*entry).begin")
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

// TestNamesOfDigitsAreLocks: the number that the server adds is not taken for a part of the name.
func TestNamesOfDigitsAreLocks(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	for _, name := range []string{"0", "1", "00", "7-", "-"} {
		q, err := lock.New(client, "/of-"+name, name, nil)
		require.NoError(t, err)
		for range 12 {
			require.NoError(t, acquire(t, q).Release(), name)
		}
	}
}

// TestDriverThatCannotBeComparedAfterAll has a type that can be compared, and a value that cannot, or is not equal to itself.
func TestDriverThatCannotBeComparedAfterAll(t *testing.T) {
	for _, value := range []any{[]int{1}, math.NaN()} {
		q, err := lock.New(testbed.InProcess(t).Client(t), "/lock", "lock-", struct {
			lock.Standard
			any
		}{any: value})
		require.NoError(t, err)
		watched(t, q)
	}
}

// TestManySecretLeasesThatWereThereBeforeTheView: nobody is told of the end of a node that it may not read, but that the
// list of children changes.
func TestManySecretLeasesThatWereThereBeforeTheView(t *testing.T) {
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
	testbed.Eventually(t, q.Viewed, "the view has begun")
	blocked(t, mine)
	require.NoError(t, secret.Delete(testbed.Context(t), nodes[2], -1))
	got := testbed.Receive(t, mine, "the lease")
	require.NoError(t, got.err)
	require.NoError(t, got.hold.Release())
}
