package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// many is how many others make a queue long.
const many = 14

// queueOf makes the nodes of others.
func queueOf(t *testing.T, client *framework.Client, n int) (nodes []string) {
	t.Helper()
	for range n {
		nodes = append(nodes, foreign(t, client, "/lock"))
	}
	return nodes
}

// release deletes nodes of others.
func release(t *testing.T, client *framework.Client, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		require.NoError(t, client.Delete(testbed.Context(t), node, -1))
	}
}

// inLongQueue has q, which has held for these times, wait behind others.
func inLongQueue(t *testing.T, server *zktest.Server, q *lock.Queue, others *framework.Client, held ...time.Duration) (nodes []string, mine <-chan result) {
	t.Helper()
	for _, d := range held {
		hold := acquire(t, q)
		time.Sleep(d) // virtual time
		require.NoError(t, hold.Release())
	}
	time.Sleep(time.Minute) // virtual time; whatever there was of a view has ended
	nodes = queueOf(t, others, many)
	mine = acquiring(t, t.Context(), q, server, many+1)
	synctest.Wait()
	require.False(t, q.Viewed(), "the queue is long")
	return nodes, mine
}

// TestTheNextInALongQueueDoesNotList: when the holder releases, an event is all that it takes.
func TestTheNextInALongQueueDoesNotList(t *testing.T) {
	virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		q, others := newQueue(t, client(), "/lock"), client()
		nodes, mine := inLongQueue(t, server, q, others, 5*time.Millisecond)
		last := many - 1
		release(t, others, nodes[:last-1]...)
		synctest.Wait()
		require.False(t, q.Viewed(), "one is between")
		release(t, others, nodes[last-1])
		synctest.Wait()
		require.True(t, q.Viewed(), "it is next")
		time.Sleep(time.Hour) // virtual time
		server.ResetCounts()
		release(t, others, nodes[last])
		got := testbed.Receive(t, mine, "the lock")
		require.NoError(t, got.err)
		counts := server.Requests().Requests
		require.Zero(t, counts[zktest.OpGetChildren2]+counts[zktest.OpGetData], "%v", counts)
		require.NoError(t, got.hold.Release())
		time.Sleep(time.Second) // virtual time
		synctest.Wait()
		require.False(t, q.Viewed())
		require.Zero(t, server.WatchCount())
	})
}

// TestTheNextListsOnlyIfHoldsAreShort: then there is no time to prepare.
func TestTheNextListsOnlyIfHoldsAreShort(t *testing.T) {
	const long = 5 * time.Millisecond
	for name, c := range map[string]struct {
		held     []time.Duration
		prepares bool
	}{
		"short":                {[]time.Duration{0}, false},
		"long":                 {[]time.Duration{long}, true},
		"none yet":             {nil, true},
		"one of them is short": {[]time.Duration{long, 0}, true},
		"one of them is long":  {[]time.Duration{long, 0, 0, 0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
				q, others := newQueue(t, client(), "/lock"), client()
				nodes, mine := inLongQueue(t, server, q, others, c.held...)
				release(t, others, nodes[:many-1]...)
				synctest.Wait()
				require.Equal(t, c.prepares, q.Viewed())
				release(t, others, nodes[many-1])
				got := testbed.Receive(t, mine, "the lock")
				require.NoError(t, got.err)
				require.NoError(t, got.hold.Release())
			})
		})
	}
}

// TestWhoThinksThatItIsNextWaits: the one between has given up, and the one ahead of that holds for long.
func TestWhoThinksThatItIsNextWaits(t *testing.T) {
	virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		q, others := newQueue(t, client(), "/lock"), client()
		nodes, mine := inLongQueue(t, server, q, others, 5*time.Millisecond)
		release(t, others, nodes[many-2])
		synctest.Wait()
		require.True(t, q.Viewed())
		release(t, others, nodes[many-1])
		time.Sleep(time.Minute) // virtual time
		require.Empty(t, mine, "twelve are ahead")
		release(t, others, nodes[:many-2]...)
		got := testbed.Receive(t, mine, "the lock")
		require.NoError(t, got.err)
		require.NoError(t, got.hold.Release())
	})
}

// TestTheNextWhoseNodeIsDeletedQueuesAgain: it must not take the release of the one ahead for its turn.
func TestTheNextWhoseNodeIsDeletedQueuesAgain(t *testing.T) {
	virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		q, others := newQueue(t, client(), "/lock"), client()
		nodes, mine := inLongQueue(t, server, q, others, 5*time.Millisecond)
		behind := foreign(t, others, "/lock")
		release(t, others, nodes[:many-1]...)
		synctest.Wait()
		require.True(t, q.Viewed())
		queued, err := q.Participants(testbed.Context(t))
		require.NoError(t, err)
		require.Len(t, queued, 3)
		release(t, others, queued[1].Path)
		release(t, others, nodes[many-1])
		time.Sleep(time.Minute) // virtual time
		require.Empty(t, mine, "the one behind holds now")
		release(t, others, behind)
		got := testbed.Receive(t, mine, "the lock")
		require.NoError(t, got.err)
		require.NoError(t, got.hold.Release())
	})
}

// TestTheViewOfTheNextIsNotForOthers: whoever queues at the end would be told of all that happens ahead.
func TestTheViewOfTheNextIsNotForOthers(t *testing.T) {
	virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		c, others := client(), client()
		q, late := newQueue(t, c, "/lock"), newQueue(t, c, "/lock")
		nodes, mine := inLongQueue(t, server, q, others, 5*time.Millisecond)
		release(t, others, nodes[:many-1]...)
		synctest.Wait()
		require.True(t, q.Viewed())
		server.ResetCounts()
		behind := acquiring(t, testbed.Context(t), late, server, 3)
		synctest.Wait()
		require.NotZero(t, server.Requests().Requests[zktest.OpGetChildren2], "it lists")
		release(t, others, nodes[many-1])
		got := testbed.Receive(t, mine, "the lock")
		require.NoError(t, got.err)
		require.NoError(t, got.hold.Release())
		got = testbed.Receive(t, behind, "the lock")
		require.NoError(t, got.err)
		require.NoError(t, got.hold.Release())
	})
}

func TestTheNextWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, s scenario) {
		hold, err := s.subject.Acquire(testbed.Context(t))
		require.NoError(t, err)
		time.Sleep(2 * time.Millisecond) // the length of a hold after which the next one prepares
		_ = hold.Release()
		var nodes []string
		for range many {
			nodes = append(nodes, foreign(t, s.bystander, "/deep/down/lock"))
		}
		mine := acquiring(t, testbed.Context(t), s.subject, s.server, many+1)
		release(t, s.bystander, nodes[:many-1]...)
		select {
		case got := <-mine:
			t.Fatalf("two holders: %+v", got)
		case <-time.After(5 * time.Millisecond): // it prepares meanwhile
		}
		release(t, s.bystander, nodes[many-1])
		got := testbed.Receive(t, mine, "the lock")
		require.NoError(t, got.err)
		s.checkAlone(t, got.hold)
		s.checkRelease(t, got.hold)
		s.finish(t)
	})
}
