package lock_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// many is a number of contenders whose queue is too long for a view.
const many = 14

// queueOf creates the nodes of n contenders.
func queueOf(t *testing.T, client *framework.Client, path string, n int) (nodes []string) {
	t.Helper()
	for range n {
		nodes = append(nodes, foreign(t, client, path))
	}
	return nodes
}

// release deletes nodes of others.
func release(t *testing.T, client *framework.Client, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		require.NoError(t, client.Delete(testbed.Context(t), node))
	}
}

// inLongQueue has q wait behind others.
func inLongQueue(t *testing.T, server *zktest.Server, q *lock.Queue, others *framework.Client) (nodes []string, mine <-chan result) {
	t.Helper()
	nodes = queueOf(t, others, "/lock", many)
	mine = acquiring(t, t.Context(), q, server, many+1)
	synctest.Wait()
	require.False(t, q.Viewed(), "the queue is long")
	return nodes, mine
}

// own is the node of the waiter that queues behind n others.
func own(t *testing.T, q *lock.Queue, n int) string {
	t.Helper()
	queued := testbed.Must(q.Participants(testbed.Context(t)))
	require.Greater(t, len(queued), n)
	return queued[n].Path
}

// TestTheNextDoesNotList: when the holder releases, an event is all that it takes.
func TestTheNextDoesNotList(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q, others := newQueue(t, w.Client(), "/lock"), w.Client()
		nodes, mine := inLongQueue(t, w.Server, q, others)
		last := many - 1
		w.Server.ResetCounts()
		release(t, others, nodes[:last-1]...)
		synctest.Wait()
		require.Zero(t, w.Server.Requests().Requests["getChildren2"], "one is between")
		release(t, others, nodes[last-1])
		synctest.Wait()
		require.Equal(t, 1, w.Server.Requests().Requests["getChildren2"], "it is next")
		time.Sleep(time.Hour) // virtual time: the holder may take as long as it likes
		w.Server.ResetCounts()
		release(t, others, nodes[last])
		got := received(t, mine)
		time.Sleep(time.Minute) // virtual time: the test counts the requests of the hold
		counts := w.Server.Requests().Requests
		require.Zero(t, counts["getChildren2"]+counts["getData"], "%v", counts)
		require.NoError(t, got.Release())
		synctest.Wait()
		require.Zero(t, w.Server.WatchCount())
	})
}

// TestRequestsWithoutAView counts the requests of docs/PERFORMANCE.md, for a Queue on its first
// use.
func TestRequestsWithoutAView(t *testing.T) {
	for ahead, want := range map[int]struct{ lists, reads int }{1: {1, 2}, 2: {2, 3}, many: {2, 3}} {
		testbed.RunWorld(t, fmt.Sprintf("%d ahead", ahead), func(t *testing.T, w *testbed.World) {
			q, others := newQueue(t, w.Client(), "/lock"), w.Client()
			require.NoError(t, w.Server.Create("/lock", nil))
			nodes := queueOf(t, others, "/lock", ahead)
			w.Server.ResetCounts()
			mine := acquiring(t, t.Context(), q, w.Server, ahead+1)
			for _, node := range nodes {
				synctest.Wait()
				release(t, others, node)
			}
			require.NoError(t, received(t, mine).Release())
			counts := w.Server.Requests().Requests
			require.Equal(t, want.lists, counts["getChildren2"])
			require.Equal(t, want.reads, counts["getData"])
		})
	}
}

// TestALongQueueIsHandedOverInOneRoundTrip requires that a handover takes the round trip of the
// delete: the requests of the next holder are answered in parallel.
func TestALongQueueIsHandedOverInOneRoundTrip(t *testing.T) {
	const clients, cycles, roundTrip = 20, 200, 2 * time.Millisecond
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		released := make(chan struct{}) // everybody in turn
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range clients {
			q := newQueue(t, w.Client(), "/lock")
			wg.Go(func() {
				for {
					h, err := q.Acquire(ctx)
					if err != nil {
						assert.ErrorIs(t, err, context.Canceled)
						return
					}
					assert.NoError(t, h.Release())
					select {
					case released <- struct{}{}:
					case <-ctx.Done():
					}
				}
			})
		}
		for range clients { // the queue is long, and has no view, from now on
			<-released
		}
		began := time.Now()
		for range cycles {
			<-released
		}
		took := time.Since(began)
		cancel()
		wg.Wait()
		require.LessOrEqual(t, took, cycles*roundTrip*21/20)
	}, zktest.WithLatency(roundTrip))
}

// TestWhoThinksThatItIsNextWaits: the last but one has given up, and the contenders before it hold
// for long.
func TestWhoThinksThatItIsNextWaits(t *testing.T) {
	for name, gone := range map[string][]int{
		"the last but one":         {many - 2},
		"then the last":            {many - 2, many - 1},
		"the last":                 {many - 1},
		"then the last but one":    {many - 1, many - 2},
		"one of those before":      {many - 3},
		"all but the first":        {13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1},
		"all but the last but one": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			q, others := newQueue(t, w.Client(), "/lock"), w.Client()
			nodes, mine := inLongQueue(t, w.Server, q, others)
			for _, i := range gone {
				release(t, others, nodes[i])
				synctest.Wait()
			}
			time.Sleep(time.Minute) // virtual time, in which it must not hold
			require.Empty(t, mine, "somebody is ahead")
			for i, node := range nodes {
				if !slices.Contains(gone, i) {
					release(t, others, node)
				}
			}
			require.NoError(t, received(t, mine).Release())
		})
	}
}

// TestTheNextWhoseNodeIsDeletedQueuesAgain: it must not take the release of the one ahead for its
// turn, also if both are deleted before it can do anything.
func TestTheNextWhoseNodeIsDeletedQueuesAgain(t *testing.T) {
	for name, soon := range map[string]bool{"before it watches the last": true, "while it watches the last": false} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			q, others := newQueue(t, w.Client(), "/lock"), w.Client()
			nodes, mine := inLongQueue(t, w.Server, q, others)
			last := nodes[many-1]
			behind := foreign(t, others, "/lock")
			it := own(t, q, many)
			gate := w.Server.Block(zktest.OnOp("getData"), zktest.OnPath(last))
			if !soon {
				gate.Open()
			}
			release(t, others, nodes[:many-1]...)
			synctest.Wait()
			_, err := others.Multi(testbed.Context(t), &zk.DeleteRequest{Path: it, Version: -1}, &zk.DeleteRequest{Path: last, Version: -1})
			require.NoError(t, err)
			gate.Open()
			time.Sleep(time.Minute) // virtual time, in which it must not hold
			require.Empty(t, mine, "the one behind holds now")
			release(t, others, behind)
			require.NoError(t, received(t, mine).Release())
		})
	}
}

// TestAWaiterWhoseNodeIsDeletedQueuesAgainAtOnce, and not only when the node ahead is deleted.
func TestAWaiterWhoseNodeIsDeletedQueuesAgainAtOnce(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q, others := newQueue(t, w.Client(), "/lock"), w.Client()
		nodes, mine := inLongQueue(t, w.Server, q, others)
		release(t, others, own(t, q, many))
		length(t, w.Server, q, many+1)
		release(t, others, nodes...)
		require.NoError(t, received(t, mine).Release())
	})
}

// TestAWaiterWhoseNodeIsDeletedBeforeItIsWatchedQueuesAgain, with one ahead and with several.
func TestAWaiterWhoseNodeIsDeletedBeforeItIsWatchedQueuesAgain(t *testing.T) {
	for _, ahead := range []int{1, 2, many} {
		testbed.RunWorld(t, strconv.Itoa(ahead), func(t *testing.T, w *testbed.World) {
			q, others := newQueue(t, w.Client(), "/lock"), w.Client()
			nodes := queueOf(t, others, "/lock", ahead)
			gate := w.Server.Block(zktest.OnOp("getData"))
			mine := acquiring(t, t.Context(), q, w.Server, ahead+1)
			<-gate.Arrived()
			for _, name := range testbed.ServerChildren(t, w.Server, "/lock") {
				if node := "/lock/" + name; !slices.Contains(nodes, node) {
					require.NoError(t, w.Server.Delete(node))
				}
			}
			gate.Open()
			length(t, w.Server, q, ahead+1)
			time.Sleep(time.Minute) // virtual time, in which it must not hold
			require.Empty(t, mine, "others are ahead")
			release(t, others, nodes...)
			require.NoError(t, received(t, mine).Release())
		})
	}
}

// TestTheNextIsNotWokenForGood wakes the next holder by a write to its node, or by a lost
// connection: it continues to wait.
func TestTheNextIsNotWokenForGood(t *testing.T) {
	for name, disturb := range map[string]func(t *testing.T, server *zktest.Server, others *framework.Client, mine string){
		"a write": func(t *testing.T, _ *zktest.Server, others *framework.Client, mine string) {
			testbed.Set(t, others, mine, []byte("hurry"))
		},
		"a lost connection": func(_ *testing.T, server *zktest.Server, _ *framework.Client, _ string) {
			server.CutConnections()
		},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			q, others := newQueue(t, w.Client(), "/lock"), w.Client()
			nodes, mine := inLongQueue(t, w.Server, q, others)
			release(t, others, nodes[:many-1]...)
			synctest.Wait()
			disturb(t, w.Server, others, own(t, q, 1))
			time.Sleep(time.Minute) // virtual time, in which it must not hold
			require.Empty(t, mine, "one is ahead")
			w.Server.ResetCounts()
			release(t, others, nodes[many-1])
			got := received(t, mine)
			require.Zero(t, w.Server.Requests().Requests["getChildren2"], "both nodes are watched again")
			require.NoError(t, got.Release())
		})
	}
}

// TestTheNextAtTheEndOfTheNumbersLists: nodes that are created later may have negative numbers,
// with which Curator puts them first.
func TestTheNextAtTheEndOfTheNumbersLists(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q, others := newQueue(t, w.Client(), "/lock"), w.Client()
		require.NoError(t, w.Server.Create("/lock", nil))
		require.NoError(t, w.Server.SetSequence("/lock", 1<<30))
		ahead := foreign(t, others, "/lock")
		mine := acquiring(t, t.Context(), q, w.Server, 2)
		synctest.Wait()
		require.NoError(t, w.Server.SetSequence("/lock", math.MinInt32))
		require.Contains(t, foreign(t, others, "/lock"), "lock--")
		release(t, others, ahead)
		require.ErrorIs(t, testbed.Receive(t, mine, "an error").err, lock.ErrSequenceExhausted)
	})
}

func TestTheNextWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, s scenario) {
		nodes := queueOf(t, s.Other, "/deep/down/lock", many)
		mine := acquiring(t, testbed.Context(t), s.subject, s.Server, many+1)
		release(t, s.Other, nodes[:many-1]...)
		time.Sleep(5 * time.Millisecond) // virtual time, in which it must not hold
		require.Empty(t, mine, "two holders")
		release(t, s.Other, nodes[many-1])
		got := received(t, mine)
		s.checkAlone(t, got)
		s.checkRelease(t, got)
		s.finish(t)
	})
}
