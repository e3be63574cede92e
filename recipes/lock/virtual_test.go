package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// Promises of the protocol in virtual time: a wait in vain costs nothing, so each of these fails at
// once when the library is broken. Package mutation breaks it.

// TestGuardRefusesAStaleHolder has the session expire unnoticed while the holder continues to write
// with its client, in the next session.
func TestGuardRefusesAStaleHolder(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		a, b := w.Client(framework.WithErrorPolicy(connstate.LostEndsHold)), w.Client()
		ctx := testbed.Context(t)
		testbed.Create(t, a, "/data", nil)
		write := func(client *framework.Client, h *lock.Hold, data string) error {
			_, err := client.Multi(ctx, h.Guard(), &zk.SetDataRequest{Path: "/data", Data: []byte(data), Version: -1})
			return err
		}
		stale := acquire(t, newQueue(t, a, "/lock"))
		require.NoError(t, write(a, stale, "a"))
		require.NoError(t, w.Server.ExpireSession(stale.Session().ID()))
		hold := acquire(t, newQueue(t, b, "/lock"))
		require.NoError(t, write(b, hold, "b"))
		require.ErrorIs(t, write(a, stale, "a again"), zk.ErrNoNode)
		require.Equal(t, "b", testbed.ServerData(t, w.Server, "/data"))
		testbed.Receive(t, stale.Done(), "word of the loss")
		require.ErrorIs(t, stale.Release(), framework.ErrSessionLost)
		require.NoError(t, hold.Release())
		require.ErrorIs(t, write(b, hold, "b again"), zk.ErrNoNode, "released is stale, too")
	})
}

func TestWhoGivesUpIsInNobodysWay(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q, other := newQueue(t, w.Client(), "/lock"), newQueue(t, w.Client(), "/lock")
		hold := acquire(t, q)
		_, err := other.Acquire(testbed.Timeout(t, time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.EqualError(t, err, "acquire /lock: not free: context deadline exceeded")
		require.NoError(t, hold.Release())
		require.NoError(t, acquire(t, q).Release(), "the lock is free")
		length(t, w.Server, q, 0)
	})
}

func TestOnlyTheFirstHolds(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		hold := acquire(t, newQueue(t, w.Client(), "/lock"))
		waiting := acquiring(t, testbed.Context(t), newQueue(t, w.Client(), "/lock"), w.Server, 2)
		time.Sleep(10 * time.Second) // virtual time: nothing else happens
		synctest.Wait()
		require.Empty(t, waiting, "two holders")
		require.NoError(t, hold.Release())
		require.NoError(t, received(t, waiting).Release())
	})
}

// TestWaiterThatGoesProvesNothing has the second of three in the queue give up: the third, which
// waits for it alone, must not take that for its own turn.
func TestWaiterThatGoesProvesNothing(t *testing.T) {
	for name, together := range map[string]bool{"of another queue": false, "of the same queue": true} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			hold := acquire(t, newQueue(t, w.Client(), "/lock"))
			q := newQueue(t, w.Client(), "/lock")
			other := q
			if !together {
				other = newQueue(t, w.Client(), "/lock")
			}
			ctx, cancel := context.WithCancel(testbed.Context(t))
			second := acquiring(t, ctx, q, w.Server, 2)
			synctest.Wait()
			third := acquiring(t, testbed.Context(t), other, w.Server, 3)
			synctest.Wait()
			cancel()
			require.ErrorIs(t, testbed.Receive(t, second, "the end of waiting").err, context.Canceled)
			synctest.Wait()
			require.Empty(t, third, "two holders")
			require.NoError(t, hold.Release())
			require.NoError(t, received(t, third).Release())
		})
	}
}

func TestHolderLearnsThatItsSessionIsOver(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		hold := acquire(t, newQueue(t, w.Client(), "/lock", lock.WithErrorPolicy(connstate.LostEndsHold)))
		require.NoError(t, w.Server.ExpireSession(hold.Session().ID()))
		testbed.Receive(t, hold.Done(), "word of the loss")
		require.ErrorIs(t, hold.Err(), framework.ErrSessionLost)
		require.ErrorIs(t, hold.Release(), framework.ErrSessionLost)
	})
}

// TestCreateThatComesLateIsInNobodysWay has the node of a failed create appear after the create was
// repeated, as if a server had stood still in between. The late node must be deleted.
func TestCreateThatComesLateIsInNobodysWay(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		lost := make(chan string, 1)
		w.Server.Inject(zktest.FailBefore, 0, zktest.OnOp("create"), zktest.On(func(r zktest.Request) bool {
			select {
			case lost <- r.Path:
			default:
			}
			return true
		}))
		q, other := newQueue(t, w.Client(), "/lock"), w.Client()
		hold := acquire(t, q)
		_, err := other.Create(testbed.Context(t), testbed.Receive(t, lost, "the first create")+"0000000007", nil)
		require.NoError(t, err)
		length(t, w.Server, q, 1)
		require.NoError(t, hold.Release())
	})
}

// TestHolderIsWatchedAfterAServerThatRefusesCredentials loses the connection of a holder, and the
// next server refuses its credentials for a while. The hold continues, and so must its watch.
func TestHolderIsWatchedAfterAServerThatRefusesCredentials(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		refuses := testbed.RefuseCredentials(w.Server)
		client := w.Client(framework.WithErrorPolicy(connstate.LostEndsHold), framework.WithAuth("digest", []byte("user:password")))
		hold := acquire(t, newQueue(t, client, "/lock"))
		time.Sleep(time.Second) // virtual time: it is watched
		refuses.Store(true)
		w.Server.CutConnections()
		require.Eventually(t, func() bool { return errors.Is(client.WaitConnected(t.Context()), zk.ErrAuthFailed) }, time.Second, time.Millisecond)
		time.Sleep(time.Second) // virtual time, in which its watch must not give up
		refuses.Store(false)
		require.Eventually(t, func() bool { return client.WaitConnected(t.Context()) == nil }, 3*time.Second, time.Millisecond)
		time.Sleep(time.Second) // virtual time: it is watched again
		require.NoError(t, hold.Err())
		require.NoError(t, w.Server.Delete(hold.Path()))
		testbed.Receive(t, hold.Done(), "word of the loss")
		require.ErrorIs(t, hold.Err(), lock.ErrNodeDeleted)
	})
}
