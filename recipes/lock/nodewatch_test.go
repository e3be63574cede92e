package lock_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/go-zookeeper/zk"
	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
	"github.com/stretchr/testify/require"
)

// Somebody else deletes nodes of a lock.

// TestWaitersQueueAgainWhenThePathIsDeleted with all nodes below it.
func TestWaitersQueueAgainWhenThePathIsDeleted(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, server *zktest.Server){
		"while they are told": func(t *testing.T, server *zktest.Server) {
			require.NoError(t, server.Delete("/lock"))
		},
		"while the server is out of reach": func(t *testing.T, server *zktest.Server) {
			server.Stop()
			require.NoError(t, server.Delete("/lock"))
			require.NoError(t, server.Restart())
		},
	} {
		for _, leases := range []int{1, 2, 5} { // of more than four nodes the list is watched
			t.Run(fmt.Sprintf("%s, %d leases", name, leases), func(t *testing.T) {
				testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
					q, others := newQueue(t, client(), "/lock", lock.WithMaxLeases(leases)), client()
					queueOf(t, others, many)
					mine := acquiring(t, t.Context(), q, server, many+1)
					synctest.Wait()
					remove(t, server)
					got := testbed.Receive(t, mine, "the lock")
					require.NoError(t, got.err)
					require.NoError(t, got.hold.Release())
				})
			})
		}
	}
}

// TestTheNextIsToldAtOnceThatItsNodeIsDeleted when it has become the holder: its node is watched already, so no time passes,
// and nothing is asked.
func TestTheNextIsToldAtOnceThatItsNodeIsDeleted(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		q, others := newQueue(t, client(), "/lock", lock.WithErrorPolicy(connstate.Session)), client()
		nodes, mine := inLongQueue(t, server, q, others)
		release(t, others, nodes[:many-1]...)
		synctest.Wait()
		gate := server.Block(zktest.OnOp(zktest.OpGetData))
		defer gate.Open()
		began := time.Now()
		release(t, others, nodes[many-1])
		got := testbed.Receive(t, mine, "the lock")
		require.NoError(t, got.err)
		require.NoError(t, server.Delete(got.hold.Path()))
		synctest.Wait()
		require.ErrorIs(t, got.hold.Err(), lock.ErrNodeDeleted)
		require.Zero(t, time.Since(began))
	})
}

// TestHolderIsToldOfADeletionWithoutAnAnswer: the event says it.
func TestHolderIsToldOfADeletionWithoutAnAnswer(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		hold := acquire(t, newQueue(t, client(), "/lock", lock.WithErrorPolicy(connstate.Session)))
		time.Sleep(time.Second) // virtual time, after which its node is watched: nobody is told of that
		gate := server.Block(zktest.OnOp(zktest.OpGetData))
		defer gate.Open()
		require.NoError(t, server.Delete(hold.Path()))
		synctest.Wait()
		require.ErrorIs(t, hold.Err(), lock.ErrNodeDeleted)
	})
}

// TestRequeueSaysThatItsNodeWasDeleted also if it loses the connection before it has made sure of that.
func TestRequeueSaysThatItsNodeWasDeleted(t *testing.T) {
	server := zktest.NewServer(t)
	q := newQueue(t, testbed.On(server).Client(t), "/lock")
	hold := acquire(t, q)
	gate, done := requeueing(t, server, hold)
	require.NoError(t, server.Delete(hold.Path()))
	injected := server.Inject(zktest.FailBefore, 0, zktest.OnOp(zktest.OpDelete))
	gate.Open()
	require.ErrorIs(t, testbed.Receive(t, done, "the end"), lock.ErrNodeDeleted)
	require.True(t, injected.Met())
	length(t, server, q, 0)
}

// TestSecondReleaseDoesNotGuess who has deleted the node: it may have been the transaction, although that was not answered.
func TestSecondReleaseDoesNotGuess(t *testing.T) {
	for name, begin := range map[string]func(context.Context, *lock.Hold) error{
		"ReleaseWith": func(ctx context.Context, h *lock.Hold) error {
			_, err := h.ReleaseWith(ctx)
			return err
		},
		"Requeue": func(ctx context.Context, h *lock.Hold) error {
			_, err := h.Requeue(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
				hold := acquire(t, newQueue(t, client(framework.WithRetryPolicy(retry.NTimes(0, time.Second))), "/lock"))
				injected := server.Inject(zktest.LoseReply, 0, zktest.OnOp(zktest.OpMulti))
				require.True(t, retry.Unknown(begin(t.Context(), hold)))
				require.True(t, injected.Met())
				require.ErrorIs(t, hold.Release(), lock.ErrReleased)
			})
		})
	}
}

// TestNumbersStartAgainAfterReleaseWith, as they do after Release.
func TestNumbersStartAgainAfterReleaseWith(t *testing.T) {
	server := zktest.NewServer(t)
	q := newQueue(t, testbed.On(server).Client(t), "/lock")
	require.NoError(t, acquire(t, q).Release())
	require.NoError(t, server.SetSequence("/lock", 1<<30))
	_, err := acquire(t, q).ReleaseWith(testbed.Context(t))
	require.NoError(t, err)
	require.False(t, server.Exists("/lock"))
}

// TestNameIsNotAPath: the node would be made elsewhere, and never be found in the queue.
func TestNameIsNotAPath(t *testing.T) {
	_, err := lock.New(testbed.InProcess(t).Client(t), "/lock", "below/lock-", nil)
	require.ErrorIs(t, err, lock.ErrBadArgument)
}

// TestTimedOutWhileItBeginsToWaitIsNotAcquired, as later: somebody else is ahead in the queue.
func TestTimedOutWhileItBeginsToWaitIsNotAcquired(t *testing.T) {
	for name, driver := range map[string]lock.Driver{"standard": nil, "of a user": struct{ lock.Standard }{}} {
		t.Run(name, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
				foreign(t, client(), "/lock")
				q, err := lock.New(client(), "/lock", "lock-", driver)
				require.NoError(t, err)
				gate := server.Block(zktest.OnOp(zktest.OpGetData))
				defer gate.Open()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err = q.Acquire(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, lock.ErrNotAcquired)
			})
		})
	}
}

// TestWatchOfAHolderDoesNotHurryABusyServer that refuses its request, also if the client is not to repeat any.
func TestWatchOfAHolderDoesNotHurryABusyServer(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		hold := acquire(t, newQueue(t, client(framework.WithRetryPolicy(retry.Never())), "/lock"))
		idle := testbed.Busy(server)
		time.Sleep(time.Second) // virtual time: what is counted is the requests of a second
		require.LessOrEqual(t, server.Requests().Requests[zktest.OpGetData], 10)
		idle()
		time.Sleep(time.Second) // virtual time, after which its node is watched: nobody is told of that
		require.NoError(t, server.Delete(hold.Path()))
		testbed.Receive(t, hold.Done(), "word of the deletion")
	})
}

// TestMaxHoldOfASuspendedHoldEndsWithItsRelease: nothing keeps the Queue in memory until the time would be over.
func TestMaxHoldOfASuspendedHoldEndsWithItsRelease(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	queue := func() weak.Pointer[lock.Queue] {
		q := newQueue(t, client, "/lock", lock.WithMaxHold(time.Hour))
		hold := acquire(t, q)
		server.CutConnections()
		testbed.Receive(t, hold.Done(), "word of the suspension")
		require.NoError(t, hold.Release())
		return weak.Make(q)
	}()
	testbed.Eventually(t, func() bool {
		runtime.GC()
		return queue.Value() == nil
	}, "the end of the Queue")
}

// A client that may not read its own nodes. Servers tell it nothing about them.

// unreadable gives the nodes below a lock's path an ACL without the permission to read.
func unreadable() framework.Option {
	return framework.WithACLProvider(func(path string) []zk.ACL {
		if strings.HasPrefix(path, "/lock/") {
			return zk.WorldACL(zk.PermAll &^ zk.PermRead)
		}
		return zk.WorldACL(zk.PermAll)
	})
}

// TestHolderThatMayNotReadItsNodeIsToldOfItsDeletion, with a view and without.
func TestHolderThatMayNotReadItsNodeIsToldOfItsDeletion(t *testing.T) {
	for name, acquires := range map[string]int{"first": 1, "used again": 2, "and again": 3} {
		t.Run(name, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
				q := newQueue(t, client(unreadable()), "/lock", lock.WithErrorPolicy(connstate.Session))
				for range acquires - 1 {
					require.NoError(t, acquire(t, q).Release())
				}
				hold := acquire(t, q)
				for range 3 { // it is told also after others have come and gone
					time.Sleep(time.Second) // virtual time, after which its node is watched: nobody is told of that
					require.NoError(t, server.Delete(foreign(t, client(), "/lock")))
				}
				server.CutConnections()
				time.Sleep(time.Second) // virtual time, in which its node is watched again
				require.NoError(t, hold.Err())
				require.NoError(t, server.Delete(hold.Path()))
				time.Sleep(time.Millisecond) // virtual time: others may hold by now, so it is told at once if it has not just looked
				require.ErrorIs(t, hold.Err(), lock.ErrNodeDeleted)
				synctest.Wait()
				require.Zero(t, server.WatchCount())
			})
		})
	}
}

// TestWaiterThatMayNotReadItsNodeDoesNotHoldWithoutIt: its node is in the first list of a view, and the view is not told of its
// end.
func TestWaiterThatMayNotReadItsNodeDoesNotHoldWithoutIt(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		others := client()
		ahead := foreign(t, others, "/lock")
		q := newQueue(t, client(unreadable()), "/lock")
		_, err := q.TryAcquire(t.Context())
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		mine := acquiring(t, t.Context(), q, server, 2) // it begins a view
		synctest.Wait()
		require.True(t, q.Viewed())
		behind := foreign(t, others, "/lock")
		children, err := server.Children("/lock")
		require.NoError(t, err)
		for _, child := range children {
			if path := "/lock/" + child; path != ahead && path != behind {
				require.NoError(t, server.Delete(path))
			}
		}
		release(t, others, ahead)
		time.Sleep(time.Minute) // virtual time, in which it must not hold
		require.Empty(t, mine, "the one behind holds now")
		release(t, others, behind)
		got := testbed.Receive(t, mine, "the lock")
		require.NoError(t, got.err)
		require.NoError(t, got.hold.Release())
	})
}
