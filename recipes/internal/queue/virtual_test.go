package queue_test

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
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/internal/queue"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// Promises of the protocol in virtual time: a wait in vain costs nothing, so each of these fails at
// once when the library is broken. Package mutation breaks it.

// TestGuardRefusesAStaleHolder has the session end behind the back of a holder that goes on
// writing with its client, in the next session.
func TestGuardRefusesAStaleHolder(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		a, b := client(framework.WithErrorPolicy(connstate.Session)), client()
		ctx := testbed.Context(t)
		_, err := a.Create(ctx, "/data", []byte("nobody"))
		require.NoError(t, err)
		write := func(client *framework.Client, h *queue.Hold, data string) error {
			_, err := client.Multi(ctx, h.Guard(), &zk.SetDataRequest{Path: "/data", Data: []byte(data), Version: -1})
			return err
		}
		stale := acquire(t, newQueue(t, a, "/lock"))
		require.NoError(t, write(a, stale, "a"))
		require.NoError(t, server.ExpireSession(stale.Session().ID()))
		hold := acquire(t, newQueue(t, b, "/lock"))
		require.NoError(t, write(b, hold, "b"))
		require.ErrorIs(t, write(a, stale, "a again"), zk.ErrNoNode)
		data, err := server.Get("/data")
		require.NoError(t, err)
		require.Equal(t, "b", string(data))
		testbed.Receive(t, stale.Done(), "word of the loss")
		require.ErrorIs(t, stale.Release(), framework.ErrSessionLost)
		require.NoError(t, hold.Release())
		require.ErrorIs(t, write(b, hold, "b again"), zk.ErrNoNode, "released is stale, too")
	})
}

func TestWhoGivesUpIsInNobodysWay(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		q, other := newQueue(t, client(), "/lock"), newQueue(t, client(), "/lock")
		hold := acquire(t, q)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := other.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, hold.Release())
		require.NoError(t, acquire(t, q).Release(), "the lock is free")
		length(t, server, q, 0)
	})
}

func TestOnlyTheFirstHolds(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		hold := acquire(t, newQueue(t, client(), "/lock"))
		waiting := acquiring(t, testbed.Context(t), newQueue(t, client(), "/lock"), server, 2)
		time.Sleep(10 * time.Second) // virtual time: nobody else has anything to do
		synctest.Wait()
		select {
		case <-waiting:
			t.Fatal("two holders")
		default:
		}
		require.NoError(t, hold.Release())
		got := testbed.Receive(t, waiting, "the lock")
		require.NoError(t, got.err)
		require.NoError(t, got.hold.Release())
	})
}

// TestWaiterThatGoesProvesNothing has the second of three in the queue give up: the third, which waits for
// it alone, must not take that for its own turn.
func TestWaiterThatGoesProvesNothing(t *testing.T) {
	for name, together := range map[string]bool{"of another queue": false, "of the same queue": true} {
		t.Run(name, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
				hold := acquire(t, newQueue(t, client(), "/lock"))
				q := newQueue(t, client(), "/lock")
				other := q
				if !together {
					other = newQueue(t, client(), "/lock")
				}
				ctx, cancel := context.WithCancel(testbed.Context(t))
				second := acquiring(t, ctx, q, server, 2)
				synctest.Wait()
				third := acquiring(t, testbed.Context(t), other, server, 3)
				synctest.Wait()
				cancel()
				require.ErrorIs(t, testbed.Receive(t, second, "the end of waiting").err, context.Canceled)
				synctest.Wait()
				select {
				case <-third:
					t.Fatal("two holders")
				default:
				}
				require.NoError(t, hold.Release())
				got := testbed.Receive(t, third, "the lock")
				require.NoError(t, got.err)
				require.NoError(t, got.hold.Release())
			})
		})
	}
}

func TestHolderLearnsThatItsSessionIsOver(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		hold := acquire(t, newQueue(t, client(), "/lock", lock.WithErrorPolicy(connstate.Session)))
		require.NoError(t, server.ExpireSession(hold.Session().ID()))
		testbed.Receive(t, hold.Done(), "word of the loss")
		require.ErrorIs(t, hold.Err(), framework.ErrSessionLost)
		require.ErrorIs(t, hold.Release(), framework.ErrSessionLost)
	})
}

// TestCreateThatComesLateIsInNobodysWay has a server that stood still carry out a create long after its
// connection is gone, and the node that was made instead.
func TestCreateThatComesLateIsInNobodysWay(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		lost := make(chan string, 1)
		server.Inject(zktest.FailBefore, 0, zktest.OnOp(zktest.OpCreate), func(r zktest.Request) bool {
			select {
			case lost <- r.Path:
			default:
			}
			return true
		})
		q, other := newQueue(t, client(), "/lock"), client()
		hold := acquire(t, q)
		_, err := other.Create(testbed.Context(t), testbed.Receive(t, lost, "the first create")+"0000000007", nil)
		require.NoError(t, err)
		length(t, server, q, 1)
		require.NoError(t, hold.Release())
	})
}

func TestHolderLearnsThatItsNodeWasDeleted(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, _ *zktest.Server, client func(...framework.Option) *framework.Client) {
		hold := acquire(t, newQueue(t, client(), "/lock"))
		require.NoError(t, client().Delete(testbed.Context(t), hold.Path(), -1))
		testbed.Receive(t, hold.Done(), "word of the loss")
		require.ErrorIs(t, hold.Err(), queue.ErrNodeDeleted)
		require.ErrorIs(t, hold.Release(), queue.ErrNodeDeleted)
	})
}

// TestHolderIsWatchedAfterAServerThatRefusesCredentials has the connection end while somebody holds, and the next server refuse our
// credentials for a while. The hold goes on, and so must its watch.
func TestHolderIsWatchedAfterAServerThatRefusesCredentials(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, newClient func(...framework.Option) *framework.Client) {
		refuses := testbed.RefuseCredentials(server)
		client := newClient(framework.WithErrorPolicy(connstate.Session), framework.WithAuth("digest", []byte("user:password")))
		hold := acquire(t, newQueue(t, client, "/lock"))
		time.Sleep(time.Second) // virtual time: it is watched
		refuses.Store(true)
		server.CutConnections()
		require.Eventually(t, func() bool { return errors.Is(client.WaitConnected(t.Context()), zk.ErrAuthFailed) }, time.Second, time.Millisecond)
		time.Sleep(time.Second) // virtual time, in which its watch must not give up
		refuses.Store(false)
		require.Eventually(t, func() bool { return client.WaitConnected(t.Context()) == nil }, 3*time.Second, time.Millisecond)
		time.Sleep(time.Second) // virtual time: it is watched again
		require.NoError(t, hold.Err())
		require.NoError(t, server.Delete(hold.Path()))
		testbed.Receive(t, hold.Done(), "word of the loss")
		require.ErrorIs(t, hold.Err(), queue.ErrNodeDeleted)
	})
}
