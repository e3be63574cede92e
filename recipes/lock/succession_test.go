package lock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// assured has a queue acquire until it needs no list any more.
func assured(t *testing.T, server *zktest.Server, q *lock.Queue) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		server.ResetCounts()
		require.NoError(t, acquire(t, q).Release())
		return counted(server)[zktest.OpGetChildren2] == 0
	}, "who follows itself needs no list")
}

// TestParentThatWasMadeAnew is about numbers that follow each other and were given out by different
// parents: somebody else holds a lower one.
func TestParentThatWasMadeAnew(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	q := newQueue(t, bed.Client(t), "/lock")
	assured(t, server, q)
	last := acquire(t, q)
	number, _ := lock.Sequence(last.Path(), "lock-")
	require.NoError(t, last.Release())

	other := bed.Client(t)
	require.NoError(t, other.Delete(testbed.Context(t), "/lock", -1)) // as a server does with an empty container
	theirs := acquire(t, newQueue(t, other, "/lock"))
	require.NoError(t, server.SetSequence("/lock", number+1))
	mine := acquiring(t, testbed.Context(t), q, server, 2)
	select {
	case <-mine:
		t.Fatal("two holders")
	default:
	}
	require.NoError(t, theirs.Release())
	got := testbed.Receive(t, mine, "the lock")
	require.NoError(t, got.err)
	require.NoError(t, got.hold.Release())
}

// TestNumberThatDoesNotFollow has somebody else come in between.
func TestNumberThatDoesNotFollow(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	q := newQueue(t, bed.Client(t), "/lock")
	assured(t, server, q)
	theirs := acquire(t, newQueue(t, bed.Client(t), "/lock"))
	mine := acquiring(t, testbed.Context(t), q, server, 2)
	select {
	case <-mine:
		t.Fatal("two holders")
	default:
	}
	require.NoError(t, theirs.Release())
	got := testbed.Receive(t, mine, "the lock")
	require.NoError(t, got.err)
	require.NoError(t, got.hold.Release())
}

// TestWaiterIsNotSucceeded has a node follow one that never held.
func TestWaiterIsNotSucceeded(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	q := newQueue(t, bed.Client(t), "/lock")
	assured(t, server, q)
	theirs := acquire(t, newQueue(t, bed.Client(t), "/lock"))
	ctx, cancel := context.WithCancel(testbed.Context(t))
	first := acquiring(t, ctx, q, server, 2)
	cancel()
	require.Error(t, testbed.Receive(t, first, "the end of waiting").err)
	length(t, server, q, 1)
	second := acquiring(t, testbed.Context(t), q, server, 2)
	select {
	case <-second:
		t.Fatal("two holders")
	default:
	}
	require.NoError(t, theirs.Release())
	got := testbed.Receive(t, second, "the lock")
	require.NoError(t, got.err)
	require.NoError(t, got.hold.Release())
}

// TestFewerLeasesEndTheSuccession takes away the lease that a node had which is followed.
func TestFewerLeasesEndTheSuccession(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	q, err := lock.New(bed.Client(t), "/lock", "lock-", nil, lock.WithMaxLeases(2))
	require.NoError(t, err)
	theirs := acquire(t, newQueue(t, bed.Client(t), "/lock"))
	assured(t, server, q) // the second lease
	require.NoError(t, q.SetMaxLeases(1))
	mine := acquiring(t, testbed.Context(t), q, server, 2)
	select {
	case <-mine:
		t.Fatal("two holders")
	default:
	}
	require.NoError(t, theirs.Release())
	got := testbed.Receive(t, mine, "the lock")
	require.NoError(t, got.err)
	require.NoError(t, got.hold.Release())
}

// TestLostConnectionEndsTheSuccession: nobody has told us what became of the parent meanwhile.
func TestLostConnectionEndsTheSuccession(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	q := newQueue(t, client, "/lock")
	assured(t, server, q)
	server.CutConnections()
	testbed.CatchUp(t, client)
	server.ResetCounts()
	require.NoError(t, acquire(t, q).Release())
	require.Equal(t, 1, counted(server)[zktest.OpGetChildren2])
}

// TestOtherDriversAreAsked is about drivers that embed Standard: nothing is known of them.
func TestOtherDriversAreAsked(t *testing.T) {
	server := zktest.NewServer(t)
	q, err := lock.New(testbed.On(server).Client(t), "/lock", "lock-", struct{ lock.Standard }{})
	require.NoError(t, err)
	require.NoError(t, acquire(t, q).Release())
	server.ResetCounts()
	const n = 20
	for range n {
		require.NoError(t, acquire(t, q).Release())
	}
	require.Equal(t, n, counted(server)[zktest.OpGetChildren2])
}

// TestSuccessionWithEachRequestFailing has two contenders take turns, of which one needs no list, while its requests fail
// in turn.
func TestSuccessionWithEachRequestFailing(t *testing.T) {
	for _, fault := range []zktest.Fault{zktest.FailBefore, zktest.LoseReply, zktest.ExpireBefore, zktest.ExpireAfter} {
		t.Run(fault.String(), func(t *testing.T) {
			met := true
			for n := 0; met; n++ {
				server := zktest.NewServer(t)
				bed := testbed.On(server)
				client := bed.Client(t)
				q, other := newQueue(t, client, "/lock"), newQueue(t, bed.Client(t), "/lock")
				assured(t, server, q)
				session, err := client.Session(testbed.Context(t))
				require.NoError(t, err)
				injected := server.Inject(fault, n, zktest.OnSession(session.ID()))
				for range 3 {
					hold := acquire(t, q)
					theirs, err := other.TryAcquire(testbed.Context(t))
					if err == nil {
						testbed.Receive(t, hold.Done(), "word of the loss")
						require.NoError(t, theirs.Release())
					} else {
						require.ErrorIs(t, err, lock.ErrNotAcquired)
					}
					_ = hold.Release() // that it was lost is expected
				}
				met = injected.Met()
				length(t, server, q, 0)
				require.NoError(t, acquire(t, other).Release())
				require.Less(t, n, 50)
			}
		})
	}
}
