package lock_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// Another client deletes nodes of a lock.

// TestWaitersQueueAgainWhenThePathIsDeleted with all nodes below it.
func TestWaitersQueueAgainWhenThePathIsDeleted(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, server *zktest.Server){
		"while they are notified": func(t *testing.T, server *zktest.Server) {
			require.NoError(t, server.Delete("/lock"))
		},
		"while the server is out of reach": func(t *testing.T, server *zktest.Server) {
			server.Stop()
			require.NoError(t, server.Delete("/lock"))
			require.NoError(t, server.Restart())
		},
	} {
		for _, leases := range []int{1, 2, 5} { // of more than four nodes the list is watched
			testbed.RunWorld(t, fmt.Sprintf("%s, %d leases", name, leases), func(t *testing.T, w *testbed.World) {
				q, others := newQueue(t, w.Client(), "/lock", lock.WithMaxLeases(leases)), w.Client()
				queueOf(t, others, "/lock", many)
				mine := acquiring(t, t.Context(), q, w.Server, many+1)
				synctest.Wait()
				remove(t, w.Server)
				require.NoError(t, received(t, mine).Release())
			})
		}
	}
}

// TestTheNextIsNotifiedAtOnceThatItsNodeIsDeleted when it has become the holder: its node is
// watched already, so no time passes, and nothing is asked.
func TestTheNextIsNotifiedAtOnceThatItsNodeIsDeleted(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q, others := newQueue(t, w.Client(), "/lock", lock.WithErrorPolicy(connstate.LostEndsHold)), w.Client()
		nodes, mine := inLongQueue(t, w.Server, q, others)
		release(t, others, nodes[:many-1]...)
		synctest.Wait()
		defer w.Server.Block(zktest.OnOp("getData")).Open()
		began := time.Now()
		release(t, others, nodes[many-1])
		got := received(t, mine)
		require.NoError(t, w.Server.Delete(got.Path()))
		synctest.Wait()
		require.ErrorIs(t, got.Err(), lock.ErrNodeDeleted)
		require.Zero(t, time.Since(began))
	})
}

// TestHolderIsNotifiedOfADeletionWithoutAnAnswer: the event says it.
func TestHolderIsNotifiedOfADeletionWithoutAnAnswer(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		hold := acquire(t, newQueue(t, w.Client(), "/lock", lock.WithErrorPolicy(connstate.LostEndsHold)))
		// Virtual time, after which its node is watched, which nothing reports.
		time.Sleep(time.Second)
		defer w.Server.Block(zktest.OnOp("getData")).Open()
		require.NoError(t, w.Server.Delete(hold.Path()))
		synctest.Wait()
		require.ErrorIs(t, hold.Err(), lock.ErrNodeDeleted)
		require.ErrorIs(t, hold.Release(), lock.ErrNodeDeleted)
	})
}

// TestRelease_AfterAReleaseWithOfUnknownOutcome does not guess that another client has deleted the
// node: the transaction may have.
func TestRelease_AfterAReleaseWithOfUnknownOutcome(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		hold := acquire(t, newQueue(t, w.Client(framework.WithRetryPolicy(retry.NTimes(0, time.Second))), "/lock"))
		injected := w.Server.Inject(zktest.LoseReply, 0, zktest.OnOp("multi"))
		_, err := hold.ReleaseWith(t.Context())
		require.True(t, retry.Unknown(err))
		require.True(t, injected.Met())
		require.ErrorIs(t, hold.Release(), lock.ErrReleased)
	})
}

// TestTimedOutWhileItBeginsToWaitIsNotAcquired, as later: another contender is ahead in the queue.
func TestTimedOutWhileItBeginsToWaitIsNotAcquired(t *testing.T) {
	for name, driver := range map[string]lock.Driver{"standard": nil, "of a user": struct{ lock.Standard }{}} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			foreign(t, w.Client(), "/lock")
			q := driven(w.Client(), driver)
			defer w.Server.Block(zktest.OnOp("getData")).Open()
			_, err := q.Acquire(testbed.Timeout(t, time.Second))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
		})
	}
}

// TestWatchOfAHolderDoesNotHurryABusyServer that refuses its request, also if the client is not to
// repeat any.
func TestWatchOfAHolderDoesNotHurryABusyServer(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		hold := acquire(t, newQueue(t, w.Client(framework.WithRetryPolicy(retry.Never())), "/lock"))
		idle := testbed.Busy(w.Server)
		time.Sleep(time.Second) // virtual time: the test counts the requests of a second
		require.LessOrEqual(t, w.Server.Requests().Requests["getData"], 10)
		idle()
		// virtual time, after which its node is watched: nothing reports that
		time.Sleep(time.Second)
		require.NoError(t, w.Server.Delete(hold.Path()))
		testbed.Receive(t, hold.Done(), "word of the deletion")
	})
}

// TestMaxHoldOfASuspendedHoldEndsWithItsRelease: nothing keeps the Queue in memory until the time
// would be over.
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

// unreadable gives the nodes below a lock's path an ACL without the permission to read.
func unreadable() framework.Option {
	return framework.WithACLProvider(func(path string) []zk.ACL {
		if strings.HasPrefix(path, "/lock/") {
			return zk.WorldACL(zk.PermAll &^ zk.PermRead)
		}
		return zk.WorldACL(zk.PermAll)
	})
}

// blind is a driver that gives nodes an ACL of its own, without the permission to read.
type blind struct{ lock.Standard }

func (blind) Create(ctx context.Context, client *framework.Client, n lock.Node) (string, error) {
	return client.Create(ctx, framework.Join(n.Base, n.Name), n.Data, framework.As(framework.EphemeralSequential),
		framework.Protected(), framework.ContainerParents(), framework.ACL(zk.WorldACL(zk.PermAll&^zk.PermRead)))
}

// TestContenderThatMayNotReadIsRefused: servers do not report the end of a node to a client that
// may not read it. So a contender that may not read its own node or the one that it waits for gets
// zk.ErrNoAuth, never holds, and leaves nothing.
func TestContenderThatMayNotReadIsRefused(t *testing.T) {
	mine, hidden, open := []framework.Option{unreadable()}, zk.WorldACL(zk.PermDelete), zk.WorldACL(zk.PermAll)
	for name, c := range map[string]struct {
		client []framework.Option
		ahead  [][]zk.ACL
		views  bool
	}{
		"its own node":                            {mine, nil, false},
		"its own node, with a view":               {mine, nil, true},
		"its own node, behind another":            {mine, [][]zk.ACL{open}, false},
		"its own node, with a view, behind":       {mine, [][]zk.ACL{open}, true},
		"the node ahead":                          {nil, [][]zk.ACL{hidden}, false},
		"the node ahead, with a view":             {nil, [][]zk.ACL{hidden}, true},
		"the node before the one ahead":           {nil, [][]zk.ACL{hidden, open}, false},
		"the node before the one ahead, in views": {nil, [][]zk.ACL{hidden, open}, true},
		"the node ahead, behind another":          {nil, [][]zk.ACL{open, hidden}, false},
	} {
		for _, again := range []bool{false, true} {
			testbed.RunWorld(t, fmt.Sprintf("%s, again %v", name, again), func(t *testing.T, w *testbed.World) {
				others := w.Client()
				var opts []lock.Option
				if c.views {
					// The retention gives it a view from the first acquire on.
					opts = append(opts, lock.WithRetention(time.Millisecond))
				}
				q := newQueue(t, w.Client(c.client...), "/lock", opts...)
				var nodes []string
				for _, acl := range c.ahead {
					nodes = append(nodes, foreign(t, others, "/lock", framework.ACL(acl)))
				}
				if again { // a view may begin at the second acquire
					require.Error(t, testbed.Err(q.Acquire(testbed.Timeout(t, time.Millisecond))))
				}
				ended := start(t.Context(), q.Acquire)
				synctest.Wait()
				if len(nodes) == 2 { // the readable node is deleted
					open := slices.IndexFunc(c.ahead, func(acl []zk.ACL) bool { return acl[0].Perms == zk.PermAll })
					release(t, others, nodes[open])
					nodes = slices.Delete(nodes, open, open+1)
					synctest.Wait()
				}
				got := testbed.Receive(t, ended, "the refusal")
				require.ErrorIs(t, got.err, zk.ErrNoAuth)
				require.Nil(t, got.hold)
				children, err := w.Server.Children("/lock")
				if len(nodes) > 0 {
					require.NoError(t, err)
					require.Len(t, children, 1, "nothing of ours stays")
					release(t, others, nodes[0])
				} else {
					require.Empty(t, children)
				}
				require.NoError(t, acquire(t, newQueue(t, others, "/lock")).Release())
			})
		}
	}
}

// TestHoldOfADriverWhoseNodesMayNotBeReadEnds: no event would report the deletion of the holder's
// node.
func TestHoldOfADriverWhoseNodesMayNotBeReadEnds(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := driven(w.Client(), blind{})
		for range 3 {
			hold := acquire(t, q)
			testbed.Receive(t, hold.Done(), "the end")
			require.ErrorIs(t, hold.Err(), zk.ErrNoAuth)
			require.ErrorIs(t, hold.Err(), framework.ErrLost)
			err := hold.Release()
			require.ErrorIs(t, err, zk.ErrNoAuth)
			testbed.OneOp(t, err, "release", hold.Path())
			synctest.Wait()
			length(t, w.Server, q, 0)
		}
	})
}
