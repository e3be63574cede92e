package queue_test

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
	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/internal/queue"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
	"github.com/stretchr/testify/require"
)

// Somebody else deletes nodes of a lock.

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

// TestTheNextIsNotifiedAtOnceThatItsNodeIsDeleted when it has become the holder: its node is watched already, so no time passes,
// and nothing is asked.
func TestTheNextIsNotifiedAtOnceThatItsNodeIsDeleted(t *testing.T) {
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
		require.ErrorIs(t, got.hold.Err(), queue.ErrNodeDeleted)
		require.Zero(t, time.Since(began))
	})
}

// TestHolderIsNotifiedOfADeletionWithoutAnAnswer: the event says it.
func TestHolderIsNotifiedOfADeletionWithoutAnAnswer(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		hold := acquire(t, newQueue(t, client(), "/lock", lock.WithErrorPolicy(connstate.Session)))
		time.Sleep(time.Second) // virtual time, after which its node is watched: nothing reports that
		gate := server.Block(zktest.OnOp(zktest.OpGetData))
		defer gate.Open()
		require.NoError(t, server.Delete(hold.Path()))
		synctest.Wait()
		require.ErrorIs(t, hold.Err(), queue.ErrNodeDeleted)
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
	require.ErrorIs(t, testbed.Receive(t, done, "the end"), queue.ErrNodeDeleted)
	require.True(t, injected.Met())
	length(t, server, q, 0)
}

// TestSecondReleaseDoesNotGuess who has deleted the node: it may have been the transaction, although that was not answered.
func TestSecondReleaseDoesNotGuess(t *testing.T) {
	for name, begin := range map[string]func(context.Context, *queue.Hold) error{
		"ReleaseWith": func(ctx context.Context, h *queue.Hold) error {
			_, err := h.ReleaseWith(ctx)
			return err
		},
		"Requeue": func(ctx context.Context, h *queue.Hold) error {
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
				require.ErrorIs(t, hold.Release(), queue.ErrReleased)
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
	_, err := queue.New(testbed.InProcess(t).Client(t), "/lock", "below/lock-", nil)
	require.ErrorIs(t, err, framework.ErrBadArgument)
}

// TestTimedOutWhileItBeginsToWaitIsNotAcquired, as later: somebody else is ahead in the queue.
func TestTimedOutWhileItBeginsToWaitIsNotAcquired(t *testing.T) {
	for name, driver := range map[string]queue.Driver{"standard": nil, "of a user": struct{ queue.Standard }{}} {
		t.Run(name, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
				foreign(t, client(), "/lock")
				q, err := queue.New(client(), "/lock", "lock-", driver)
				require.NoError(t, err)
				gate := server.Block(zktest.OnOp(zktest.OpGetData))
				defer gate.Open()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err = q.Acquire(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, queue.ErrNotAcquired)
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
		time.Sleep(time.Second) // virtual time, after which its node is watched: nothing reports that
		require.NoError(t, server.Delete(hold.Path()))
		testbed.Receive(t, hold.Done(), "word of the deletion")
	})
}

// TestMaxHoldOfASuspendedHoldEndsWithItsRelease: nothing keeps the Queue in memory until the time would be over.
func TestMaxHoldOfASuspendedHoldEndsWithItsRelease(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	queue := func() weak.Pointer[queue.Queue] {
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
type blind struct{ queue.Standard }

func (blind) Create(ctx context.Context, client *framework.Client, base, name string, data []byte) (string, error) {
	return client.Create(ctx, framework.Join(base, name), data, framework.As(framework.EphemeralSequential),
		framework.Protected(), framework.ContainerParents(), framework.ACL(zk.WorldACL(zk.PermAll&^zk.PermRead)))
}

// TestContenderThatMayNotReadIsRefused: servers do not report the end of a node to a client that may not read it. So a contender
// that may not read its own node or the one that it waits for gets zk.ErrNoAuth, never holds, and leaves nothing.
func TestContenderThatMayNotReadIsRefused(t *testing.T) {
	foreignNode := func(t *testing.T, client *framework.Client, acl []zk.ACL) string {
		node, err := client.Create(testbed.Context(t), "/lock/lock-", nil, framework.As(framework.EphemeralSequential),
			framework.ContainerParents(), framework.ACL(acl))
		require.NoError(t, err)
		return node
	}
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
			t.Run(fmt.Sprintf("%s, again %v", name, again), func(t *testing.T) {
				testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
					others := client()
					var opts []queue.Option
					if c.views {
						opts = append(opts, lock.WithLocalHandOff(1, time.Hour)) // has a view from the first acquire on
					}
					q := newQueue(t, client(c.client...), "/lock", opts...)
					var nodes []string
					for _, acl := range c.ahead {
						nodes = append(nodes, foreignNode(t, others, acl))
					}
					if again { // a view may begin at the second acquire
						ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
						_, err := q.Acquire(ctx)
						require.Error(t, err)
						cancel()
					}
					ended := make(chan result, 1)
					go func() {
						hold, err := q.Acquire(t.Context())
						ended <- result{hold, err}
					}()
					synctest.Wait()
					if len(nodes) == 2 { // the one that it may read goes
						open := slices.IndexFunc(c.ahead, func(acl []zk.ACL) bool { return acl[0].Perms == zk.PermAll })
						release(t, others, nodes[open])
						nodes = slices.Delete(nodes, open, open+1)
						synctest.Wait()
					}
					got := testbed.Receive(t, ended, "the refusal")
					require.ErrorIs(t, got.err, zk.ErrNoAuth)
					require.Nil(t, got.hold)
					children, err := server.Children("/lock")
					if len(nodes) > 0 {
						require.NoError(t, err)
						require.Len(t, children, 1, "nothing of ours stays")
						release(t, others, nodes[0])
					} else {
						require.Empty(t, children)
					}
					hold := acquire(t, newQueue(t, others, "/lock"))
					require.NoError(t, hold.Release())
				})
			})
		}
	}
}

// TestHoldOfADriverWhoseNodesMayNotBeReadEnds: nobody would notify the holder of the end of its node.
func TestHoldOfADriverWhoseNodesMayNotBeReadEnds(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		q, err := queue.New(client(), "/lock", "lock-", blind{})
		require.NoError(t, err)
		for range 3 {
			hold := acquire(t, q)
			testbed.Receive(t, hold.Done(), "the end")
			require.ErrorIs(t, hold.Err(), zk.ErrNoAuth)
			require.ErrorIs(t, hold.Err(), framework.ErrLost)
			err := hold.Release()
			require.ErrorIs(t, err, zk.ErrNoAuth)
			testbed.OneOp(t, err, "release", hold.Path())
			synctest.Wait()
			length(t, server, q, 0)
		}
	})
}
