package lock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// handingOff creates a queue whose nodes are handed over between goroutines, and hardly kept.
func handingOff(t *testing.T, client *framework.Client) *lock.Queue {
	t.Helper()
	q := newQueue(t, client, "/lock", lock.WithRetention(time.Millisecond))
	// The first one creates the path, and knows less of the queue.
	require.NoError(t, acquire(t, q).Release())
	return q
}

// passing acquires, and has another one wait in memory. The server sees nothing of that one.
func passing(t *testing.T, q *lock.Queue) (first *lock.Hold, second <-chan result) {
	t.Helper()
	first = acquire(t, q)
	second = start(testbed.Context(t), q.Acquire)
	testbed.Eventually(t, func() bool { return q.InLine() == 1 }, "the second one is in line")
	return first, second
}

// passedOn returns a hold whose node was handed over to the second one.
func passedOn(t *testing.T, q *lock.Queue) (first, second *lock.Hold) {
	t.Helper()
	first, waiting := passing(t, q)
	require.NoError(t, first.Release())
	second = received(t, waiting)
	require.Equal(t, first.Path(), second.Path(), "the node was handed over")
	return first, second
}

// TestNodeIsPassedOnForAMinute: another client may wait whose node this client may not read.
func TestNodeIsPassedOnForAMinute(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		first, second := passing(t, handingOff(t, w.Client()))
		time.Sleep(time.Minute) // virtual time
		require.NoError(t, first.Release())
		got := received(t, second)
		require.NotEqual(t, first.Path(), got.Path(), "it has a node of its own")
		require.NoError(t, got.Release())
	})
}

func TestOthersInTheQueueComeFirst(t *testing.T) {
	server, bed := newServer(t)
	first, second := passing(t, handingOff(t, bed.Client(t)))
	other := acquiring(t, testbed.Context(t), newQueue(t, bed.Client(t), "/lock"), server, 2)
	testbed.Eventually(t, func() bool { return !first.Alone() }, "we hear of the other one")
	require.NoError(t, first.Release())
	got := received(t, other)
	require.Empty(t, second, "two holders")
	require.NoError(t, got.Release())
	require.NoError(t, received(t, second).Release())
}

// TestWhatProvesAHoldIsNotPassedOn is about tokens and guards. They identify the node, so a node
// whose token or guard was read is deleted with its hold.
func TestWhatProvesAHoldIsNotPassedOn(t *testing.T) {
	for what, show := range map[string]func(*testing.T, *lock.Hold){
		"token": func(t *testing.T, h *lock.Hold) {
			require.NoError(t, testbed.Err(h.FencingToken(testbed.Context(t))))
		},
		"guard": func(_ *testing.T, h *lock.Hold) { h.Guard() },
	} {
		t.Run(what, func(t *testing.T) {
			server := zktest.NewServer(t)
			first, second := passing(t, handingOff(t, testbed.On(server).Client(t)))
			show(t, first)
			server.ResetCounts()
			require.NoError(t, first.Release())
			got := received(t, second)
			require.Equal(t, 1, counted(server)["create"])
			require.NoError(t, got.Release())
		})
	}
}

// TestTextOfAHold is about String and Path: neither keeps the node from being handed over.
func TestTextOfAHold(t *testing.T) {
	server := zktest.NewServer(t)
	first, second := passing(t, handingOff(t, testbed.On(server).Client(t)))
	text, path := first.String(), first.Path()
	require.NoError(t, first.Release())
	got := received(t, second)
	require.Equal(t, path, got.Path(), "the node was handed over")
	require.Equal(t, path+" (held)", text)
	require.Equal(t, path+" (released)", first.String())
	require.NoError(t, server.Delete(path))
	testbed.Receive(t, got.Done(), "the loss")
	require.Equal(t, path+" (ended: lock node deleted by another)", fmt.Sprint(got))
}

// TestProofOfAHoldThatWasPassedOn: the first holder is late, although its node exists.
func TestProofOfAHoldThatWasPassedOn(t *testing.T) {
	server := zktest.NewServer(t)
	client, ctx := testbed.On(server).Client(t), testbed.Context(t)
	q := handingOff(t, client)
	first, second := passedOn(t, q)
	require.ErrorIs(t, testbed.Err(client.Multi(ctx, first.Guard())), zk.ErrNoNode)
	_, err := first.Multi(ctx, framework.CreateOp("/no", nil))
	require.ErrorIs(t, err, lock.ErrNodeDeleted)
	require.ErrorIs(t, err, lock.ErrReleased)
	require.ErrorIs(t, testbed.Err(first.FencingToken(ctx)), lock.ErrReleased)
	require.ErrorIs(t, first.Release(), lock.ErrReleased)
	require.ErrorIs(t, first.Err(), lock.ErrReleased)

	require.NoError(t, second.Err())
	require.NoError(t, testbed.Err(client.Multi(ctx, second.Guard())))
	require.NoError(t, testbed.Err(second.Multi(ctx, framework.CreateOp("/yes", nil))))
	require.NoError(t, second.Release())
	length(t, server, q, 0)
}

func TestTokensRiseFromHolderToHolder(t *testing.T) {
	q := handingOff(t, testbed.InProcess(t).Client(t))
	var last atomic.Int64
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			hold, err := q.Acquire(testbed.Context(t))
			if !assert.NoError(t, err) {
				return
			}
			if i%3 == 0 {
				token, err := hold.FencingToken(testbed.Context(t))
				assert.NoError(t, err)
				assert.Greater(t, token, last.Swap(token))
			}
			assert.NoError(t, hold.Release())
		})
	}
	wg.Wait()
}

// TestLossOfANodeThatWasPassedOn ends the second holder's hold in all ways there are.
func TestLossOfANodeThatWasPassedOn(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(t *testing.T, bed *testbed.Bed, client *framework.Client, hold *lock.Hold)
		want error
	}{
		"session": {func(t *testing.T, bed *testbed.Bed, client *framework.Client, _ *lock.Hold) {
			bed.ExpireSession(t, client)
		}, nil}, // the connection is lost first
		"deleted": {func(t *testing.T, bed *testbed.Bed, client *framework.Client, hold *lock.Hold) {
			require.NoError(t, bed.Client(t).Delete(testbed.Context(t), hold.Path()))
		}, lock.ErrNodeDeleted},
		"closed": {func(t *testing.T, _ *testbed.Bed, client *framework.Client, _ *lock.Hold) {
			require.NoError(t, client.Close())
		}, framework.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			bed := testbed.On(zktest.NewServer(t))
			client := bed.Client(t)
			q := handingOff(t, client)
			_, got := passedOn(t, q)
			third := start(testbed.Context(t), q.Acquire)
			testbed.Eventually(t, func() bool { return q.InLine() == 1 }, "a third one is in line")
			c.lose(t, bed, client, got)
			testbed.Receive(t, got.Done(), "word of the loss")
			if c.want != nil {
				require.ErrorIs(t, got.Err(), c.want)
			}
			last := testbed.Receive(t, third, "the third one's turn, without a release")
			if name == "closed" {
				require.ErrorIs(t, last.err, framework.ErrClosed)
				return
			}
			require.NoError(t, last.err)
			require.NoError(t, last.hold.Release())
			require.Error(t, got.Release())
		})
	}
}

func TestMaxHoldIsEachHoldersOwn(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := newQueue(t, w.Client(), "/lock", lock.WithRetention(time.Millisecond), lock.WithMaxHold(200*time.Millisecond))
		first, got := passedOn(t, q)
		third := start(testbed.Context(t), q.Acquire)
		testbed.Receive(t, got.Done(), "the end of its time")
		require.ErrorIs(t, got.Err(), lock.ErrMaxHold)
		require.ErrorIs(t, first.Err(), lock.ErrReleased)
		require.NoError(t, received(t, third).Release())
	})
}

// TestRelease_WhenAnotherJoins has the event of a node that has joined be received between the
// decision to delete the own node and its deletion.
func TestRelease_WhenAnotherJoins(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q, other := handingOff(t, w.Client()), newQueue(t, w.Client(), "/lock")
		hold := acquire(t, q)
		waiting := start(testbed.Context(t), other.Acquire)
		synctest.Wait() // it is in the queue
		require.False(t, hold.Alone())
		handedOver, err := hold.ReleaseGivenBack(synctest.Wait)
		require.False(t, handedOver)
		require.NoError(t, err, "no other client has deleted the node")
		require.NoError(t, received(t, waiting).Release())
	})
}

// TestLossThatComesTooLate is about a holder whose time runs out while it releases: the node is not
// its own any more.
func TestLossThatComesTooLate(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		first, second := passing(t, handingOff(t, w.Client()))
		require.True(t, first.ReleaseDuring(func() { first.Lose(lock.ErrMaxHold) }))
		got := received(t, second)
		synctest.Wait() // until a deletion would have been carried out
		require.Equal(t, first.Path(), got.Path(), "it has got the node")
		first.Lose(lock.ErrMaxHold) // even later
		require.Positive(t, testbed.Must(got.FencingToken(testbed.Context(t))))
		require.NoError(t, got.Err())
		require.NoError(t, got.Release())
	})
}

func TestLeavingTheLine(t *testing.T) {
	q := handingOff(t, testbed.On(zktest.NewServer(t)).Client(t))
	first := acquire(t, q)
	ctx, cancel := context.WithCancel(testbed.Context(t))
	second := start(ctx, q.Acquire)
	testbed.Eventually(t, func() bool { return q.InLine() == 1 }, "the second one is in line")
	third := start(testbed.Context(t), q.Acquire)
	testbed.Eventually(t, func() bool { return q.InLine() == 2 }, "the third one is in line")
	cancel()
	require.ErrorIs(t, testbed.Receive(t, second, "the end of waiting").err, context.Canceled)
	require.NoError(t, first.Release())
	require.NoError(t, received(t, third).Release())
}

// TestLeavingTheLineAtTheLastMoment has waiters give up while they are served.
func TestLeavingTheLineAtTheLastMoment(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := handingOff(t, w.Client())
		for range 200 {
			first := acquire(t, q)
			ctx, cancel := context.WithCancel(t.Context())
			second := start(ctx, q.Acquire)
			third := start(t.Context(), q.Acquire)
			synctest.Wait() // both are in line
			go cancel()
			require.NoError(t, first.Release())
			for _, waiter := range []<-chan result{second, third} {
				if got := testbed.Receive(t, waiter, "an answer"); got.err == nil {
					// The other one may be waiting for it.
					require.NoError(t, got.hold.Release())
				} else {
					require.ErrorIs(t, got.err, context.Canceled)
				}
			}
			cancel()
		}
		length(t, w.Server, q, 0)
	})
}

// TestHandOffWithAnyRequestFailing has several goroutines share a lock. When one acquires, the one
// before has released, or was notified that it has lost the lock.
func TestHandOffWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, s scenario) {
		var mu sync.Mutex
		var last *lock.Hold
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 3 {
					hold, err := s.subject.Acquire(testbed.Context(t))
					if !assert.NoError(t, err) {
						return
					}
					mu.Lock()
					if last != nil {
						assert.Error(t, last.Err(), "two holders")
					}
					last = hold
					mu.Unlock()
					_ = hold.Release() // that it was lost is expected
				}
			})
		}
		wg.Wait()
		s.finish(t)
	}, lock.WithRetention(time.Millisecond))
}

// TestHandOffKeepsTheOrderThroughTrouble loses the connection, or the session, during the hand-off
// of a node: the receiver is still the next holder.
func TestHandOffKeepsTheOrderThroughTrouble(t *testing.T) {
	for name, trouble := range map[string]func(*zktest.Server, *lock.Hold) error{
		"suspension": func(*zktest.Server, *lock.Hold) error { return nil },
		"session":    func(s *zktest.Server, h *lock.Hold) error { return s.ExpireSession(h.Session().ID()) },
		"deletion": func(s *zktest.Server, h *lock.Hold) error {
			return s.Delete(h.String()[:strings.Index(h.String(), " ")])
		},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			client := w.Client(framework.WithRetryPolicy(retry.Forever(50 * time.Millisecond)))
			q := handingOff(t, client)
			first := acquire(t, q)
			var order []int // guarded by the lock
			var all sync.WaitGroup
			for i := range 3 {
				all.Go(func() {
					assert.NoError(t, q.Do(t.Context(), func(context.Context) error { order = append(order, i); return nil }))
				})
				synctest.Wait() // it waits
			}
			require.True(t, first.ReleaseDuring(func() {
				w.Server.RefuseConnections(true)
				w.Server.CutConnections()
				synctest.Wait()
				require.Equal(t, connstate.Suspended, client.State())
				require.NoError(t, trouble(w.Server, first))
			}))
			synctest.Wait()
			w.Server.RefuseConnections(false)
			all.Wait()
			require.Equal(t, []int{0, 1, 2}, order)
			length(t, w.Server, q, 0)
		})
	}
}
