package lock_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// The requests of a cycle. A Java client on the path sees the same nodes created and deleted.

// counted returns the requests since the last ResetCounts that are not for the session's sake.
func counted(server *zktest.Server) map[string]int {
	counts := server.Requests().Requests
	delete(counts, "ping")
	delete(counts, "sync")
	return counts
}

// TestOnlyWhoHoldsOrIsNextConfirmsItsSession has a long queue that waits for minutes. Each waiter
// keeps its node all the same.
func TestOnlyWhoHoldsOrIsNextConfirmsItsSession(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		holder := newQueue(t, w.Client(), "/lock")
		hold := acquire(t, holder)
		const n = 5
		var order []int // guarded by the lock
		var waiters sync.WaitGroup
		for i := range n {
			q := newQueue(t, w.Client(), "/lock")
			waiters.Go(func() {
				assert.NoError(t, q.Do(context.Background(), func(context.Context) error { order = append(order, i); return nil }))
			})
			time.Sleep(time.Second) // virtual time, so that they queue in this order
		}
		w.Server.ResetCounts()
		time.Sleep(10 * hold.Session().Timeout()) // virtual time, in which writes are counted
		require.InDelta(t, 2*10*32/9, w.Server.Requests().Requests["multi"], 4, "the holder and the first waiter")
		w.Server.ResetCounts()
		require.NoError(t, hold.Release())
		waiters.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4}, order)
		require.Zero(t, w.Server.Requests().Requests["create"], "nobody has queued again")
		require.LessOrEqual(t, w.Server.Requests().Requests["multi"], 2*n, "each confirmed its session, with two writes")
	})
}

// sent notes the operations that a client sends, whether the server reads them or not.
type sent struct {
	net.Conn
	mu  *sync.Mutex
	ops *[]string
}

func (s sent) Write(frames []byte) (int, error) {
	s.mu.Lock()
	for b := frames; len(b) >= 12; b = b[4+binary.BigEndian.Uint32(b):] {
		*s.ops = append(*s.ops, proto.Op(binary.BigEndian.Uint32(b[8:])).String())
	}
	s.mu.Unlock()
	return s.Conn.Write(frames)
}

// TestListFollowsTheCreate requires that an acquire takes one round trip: the list is sent before
// the create is answered.
func TestListFollowsTheCreate(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		require.NoError(t, server.Create("/lock", nil))
		var mu sync.Mutex
		var ops []string
		client := testbed.On(server).Client(t, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := server.DialContext(ctx, network, address)
			return sent{conn, &mu, &ops}, err
		}))
		q := newQueue(t, client, "/lock") // it is used for the first time, so it has no view
		gate := server.BlockReplies(zktest.OnCreate())
		acquired := start(testbed.Context(t), q.Acquire)
		testbed.Receive(t, gate.Arrived(), "the create")
		synctest.Wait()
		require.Empty(t, acquired)
		mu.Lock()
		listed := slices.Contains(ops, "getChildren2")
		mu.Unlock()
		gate.Open()
		require.True(t, listed)
		require.NoError(t, received(t, acquired).Release())
	})
}

func TestWatchedQueueNeedsTwoRequests(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		a, b := newQueue(t, w.Client(), "/lock"), newQueue(t, w.Client(), "/lock")
		watched(t, a)
		watched(t, b)
		synctest.Wait()
		w.Server.ResetCounts()
		const n = 20
		for range n {
			hold := acquire(t, a)
			waiting := acquiring(t, testbed.Context(t), b, w.Server, 2)
			require.NoError(t, hold.Release())
			require.NoError(t, received(t, waiting).Release())
		}
		require.Equal(t, map[string]int{"create": 2 * n, "delete": 2 * n}, counted(w.Server))
	})
}

// watched has a Queue acquire until its path has a view.
func watched(t *testing.T, q *lock.Queue) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		require.NoError(t, acquire(t, q).Release())
		return q.Viewed()
	}, "a view begins")
}

// TestParticipantsAreReadAtOnce: all reads take one round trip after the list, which is read with a
// view too.
func TestParticipantsAreReadAtOnce(t *testing.T) {
	const roundTrip = time.Millisecond
	for name, view := range map[string]bool{"with a view": true, "without a view": false} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			q, others := newQueue(t, w.Client(), "/lock"), w.Client()
			if view {
				watched(t, q)
			}
			nodes := queueOf(t, others, "/lock", 3)
			testbed.Set(t, others, nodes[1], []byte("new"))
			synctest.Wait() // q's server has sent the events
			w.Server.ResetCounts()
			began := time.Now()
			ps := testbed.Must(q.Participants(t.Context()))
			require.Equal(t, 2*roundTrip, time.Since(began))
			require.Equal(t, map[string]int{"getData": 3, "getChildren2": 1}, counted(w.Server))
			require.Len(t, ps, 3)
			for i, p := range ps {
				require.Equal(t, nodes[i], p.Path)
				require.Equal(t, i == 0, p.Holds)
			}
			require.Equal(t, "new", string(ps[1].Data), "as it is now")
		}, zktest.WithLatency(roundTrip))
	}
}

// TestParticipants_WithAViewBehindTheServer has a node whose event has not arrived.
func TestParticipants_WithAViewBehindTheServer(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := newQueue(t, w.Client(), "/lock")
		watched(t, q)
		const node = "/lock/_c_6e5d3f4e-0d5c-4a51-8b7c-0123456789ab-lock-0000001000"
		require.NoError(t, w.Server.Create(node, nil))
		ps := testbed.Must(q.Participants(t.Context()))
		require.Len(t, ps, 1)
		require.Equal(t, node, ps[0].Path)
	}, zktest.WithLatency(time.Millisecond))
}

func TestParticipantThatIsDeletedMeanwhileIsLeftOut(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := newQueue(t, w.Client(), "/lock")
		nodes := queueOf(t, w.Client(), "/lock", 3)
		gate := w.Server.BlockReplies(zktest.OnOp("getChildren2"))
		listed := testbed.Go(func() []lock.Participant {
			ps, err := q.Participants(t.Context())
			assert.NoError(t, err)
			return ps
		})
		testbed.Receive(t, gate.Arrived(), "the list")
		require.NoError(t, w.Server.Delete(nodes[0]))
		gate.Open()
		ps := testbed.Receive(t, listed, "the participants")
		require.Len(t, ps, 2)
		require.Equal(t, nodes[1], ps[0].Path)
		require.False(t, ps[0].Holds, "the list showed one ahead")
	})
}

// TestTryAcquireFindsThatAnUnreadableNodeIsGone, although no event reports its deletion.
func TestTryAcquireFindsThatAnUnreadableNodeIsGone(t *testing.T) {
	bed := testbed.On(zktest.NewServer(t))
	q := newQueue(t, bed.Client(t), "/lock")
	secret := foreign(t, bed.Client(t), "/lock", framework.ACL(zk.WorldACL(zk.PermDelete)))
	for range 2 { // the second time it would begin a view
		refused(t, q)
	}
	release(t, bed.Client(t), secret)
	require.NoError(t, try(t, q).Release())
	require.NoError(t, acquire(t, q).Release())
}

// repeating is a driver that names each node that it waits for twice.
type repeating struct{ lock.Standard }

func (repeating) Decide(l lock.Line) (lock.Decision, error) {
	turn, err := lock.Standard{}.Decide(l)
	turn.Watch = slices.Concat(turn.Watch, turn.Watch)
	return turn, err
}

func TestDriverThatNamesANodeTwiceIsUnderstood(t *testing.T) {
	server, bed := newServer(t)
	for name, end := range map[string]func(*lock.Hold, *zktest.Server) error{
		"the node goes": func(h *lock.Hold, _ *zktest.Server) error { return h.Release() },
		"the view ends": func(h *lock.Hold, s *zktest.Server) error {
			s.CutConnections()
			return h.Release()
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := driven(bed.Client(t), repeating{}, lock.WithErrorPolicy(connstate.LostEndsHold))
			watched(t, q)
			hold := acquire(t, q)
			waiting := acquiring(t, testbed.Context(t), q, server, 2)
			blocked(t, waiting)
			require.NoError(t, end(hold, server))
			require.NoError(t, received(t, waiting).Release())
		})
	}
}

// astray is a driver that waits for a node that is not in the queue, such as one that it gives as a
// path.
type astray struct{ lock.Standard }

func (astray) Decide(l lock.Line) (lock.Decision, error) {
	turn, err := lock.Standard{}.Decide(l)
	if len(turn.Watch) > 0 {
		turn.Watch = []string{"nobody"}
	}
	return turn, err
}

// TestDriverThatWaitsForNobodyIsRefused: it would look again and again, in a view without any
// regard to its context.
func TestDriverThatWaitsForNobodyIsRefused(t *testing.T) {
	for _, viewed := range []bool{false, true} {
		t.Run(fmt.Sprintf("viewed %t", viewed), func(t *testing.T) {
			server, bed := newServer(t)
			q := driven(bed.Client(t), astray{})
			if viewed {
				watched(t, q)
			}
			hold := acquire(t, newQueue(t, bed.Client(t), "/lock"))
			waiting := start(testbed.Context(t), q.Acquire)
			require.ErrorIs(t, testbed.Receive(t, waiting, "the refusal").err, framework.ErrBadArgument)
			require.Equal(t, viewed, q.Viewed())
			require.NoError(t, hold.Release())
			length(t, server, q, 0)
		})
	}
}
