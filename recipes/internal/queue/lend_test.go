package queue_test

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
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/internal/queue"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// handingOff makes a queue whose nodes are passed on, as often as a test likes.
func handingOff(t *testing.T, client *framework.Client, times int) *queue.Queue {
	t.Helper()
	q, err := queue.New(client, "/lock", "lock-", nil, lock.WithLocalHandOff(times, time.Minute))
	require.NoError(t, err)
	require.NoError(t, acquire(t, q).Release()) // the first one makes the path, and knows less of the queue
	return q
}

// inLine starts an Acquire that has to wait in memory. There is no sign of that: the server sees nothing. So
// tests count on nothing but the order of the line, and wait for what the server does see.
func inLine(ctx context.Context, q *queue.Queue) <-chan result {
	got := make(chan result, 1)
	go func() {
		hold, err := q.Acquire(ctx)
		got <- result{hold, err}
	}()
	return got
}

// passing acquires, and has another one wait in memory.
func passing(t *testing.T, q *queue.Queue) (first *queue.Hold, second <-chan result) {
	t.Helper()
	first = acquire(t, q)
	second = inLine(testbed.Context(t), q)
	testbed.Eventually(t, func() bool { return q.InLine() == 1 }, "the second one is in line")
	return first, second
}

func TestLocalHandOffArguments(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	for _, opts := range [][]queue.Option{
		{lock.WithLocalHandOff(0, time.Second)},
		{lock.WithLocalHandOff(1, 0)},
		{lock.WithLocalHandOff(1, time.Second), lock.WithMaxLeases(2)},
		{lock.WithLocalHandOff(1, time.Second), opt.Set(func(c *queue.Config) { c.Plain = true })},
	} {
		_, err := queue.New(client, "/lock", "lock-", nil, opts...)
		require.ErrorIs(t, err, framework.ErrBadArgument)
	}
	_, err := queue.New(client, "/lock", "lock-", struct{ queue.Standard }{}, lock.WithLocalHandOff(1, time.Second))
	require.ErrorIs(t, err, framework.ErrBadArgument)
}

func TestHundredGoroutinesNeedOneNode(t *testing.T) {
	server := zktest.NewServer(t)
	q := handingOff(t, testbed.On(server).Client(t), 1_000_000)
	first := acquire(t, q)
	const n, rounds = 100, 20
	var inside, total int
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for range rounds {
				err := q.Do(testbed.Context(t), func(context.Context) error {
					inside++ // no mutex but ours: -race would report a second holder
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
	server.ResetCounts()
	require.NoError(t, first.Release())
	wg.Wait()
	require.Equal(t, n*rounds, total)
	counts := counted(server)
	require.Less(t, counts[zktest.OpCreate], n, "nodes are passed on")
	length(t, server, q, 0)
}

func TestNodeIsPassedOnSoManyTimes(t *testing.T) {
	server := zktest.NewServer(t)
	q := handingOff(t, testbed.On(server).Client(t), 3)
	first := acquire(t, q)
	const n = 11
	var waiting []<-chan result
	for i := range n {
		waiting = append(waiting, inLine(testbed.Context(t), q))
		testbed.Eventually(t, func() bool { return q.InLine() == i+1 }, "one more in line")
	}
	server.ResetCounts()
	require.NoError(t, first.Release())
	for _, w := range waiting { // first come, first served
		got := testbed.Receive(t, w, "the lock")
		require.NoError(t, got.err)
		require.NoError(t, got.hold.Release())
	}
	require.Equal(t, 2, counted(server)[zktest.OpCreate], "12 holds, 4 of each node")
}

func TestNodeIsPassedOnForSoLong(t *testing.T) {
	server := zktest.NewServer(t)
	q, err := queue.New(testbed.On(server).Client(t), "/lock", "lock-", nil, lock.WithLocalHandOff(1000, time.Nanosecond))
	require.NoError(t, err)
	first, second := passing(t, q)
	server.ResetCounts()
	require.NoError(t, first.Release())
	got := testbed.Receive(t, second, "the lock")
	require.NoError(t, got.err)
	require.Equal(t, 1, counted(server)[zktest.OpCreate], "it has a node of its own")
	require.NoError(t, got.hold.Release())
}

func TestOthersInTheQueueComeFirst(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	q := handingOff(t, bed.Client(t), 1000)
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
	server := zktest.NewServer(t)
	q := handingOff(t, testbed.On(server).Client(t), 1000)
	hold := acquire(t, q)
	server.ResetCounts()
	_, err := q.TryAcquire(testbed.Context(t))
	require.ErrorIs(t, err, queue.ErrNotAcquired)
	require.Empty(t, counted(server), "that is known without a question")
	require.NoError(t, hold.Release())
	again, err := q.TryAcquire(testbed.Context(t))
	require.NoError(t, err)
	require.NoError(t, again.Release())
}

// TestWhatProvesAHoldIsNotPassedOn is about tokens and guards: they are the node's, so the node goes with
// the holder that has shown them to anybody.
func TestWhatProvesAHoldIsNotPassedOn(t *testing.T) {
	for what, show := range map[string]func(*testing.T, *queue.Hold){
		"token": func(t *testing.T, h *queue.Hold) {
			_, err := h.FencingToken(testbed.Context(t))
			require.NoError(t, err)
		},
		"guard": func(_ *testing.T, h *queue.Hold) { h.Guard() },
		"path":  func(_ *testing.T, h *queue.Hold) { h.Path() },
	} {
		t.Run(what, func(t *testing.T) {
			server := zktest.NewServer(t)
			q := handingOff(t, testbed.On(server).Client(t), 1000)
			first, second := passing(t, q)
			show(t, first)
			server.ResetCounts()
			require.NoError(t, first.Release())
			got := testbed.Receive(t, second, "the lock")
			require.NoError(t, got.err)
			require.Equal(t, 1, counted(server)[zktest.OpCreate])
			require.NoError(t, got.hold.Release())
		})
	}
}

// TestTextOfAHold is about String: it changes nothing for others, unlike Path.
func TestTextOfAHold(t *testing.T) {
	server := zktest.NewServer(t)
	q := handingOff(t, testbed.On(server).Client(t), 1000)
	first, second := passing(t, q)
	server.ResetCounts()
	text := first.String()
	require.NoError(t, first.Release())
	got := testbed.Receive(t, second, "the lock")
	require.NoError(t, got.err)
	require.Zero(t, counted(server)[zktest.OpCreate], "the node was passed on")

	path := got.hold.Path()
	require.Equal(t, path+" (held)", text)
	require.Equal(t, path+" (released)", first.String())
	require.NoError(t, server.Delete(path))
	testbed.Receive(t, got.hold.Done(), "the loss")
	require.Equal(t, path+" (ended: lock node deleted by another)", fmt.Sprint(got.hold))
}

func TestGuardOfAHoldThatWasPassedOn(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	q := handingOff(t, client, 1000)
	first, second := passing(t, q)
	server.ResetCounts()
	require.NoError(t, first.Release())
	got := testbed.Receive(t, second, "the lock")
	require.NoError(t, got.err)
	require.Zero(t, counted(server)[zktest.OpCreate], "the node was passed on")

	_, err := client.Multi(testbed.Context(t), first.Guard())
	require.ErrorIs(t, err, zk.ErrNoNode, "the first one is late, although the node is there")
	_, err = first.FencingToken(testbed.Context(t))
	require.ErrorIs(t, err, queue.ErrReleased)
	require.ErrorIs(t, first.Release(), queue.ErrReleased)
	require.ErrorIs(t, first.Err(), queue.ErrReleased)

	require.NoError(t, got.hold.Err())
	_, err = client.Multi(testbed.Context(t), got.hold.Guard())
	require.NoError(t, err)
	require.NoError(t, got.hold.Release())
	length(t, server, q, 0)
}

// TestContextOfAHoldThatWasPassedOnBelongsToItsSession, as that of any hold.
func TestContextOfAHoldThatWasPassedOnBelongsToItsSession(t *testing.T) {
	bed := testbed.InProcess(t)
	client := bed.Client(t)
	first, second := passing(t, handingOff(t, client, 1000))
	require.NoError(t, first.Release())
	got := testbed.Receive(t, second, "the lock")
	require.NoError(t, got.err)
	bed.KillSession(t, client)
	testbed.Receive(t, got.hold.Session().Done(), "the end of the session")
	_, _, err := client.Get(context.WithoutCancel(got.hold.Context()), "/lock")
	require.ErrorIs(t, err, framework.ErrSessionLost)
}

func TestTokensRiseFromHolderToHolder(t *testing.T) {
	q := handingOff(t, testbed.InProcess(t).Client(t), 5)
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
		lose func(t *testing.T, bed *testbed.Bed, client *framework.Client, hold *queue.Hold)
		want error
	}{
		"session": {func(t *testing.T, bed *testbed.Bed, client *framework.Client, _ *queue.Hold) {
			bed.KillSession(t, client)
		}, nil}, // the connection goes first
		"deleted": {func(t *testing.T, bed *testbed.Bed, client *framework.Client, hold *queue.Hold) {
			require.NoError(t, bed.Client(t).Delete(testbed.Context(t), hold.Path(), -1))
		}, queue.ErrNodeDeleted},
		"closed": {func(t *testing.T, _ *testbed.Bed, client *framework.Client, _ *queue.Hold) {
			require.NoError(t, client.Close())
		}, framework.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			bed := testbed.On(server)
			client := bed.Client(t)
			q := handingOff(t, client, 1000)
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
	testbed.Virtual(t, func(t *testing.T, _ *zktest.Server, client func(...framework.Option) *framework.Client) {
		q, err := queue.New(client(), "/lock", "lock-", nil,
			lock.WithLocalHandOff(1000, time.Minute), lock.WithMaxHold(200*time.Millisecond))
		require.NoError(t, err)
		first, second := passing(t, q)
		require.NoError(t, first.Release())
		got := testbed.Receive(t, second, "the lock")
		require.NoError(t, got.err)
		third := inLine(testbed.Context(t), q)
		testbed.Receive(t, got.hold.Done(), "the end of its time")
		require.ErrorIs(t, got.hold.Err(), queue.ErrMaxHold)
		require.ErrorIs(t, first.Err(), queue.ErrReleased)
		got = testbed.Receive(t, third, "the lock")
		require.NoError(t, got.err)
		require.NoError(t, got.hold.Release())
	})
}

// TestLossThatComesTooLate is about a holder whose time runs out while it releases: the node is not its own any
// more.
func TestLossThatComesTooLate(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, _ *zktest.Server, client func(...framework.Option) *framework.Client) {
		q := handingOff(t, client(), 1000)
		first, second := passing(t, q)
		require.True(t, first.ReleaseDuring(func() { first.Lose(queue.ErrMaxHold) }))
		got := testbed.Receive(t, second, "the lock")
		require.NoError(t, got.err)
		synctest.Wait() // until a deletion would have been carried out
		require.Equal(t, first.Path(), got.hold.Path(), "it has got the node")
		token, err := got.hold.FencingToken(testbed.Context(t))
		require.NoError(t, err)
		require.Positive(t, token)
		require.NoError(t, got.hold.Err())
		require.NoError(t, got.hold.Release())
	})
}

func TestLeavingTheLine(t *testing.T) {
	server := zktest.NewServer(t)
	q := handingOff(t, testbed.On(server).Client(t), 1000)
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
	q := handingOff(t, testbed.On(server).Client(t), 1000)
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

// TestEachRequestFailsWithHandOff has several goroutines share a lock while each of their requests fails in
// turn, before and after it is applied, and ends the session.
func TestEachRequestFailsWithHandOff(t *testing.T) {
	for _, fault := range testbed.Faults {
		for n := 1; ; n++ {
			met := false
			t.Run(fmt.Sprintf("%v of request %d", fault, n), func(t *testing.T) {
				server := zktest.NewServer(t)
				bed := testbed.On(server)
				client := bed.Client(t)
				require.NoError(t, client.WaitConnected(testbed.Context(t)))
				q := handingOff(t, client, 2)
				session, err := client.Session(testbed.Context(t))
				require.NoError(t, err)
				injected := server.Inject(fault, n, zktest.OnSession(session.ID()), zktest.OnOp(zktest.OpCreate, zktest.OpCreateContainer, zktest.OpDelete, zktest.OpGetChildren2, zktest.OpGetData))
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

// held are the holds of those who are inside.
type held struct {
	mu    sync.Mutex
	holds map[*queue.Hold]bool
}

// add has one more inside, where all others must have been notified that they have lost the lock.
func (h *held) add(t *testing.T, hold *queue.Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for other := range h.holds {
		assert.Error(t, other.Err(), "two holders")
	}
	if h.holds == nil {
		h.holds = make(map[*queue.Hold]bool)
	}
	h.holds[hold] = true
}

func (h *held) remove(hold *queue.Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.holds, hold)
}

// TestTryAcquireAfterAnAsyncRelease: the delete has been sent, so the lock is free for whoever asks next.
func TestTryAcquireAfterAnAsyncRelease(t *testing.T) {
	for name, opts := range map[string][]queue.Option{
		"alone":          nil,
		"local hand-off": {lock.WithLocalHandOff(10, time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithLatency(5*time.Millisecond))
				client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext))
				q, err := queue.New(client, "/lock", "lock-", nil, append(opts, lock.WithAsyncRelease())...)
				require.NoError(t, err)
				for range 5 {
					h, err := q.TryAcquire(t.Context())
					require.NoError(t, err)
					require.NoError(t, h.Release())
				}
			})
		})
	}
}

// TestHandOffKeepsTheOrderThroughTrouble has the connection, or the session, be lost just when a node is handed off: whoever was
// given it is still the next.
func TestHandOffKeepsTheOrderThroughTrouble(t *testing.T) {
	for name, trouble := range map[string]func(*zktest.Server, *queue.Hold) error{
		"suspension": func(*zktest.Server, *queue.Hold) error { return nil },
		"session":    func(s *zktest.Server, h *queue.Hold) error { return s.ExpireSession(h.Session().ID()) },
		"deletion": func(s *zktest.Server, h *queue.Hold) error {
			return s.Delete(h.String()[:strings.Index(h.String(), " ")])
		},
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, server *zktest.Server, newClient func(...framework.Option) *framework.Client) {
				client := newClient(framework.WithRetryPolicy(retry.Forever(50 * time.Millisecond)))
				q := handingOff(t, client, 100)
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
					server.RefuseConnections(true)
					server.CutConnections()
					synctest.Wait()
					require.Equal(t, connstate.Suspended, client.State())
					require.NoError(t, trouble(server, first))
				}))
				synctest.Wait()
				server.RefuseConnections(false)
				all.Wait()
				close(order)
				var got []int
				for i := range order {
					got = append(got, i)
				}
				require.Equal(t, []int{0, 1, 2}, got)
				length(t, server, q, 0)
			})
		})
	}
}
