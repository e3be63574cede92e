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
	q, err := lock.New(client, "/lock", "lock-", nil, lock.WithRetention(time.Millisecond))
	require.NoError(t, err)
	// The first one creates the path, and knows less of the queue.
	require.NoError(t, acquire(t, q).Release())
	return q
}

// inLine starts an Acquire that has to wait in memory. There is no sign of that: the server sees
// nothing. So tests count on nothing but the order of the line, and wait for what the server does
// see.
func inLine(ctx context.Context, q *lock.Queue) <-chan result {
	got := make(chan result, 1)
	go func() {
		hold, err := q.Acquire(ctx)
		got <- result{hold, err}
	}()
	return got
}

// passing acquires, and has another one wait in memory.
func passing(t *testing.T, q *lock.Queue) (first *lock.Hold, second <-chan result) {
	t.Helper()
	first = acquire(t, q)
	second = inLine(testbed.Context(t), q)
	testbed.Eventually(t, func() bool { return q.InLine() == 1 }, "the second one is in line")
	return first, second
}

func TestHundredGoroutinesNeedOneNode(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := handingOff(t, w.Client())
		first := acquire(t, q)
		const n, rounds = 100, 20
		var inside, total int
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				for range rounds {
					err := q.Do(testbed.Context(t), func(context.Context) error {
						inside++ // no other mutex: -race would report a second holder
						assert.Equal(t, 1, inside)
						total++
						inside--
						return nil
					})
					assert.NoError(t, err)
				}
			})
		}
		testbed.Eventually(t, func() bool { return q.InLine() == n }, "all are in line")
		w.Server.ResetCounts()
		require.NoError(t, first.Release())
		wg.Wait()
		require.Equal(t, n*rounds, total)
		counts := counted(w.Server)
		require.Less(t, counts["create"], n, "nodes are passed on")
		length(t, w.Server, q, 0)
	})
}

// TestNodeIsPassedOnForAMinute: another client may wait whose node this client may not read.
func TestNodeIsPassedOnForAMinute(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		first, second := passing(t, handingOff(t, w.Client()))
		time.Sleep(time.Minute) // virtual time
		require.NoError(t, first.Release())
		got := testbed.Receive(t, second, "the lock")
		require.NoError(t, got.err)
		require.NotEqual(t, first.Path(), got.hold.Path(), "it has a node of its own")
		require.NoError(t, got.hold.Release())
	})
}

func TestOthersInTheQueueComeFirst(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	q := handingOff(t, bed.Client(t))
	first, second := passing(t, q)
	other := acquiring(t, testbed.Context(t), newQueue(t, bed.Client(t), "/lock"), server, 2)
	testbed.Eventually(t, func() bool { return !first.Alone() }, "we hear of the other one")
	require.NoError(t, first.Release())
	got := testbed.Receive(t, other, "the lock")
	require.NoError(t, got.err)
	select {
	case <-second:
		t.Fatal("two holders")
	default:
	}
	require.NoError(t, got.hold.Release())
	got = testbed.Receive(t, second, "the lock")
	require.NoError(t, got.err)
	require.NoError(t, got.hold.Release())
}

func TestTryWhileOneOfUsHolds(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := handingOff(t, w.Client())
		hold := acquire(t, q)
		synctest.Wait()
		w.Server.ResetCounts()
		_, err := q.TryAcquire(testbed.Context(t))
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.Empty(t, counted(w.Server), "that is known without a question")
		require.NoError(t, hold.Release())
		again, err := q.TryAcquire(testbed.Context(t))
		require.NoError(t, err)
		require.NoError(t, again.Release())
	})
}

// TestWhatProvesAHoldIsNotPassedOn is about tokens and guards. They identify the node, so a node
// whose token or guard was read is deleted with its hold.
func TestWhatProvesAHoldIsNotPassedOn(t *testing.T) {
	for what, show := range map[string]func(*testing.T, *lock.Hold){
		"token": func(t *testing.T, h *lock.Hold) {
			_, err := h.FencingToken(testbed.Context(t))
			require.NoError(t, err)
		},
		"guard": func(_ *testing.T, h *lock.Hold) { h.Guard() },
	} {
		t.Run(what, func(t *testing.T) {
			server := zktest.NewServer(t)
			q := handingOff(t, testbed.On(server).Client(t))
			first, second := passing(t, q)
			show(t, first)
			server.ResetCounts()
			require.NoError(t, first.Release())
			got := testbed.Receive(t, second, "the lock")
			require.NoError(t, got.err)
			require.Equal(t, 1, counted(server)["create"])
			require.NoError(t, got.hold.Release())
		})
	}
}

// TestTextOfAHold is about String and Path: neither keeps the node from being handed over.
func TestTextOfAHold(t *testing.T) {
	server := zktest.NewServer(t)
	q := handingOff(t, testbed.On(server).Client(t))
	first, second := passing(t, q)
	server.ResetCounts()
	text, path := first.String(), first.Path()
	require.NoError(t, first.Release())
	got := testbed.Receive(t, second, "the lock")
	require.NoError(t, got.err)
	require.Zero(t, counted(server)["create"], "the node was passed on")

	require.Equal(t, path, got.hold.Path())
	require.Equal(t, path+" (held)", text)
	require.Equal(t, path+" (released)", first.String())
	require.NoError(t, server.Delete(path))
	testbed.Receive(t, got.hold.Done(), "the loss")
	require.Equal(t, path+" (ended: lock node deleted by another)", fmt.Sprint(got.hold))
}

func TestGuardOfAHoldThatWasPassedOn(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	q := handingOff(t, client)
	first, second := passing(t, q)
	server.ResetCounts()
	require.NoError(t, first.Release())
	got := testbed.Receive(t, second, "the lock")
	require.NoError(t, got.err)
	require.Zero(t, counted(server)["create"], "the node was passed on")

	_, err := client.Multi(testbed.Context(t), first.Guard())
	require.ErrorIs(t, err, zk.ErrNoNode, "the first one is late, although the node is there")
	_, err = first.FencingToken(testbed.Context(t))
	require.ErrorIs(t, err, lock.ErrReleased)
	require.ErrorIs(t, first.Release(), lock.ErrReleased)
	require.ErrorIs(t, first.Err(), lock.ErrReleased)

	require.NoError(t, got.hold.Err())
	_, err = client.Multi(testbed.Context(t), got.hold.Guard())
	require.NoError(t, err)
	require.NoError(t, got.hold.Release())
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
			server := zktest.NewServer(t)
			bed := testbed.On(server)
			client := bed.Client(t)
			q := handingOff(t, client)
			first, second := passing(t, q)
			require.NoError(t, first.Release())
			got := testbed.Receive(t, second, "the lock")
			require.NoError(t, got.err)
			third := inLine(testbed.Context(t), q)
			testbed.Eventually(t, func() bool { return q.InLine() == 1 }, "a third one is in line")
			c.lose(t, bed, client, got.hold)
			testbed.Receive(t, got.hold.Done(), "word of the loss")
			if c.want != nil {
				require.ErrorIs(t, got.hold.Err(), c.want)
			}
			last := testbed.Receive(t, third, "the third one's turn, without a release")
			if name == "closed" {
				require.ErrorIs(t, last.err, framework.ErrClosed)
				return
			}
			require.NoError(t, last.err)
			require.NoError(t, last.hold.Release())
			require.Error(t, got.hold.Release())
		})
	}
}

func TestMaxHoldIsEachHoldersOwn(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q, err := lock.New(w.Client(), "/lock", "lock-", nil,
			lock.WithRetention(time.Millisecond), lock.WithMaxHold(200*time.Millisecond))
		require.NoError(t, err)
		first, second := passing(t, q)
		require.NoError(t, first.Release())
		got := testbed.Receive(t, second, "the lock")
		require.NoError(t, got.err)
		third := inLine(testbed.Context(t), q)
		testbed.Receive(t, got.hold.Done(), "the end of its time")
		require.ErrorIs(t, got.hold.Err(), lock.ErrMaxHold)
		require.ErrorIs(t, first.Err(), lock.ErrReleased)
		got = testbed.Receive(t, third, "the lock")
		require.NoError(t, got.err)
		require.NoError(t, got.hold.Release())
	})
}

// TestRelease_WhenAnotherJoins has the event of a node that has joined be received between the
// decision to delete the own node and its deletion.
func TestRelease_WhenAnotherJoins(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q, other := handingOff(t, w.Client()), newQueue(t, w.Client(), "/lock")
		hold := acquire(t, q)
		waiting := inLine(testbed.Context(t), other)
		synctest.Wait() // it is in the queue
		require.False(t, hold.Alone())
		handedOver, err := hold.ReleaseGivenBack(synctest.Wait)
		require.False(t, handedOver)
		require.NoError(t, err, "no other client has deleted the node")
		got := testbed.Receive(t, waiting, "the lock")
		require.NoError(t, got.err)
		require.NoError(t, got.hold.Release())
	})
}

// TestLossThatComesTooLate is about a holder whose time runs out while it releases: the node is not
// its own any more.
func TestLossThatComesTooLate(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := handingOff(t, w.Client())
		first, second := passing(t, q)
		require.True(t, first.ReleaseDuring(func() { first.Lose(lock.ErrMaxHold) }))
		got := testbed.Receive(t, second, "the lock")
		require.NoError(t, got.err)
		synctest.Wait() // until a deletion would have been carried out
		require.Equal(t, first.Path(), got.hold.Path(), "it has got the node")
		first.Lose(lock.ErrMaxHold) // even later
		token, err := got.hold.FencingToken(testbed.Context(t))
		require.NoError(t, err)
		require.Positive(t, token)
		require.NoError(t, got.hold.Err())
		require.NoError(t, got.hold.Release())
	})
}

func TestLeavingTheLine(t *testing.T) {
	server := zktest.NewServer(t)
	q := handingOff(t, testbed.On(server).Client(t))
	first := acquire(t, q)
	ctx, cancel := context.WithCancel(testbed.Context(t))
	second := inLine(ctx, q)
	testbed.Eventually(t, func() bool { return q.InLine() == 1 }, "the second one is in line")
	third := inLine(testbed.Context(t), q)
	testbed.Eventually(t, func() bool { return q.InLine() == 2 }, "the third one is in line")
	cancel()
	require.ErrorIs(t, testbed.Receive(t, second, "the end of waiting").err, context.Canceled)
	require.NoError(t, first.Release())
	got := testbed.Receive(t, third, "the lock")
	require.NoError(t, got.err)
	require.NoError(t, got.hold.Release())
}

// TestLeavingTheLineAtTheLastMoment has waiters give up while they are served.
func TestLeavingTheLineAtTheLastMoment(t *testing.T) {
	server := zktest.NewServer(t)
	q := handingOff(t, testbed.On(server).Client(t))
	for range 200 {
		first := acquire(t, q)
		ctx, cancel := context.WithCancel(testbed.Context(t))
		second := inLine(ctx, q)
		third := inLine(testbed.Context(t), q)
		go cancel()
		require.NoError(t, first.Release())
		for _, w := range []<-chan result{second, third} {
			if got := testbed.Receive(t, w, "an answer"); got.err == nil {
				// The other one may be waiting for it.
				require.NoError(t, got.hold.Release())
			} else {
				require.ErrorIs(t, got.err, context.Canceled)
			}
		}
		cancel()
	}
	length(t, server, q, 0)
}

// TestEachRequestFailsWithHandOff has several goroutines share a lock while each of their requests
// fails in turn, before and after it is applied, and ends the session.
func TestEachRequestFailsWithHandOff(t *testing.T) {
	for _, fault := range testbed.Faults {
		for n := 1; ; n++ {
			met := false
			t.Run(fmt.Sprintf("%v of request %d", fault, n), func(t *testing.T) {
				server := zktest.NewServer(t)
				bed := testbed.On(server)
				client := bed.Client(t)
				require.NoError(t, client.WaitConnected(testbed.Context(t)))
				q := handingOff(t, client)
				session, err := client.Session(testbed.Context(t))
				require.NoError(t, err)
				injected := server.Inject(fault, n, zktest.OnSession(session.ID()), zktest.OnOp("create", "createContainer", "delete", "getChildren2", "getData"))
				var inside held
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() {
						for range 3 {
							hold, err := q.Acquire(testbed.Context(t))
							if !assert.NoError(t, err) {
								return
							}
							inside.add(t, hold)
							inside.remove(hold)
							_ = hold.Release() // that it was lost is expected
						}
					})
				}
				wg.Wait()
				met = injected.Met()
				length(t, server, q, 0)
			})
			if !met {
				break
			}
			require.Less(t, n, 200)
		}
	}
}

// held are the current holds.
type held struct {
	mu    sync.Mutex
	holds map[*lock.Hold]bool
}

// add has one more inside, where all others must have been notified that they have lost the lock.
func (h *held) add(t *testing.T, hold *lock.Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for other := range h.holds {
		assert.Error(t, other.Err(), "two holders")
	}
	if h.holds == nil {
		h.holds = make(map[*lock.Hold]bool)
	}
	h.holds[hold] = true
}

func (h *held) remove(hold *lock.Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.holds, hold)
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
		t.Run(name, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
				client := w.Client(framework.WithRetryPolicy(retry.Forever(50 * time.Millisecond)))
				q := handingOff(t, client)
				first := acquire(t, q)
				order := make(chan int, 3)
				var all sync.WaitGroup
				for i := range 3 {
					all.Go(func() {
						hold, err := q.Acquire(t.Context())
						if assert.NoError(t, err) {
							order <- i
							assert.NoError(t, hold.Release())
						}
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
				close(order)
				var got []int
				for i := range order {
					got = append(got, i)
				}
				require.Equal(t, []int{0, 1, 2}, got)
				length(t, w.Server, q, 0)
			})
		})
	}
}
