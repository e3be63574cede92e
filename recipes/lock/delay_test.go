package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/internal/locking"
	"github.com/gocurator/curator/recipes/internal/locks"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/revocable"
	"github.com/gocurator/curator/zktest"
)

// delay is longer than any session timeout and any retry of these tests, and shorter than the
// patience of package mutation.
const delay = 20 * time.Second

const delayed = "/deep/down/lock"

// marks returns the paths of the marks of a lock.
func marks(server *zktest.Server, path string) (marks []string) {
	children, _ := server.Children(path)
	for _, name := range children {
		if strings.HasPrefix(name, "held-mark.") {
			marks = append(marks, path+"/"+name)
		}
	}
	return marks
}

// markOf returns the data of the mark, or "" if there is none.
func markOf(server *zktest.Server, path string) string {
	for _, mark := range marks(server, path) {
		data, _ := server.Get(mark)
		return string(data)
	}
	return ""
}

// markName returns the name of the mark of a node.
func markName(node string, d time.Duration) string {
	return fmt.Sprintf("held-mark.%x.%v", node, d)
}

// deleteMark deletes the mark, as an operator does.
func deleteMark(t *testing.T, server *zktest.Server) {
	t.Helper()
	require.NoError(t, server.Delete(marks(server, delayed)[0]))
}

// delayedQueue returns a queue with a lock delay.
func delayedQueue(t *testing.T, client *framework.Client, opts ...lock.Option) *lock.Queue {
	t.Helper()
	return newQueue(t, client, delayed, append(opts, lock.WithLockDelay(delay))...)
}

// expire has the holder die.
func expire(t *testing.T, server *zktest.Server, hold *lock.Hold) {
	t.Helper()
	require.NoError(t, server.ExpireSession(hold.Session().ID()))
}

// inDelay returns a queue with a lock delay, whose last holder has just died.
func inDelay(t *testing.T, w *testbed.World) *lock.Queue {
	t.Helper()
	hold := acquire(t, delayedQueue(t, w.Client()))
	next := delayedQueue(t, w.Client())
	expire(t, w.Server, hold)
	testbed.Receive(t, hold.Done(), "the loss of the hold")
	return next
}

// requireFree requires that q acquires without a delay, and that nothing is left after that.
func requireFree(t *testing.T, server *zktest.Server, q *lock.Queue) {
	t.Helper()
	began := time.Now()
	require.NoError(t, acquire(t, q).Release())
	require.Less(t, time.Since(began), delay)
	length(t, server, q, 0)
}

// requireDelayed requires that q acquires after the rest of the delay.
func requireDelayed(t *testing.T, server *zktest.Server, q *lock.Queue, rest time.Duration) {
	t.Helper()
	began := time.Now()
	hold := acquire(t, q)
	require.GreaterOrEqual(t, time.Since(began), rest)
	require.Less(t, time.Since(began), rest+time.Second)
	require.NoError(t, hold.Release())
	length(t, server, q, 0)
}

// eachDelayedRequest runs test with each request of the subject failing. Both contenders have a lock
// delay.
func eachDelayedRequest(t *testing.T, test func(t *testing.T, s scenario)) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		test(t, scenario{s, delayedQueue(t, s.Subject), delayedQueue(t, s.Other)})
	})
}

// finishDelayed has the other contender acquire. Without a death of a holder there is no delay.
func (s scenario) finishDelayed(t *testing.T, mayDie bool) {
	t.Helper()
	began := time.Now()
	hold := acquire(t, s.other)
	if !mayDie {
		require.Less(t, time.Since(began), delay)
	}
	require.NoError(t, hold.Release())
	length(t, s.Server, s.other, 0) // neither a node nor a mark is left behind
}

// workDelayed holds for a second, and works for most of the delay after the end of the hold. It
// requires that no other contender holds until then, unless the hold was released.
func (s scenario) workDelayed(t *testing.T, hold *lock.Hold) (died bool) {
	t.Helper()
	time.Sleep(time.Second) // virtual time: a loss by the fault is reported
	synctest.Wait()
	if !s.Expires || hold.Err() == nil {
		err := testbed.Listed(t, hold, "Release", hold.Release())
		if err == nil && !s.Expires {
			require.Empty(t, markOf(s.Server, delayed), "released")
		}
		if err == nil { // or the session expired before the request of the release was carried out
			return markOf(s.Server, delayed) != ""
		}
		require.True(t, s.Expires, "%v", err)
		return true
	}
	_, err := s.other.Acquire(testbed.Timeout(t, delay*4/5))
	require.ErrorIs(t, err, context.DeadlineExceeded, "the work of the dead holder has not ended")
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	refused(t, s.other)
	require.Error(t, hold.Release())
	return true
}

func TestLockDelay_WithAnyRequestFailing(t *testing.T) {
	for name, acquire := range map[string]func(*lock.Queue, context.Context) (*lock.Hold, error){
		"Acquire": (*lock.Queue).Acquire, "TryAcquire": (*lock.Queue).TryAcquire,
	} {
		t.Run(name, func(t *testing.T) {
			eachDelayedRequest(t, func(t *testing.T, s scenario) {
				hold, err := acquire(s.subject, testbed.Context(t))
				if s.Expires && errors.Is(err, lock.ErrNotAcquired) {
					s.finishDelayed(t, true) // it died between the mark and the return
					return
				}
				require.NoError(t, err)
				s.finishDelayed(t, s.workDelayed(t, hold))
			})
		})
	}
}

func TestLockDelay_OfAWaiterWithAnyRequestFailing(t *testing.T) {
	eachDelayedRequest(t, func(t *testing.T, s scenario) {
		ahead := acquire(t, s.other)
		got := start(testbed.Context(t), s.subject.Acquire)
		time.Sleep(time.Second) // virtual time: it is in the queue, and the fault may be over
		synctest.Wait()
		require.NoError(t, ahead.Release())
		s.finishDelayed(t, s.workDelayed(t, received(t, got)))
	})
}

// cancelAtFault returns a context that ends when a request meets the fault.
func (s scenario) cancelAtFault(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	t.Cleanup(s.Server.Trace(func(e zktest.Event) {
		if e.Fault != 0 {
			cancel()
		}
	}))
	return ctx
}

// TestLockDelay_GivingUpAtAnyRequest has the caller give up at the moment of the fault.
func TestLockDelay_GivingUpAtAnyRequest(t *testing.T) {
	eachDelayedRequest(t, func(t *testing.T, s scenario) {
		hold, err := s.subject.Acquire(s.cancelAtFault(t))
		if err == nil {
			err = hold.Release()
			require.True(t, err == nil || s.Expires, "%v", err)
		}
		s.finishDelayed(t, s.Expires)
	})
}

// TestLockDelay_GivingUpInTheDelayAtAnyRequest does the same in the delay after another holder,
// which a waiter that gives up does not shorten.
func TestLockDelay_GivingUpInTheDelayAtAnyRequest(t *testing.T) {
	eachDelayedRequest(t, func(t *testing.T, s scenario) {
		s.Spare(true)
		dead := acquire(t, delayedQueue(t, s.Client()))
		expire(t, s.Server, dead)
		died := time.Now()
		testbed.Receive(t, dead.Done(), "word of the loss")
		s.Spare(false)
		limited, cancel := context.WithTimeout(s.cancelAtFault(t), delay/5)
		defer cancel()
		require.ErrorIs(t, testbed.Err(s.subject.Acquire(limited)), limited.Err())
		s.Spare(true)
		hold := acquire(t, s.other)
		require.GreaterOrEqual(t, time.Since(died), delay)
		require.NoError(t, hold.Release())
		length(t, s.Server, s.other, 0)
	})
}

// TestLockDelay_ReleaseWithAnyRequestFailing releases by a transaction whose outcome may be
// unknown.
func TestLockDelay_ReleaseWithAnyRequestFailing(t *testing.T) {
	eachDelayedRequest(t, func(t *testing.T, s scenario) {
		s.Spare(true)
		require.NoError(t, s.Server.Create("/data", nil))
		hold := acquire(t, s.subject)
		s.Spare(false)
		_, err := hold.ReleaseWith(testbed.Context(t), &zk.SetDataRequest{Path: "/data", Data: []byte("done"), Version: -1})
		if !s.Expires && err == nil {
			require.Empty(t, markOf(s.Server, delayed))
		}
		s.finishDelayed(t, s.Expires)
	})
}

// TestLockDelay is the oracle: how a hold ended, and whether the next one is delayed.
func TestLockDelay(t *testing.T) {
	type bubble struct {
		server *zktest.Server
		client *framework.Client // of the holder
		hold   *lock.Hold
	}
	for name, test := range map[string]struct {
		end     func(t *testing.T, b bubble)
		delayed bool
		opts    []lock.Option // of the holder
	}{
		"Release": {end: func(t *testing.T, b bubble) {
			require.NoError(t, b.hold.Release())
			require.ErrorIs(t, b.hold.Release(), lock.ErrReleased)
		}},
		"ReleaseWith": {end: func(t *testing.T, b bubble) {
			require.NoError(t, testbed.Err(b.hold.ReleaseWith(testbed.Context(t), &zk.CreateRequest{Path: "/done"})))
		}},
		"ReleaseWith that is refused": {end: func(t *testing.T, b bubble) {
			_, err := b.hold.ReleaseWith(testbed.Context(t), &zk.DeleteRequest{Path: "/none", Version: -1})
			require.ErrorIs(t, err, zk.ErrNoNode)
		}},
		"Release after a suspension": {end: func(t *testing.T, b bubble) {
			b.server.CutConnections()
			testbed.Receive(t, b.hold.Done(), "word of the suspension")
			require.NoError(t, b.hold.Release())
		}},
		"Release while no server is reachable": {end: func(t *testing.T, b bubble) {
			b.server.RefuseConnections(true)
			b.server.CutConnections()
			testbed.Receive(t, b.hold.Done(), "word of the suspension")
			time.AfterFunc(time.Second, func() { b.server.RefuseConnections(false) })
			require.NoError(t, b.hold.Release())
		}},
		"the session expires": {delayed: true, end: func(t *testing.T, b bubble) {
			expire(t, b.server, b.hold)
		}},
		"the session expires, and Release follows": {delayed: true, end: func(t *testing.T, b bubble) {
			expire(t, b.server, b.hold)
			testbed.Receive(t, b.hold.Done(), "word of the loss")
			require.Error(t, b.hold.Release())
			synctest.Wait()
		}},
		"the client is closed": {delayed: true, end: func(t *testing.T, b bubble) {
			require.NoError(t, b.client.Close())
		}},
		"the time of the hold is over": {delayed: true, opts: []lock.Option{lock.WithMaxHold(time.Second)}, end: func(t *testing.T, b bubble) {
			testbed.Receive(t, b.hold.Done(), "the end")
			require.ErrorIs(t, b.hold.Release(), lock.ErrMaxHold)
		}},
		"the time of a suspended hold is over": {delayed: true, opts: []lock.Option{lock.WithMaxHold(delay / 4)}, end: func(t *testing.T, b bubble) {
			b.server.CutConnections()
			testbed.Receive(t, b.hold.Done(), "word of the suspension")
			time.Sleep(delay / 2) // virtual time
			require.Error(t, b.hold.Release())
		}},
		"an operator deletes the node": {delayed: true, end: func(t *testing.T, b bubble) {
			require.NoError(t, b.server.Delete(b.hold.Path()))
			testbed.Receive(t, b.hold.Done(), "word of the deletion")
			require.ErrorIs(t, b.hold.Release(), lock.ErrNodeDeleted)
		}},
		"an operator deletes the mark, and Release follows": {end: func(t *testing.T, b bubble) {
			deleteMark(t, b.server)
			require.NoError(t, b.hold.Release())
		}},
		"an operator deletes the mark, and ReleaseWith follows": {end: func(t *testing.T, b bubble) {
			deleteMark(t, b.server)
			responses := testbed.Must(b.hold.ReleaseWith(testbed.Context(t), &zk.CreateRequest{Path: "/done"}))
			require.Len(t, responses, 1)
		}},
		"an operator deletes the mark of a dead holder": {end: func(t *testing.T, b bubble) {
			expire(t, b.server, b.hold)
			deleteMark(t, b.server)
		}},
		"containers are reaped": {delayed: true, end: func(t *testing.T, b bubble) {
			expire(t, b.server, b.hold)
			b.server.ReapContainers()
		}},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			b := bubble{server: w.Server, client: w.Client()}
			b.hold = acquire(t, delayedQueue(t, b.client, test.opts...))
			require.Equal(t, delay.String()+" "+strings.TrimPrefix(b.hold.Path(), delayed+"/"), markOf(w.Server, delayed))
			next := delayedQueue(t, w.Client())
			test.end(t, b)
			if test.delayed {
				requireDelayed(t, w.Server, next, delay)
			} else {
				requireFree(t, w.Server, next)
			}
		})
	}
}

// TestLockDelay_EndsAtTheFirstSight has waiters, late comers and callers that give up.
func TestLockDelay_EndsAtTheFirstSight(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		next := inDelay(t, w)
		time.Sleep(time.Hour) // virtual time: a later client waits for as long
		_, err := next.Acquire(testbed.Timeout(t, delay/5))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.ErrorContains(t, err, "lock delay")
		require.NotEmpty(t, markOf(w.Server, delayed), "the delay is not over")
		time.Sleep(delay / 5) // virtual time, which counts
		requireDelayed(t, w.Server, next, delay*3/5)
	})
}

func TestLockDelay_OfAQueue(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		hold := acquire(t, delayedQueue(t, w.Client()))
		next, last := delayedQueue(t, w.Client()), delayedQueue(t, w.Client())
		first := acquiring(t, testbed.Context(t), next, w.Server, 3)
		second := acquiring(t, testbed.Context(t), last, w.Server, 4)
		expire(t, w.Server, hold)
		died := time.Now()
		got := received(t, first)
		require.Equal(t, delay, time.Since(died).Round(time.Second))
		require.NoError(t, got.Release())
		released := time.Now()
		got = received(t, second)
		require.Less(t, time.Since(released), time.Second, "no delay after a Release")
		require.NoError(t, got.Release())
		length(t, w.Server, last, 0)
	})
}

// TestLockDelay_LaterDeath has another holder die after the delay was seen to begin: it begins
// again.
func TestLockDelay_LaterDeath(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		next := inDelay(t, w)
		refused(t, next)
		expire(t, w.Server, acquire(t, delayedQueue(t, w.Client())))
		requireDelayed(t, w.Server, next, delay)
	})
}

func TestLockDelay_TryAcquire(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		next := inDelay(t, w)
		w.Server.ResetCounts()
		_, err := next.TryAcquire(testbed.Context(t))
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.ErrorContains(t, err, "lock delay")
		counts := w.Server.Requests().Requests
		require.Zero(t, counts["create"]+counts["multi"]+counts["delete"], "a refusal is not a write")
		time.Sleep(delay - time.Second) // virtual time
		refused(t, next)
		time.Sleep(2 * time.Second) // virtual time
		hold := try(t, next)
		refused(t, delayedQueue(t, w.Client()))
		require.NoError(t, hold.Release())
		length(t, w.Server, next, 0)
	})
}

// TestLockDelay_TryAcquireBesideAHolder does not mistake the mark of a live holder for a dead
// one's.
func TestLockDelay_TryAcquireBesideAHolder(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		hold := acquire(t, delayedQueue(t, w.Client()))
		next := delayedQueue(t, w.Client())
		refused(t, next)
		time.Sleep(delay) // virtual time
		expire(t, w.Server, hold)
		requireDelayed(t, w.Server, next, delay)
	})
}

// TestLockDelay_OperatorEndsIt has the mark deleted while a contender waits for its delay.
func TestLockDelay_OperatorEndsIt(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		next := inDelay(t, w)
		waiting := acquiring(t, testbed.Context(t), next, w.Server, 2)
		time.Sleep(delay / 5) // virtual time
		deleted := time.Now()
		deleteMark(t, w.Server)
		got := received(t, waiting)
		require.Less(t, time.Since(deleted), time.Second)
		require.NoError(t, got.Release())
		length(t, w.Server, next, 0)
	})
}

// TestLockDelay_NodeDeletedBeforeTheMark has a contender queue again, without a mark.
func TestLockDelay_NodeDeletedBeforeTheMark(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := delayedQueue(t, w.Client())
		gate := w.Server.Block(zktest.OnOp("multi"), zktest.OnPath(delayed))
		began := time.Now()
		got := start(testbed.Context(t), q.Acquire)
		testbed.Receive(t, gate.Arrived(), "the mark")
		require.NoError(t, w.Server.Delete(delayed+"/"+testbed.ServerChildren(t, w.Server, delayed)[0]))
		gate.Open()
		hold := received(t, got)
		require.Less(t, time.Since(began), delay)
		require.True(t, w.Server.Exists(hold.Path()))
		require.NoError(t, hold.Release())
		length(t, w.Server, q, 0)
	})
}

// TestLockDelay_TryAcquireThatMeetsTheDeath has the holder die between the look at the queue and
// the create.
func TestLockDelay_TryAcquireThatMeetsTheDeath(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		a, b := delayedQueue(t, w.Client()), delayedQueue(t, w.Client())
		require.NoError(t, acquire(t, a).Release())
		gate := w.Server.Block(zktest.OnCreate())
		defer gate.Open()
		got := start(testbed.Context(t), b.TryAcquire)
		testbed.Receive(t, gate.Arrived(), "the create")
		left := delayed + "/" + markName("_c_someone-lock-0000000000", time.Hour)
		require.NoError(t, w.Server.Create(left, nil))
		gate.Open()
		require.ErrorIs(t, testbed.Receive(t, got, "an error").err, lock.ErrNotAcquired)
		length(t, w.Server, b, 1)
		require.Equal(t, []string{left}, marks(w.Server, delayed), "it is not the waiter's")
	})
}

// TestLockDelay_OfTwoLengths has contenders obey the longer one.
func TestLockDelay_OfTwoLengths(t *testing.T) {
	for _, d := range [][2]time.Duration{{delay, time.Second}, {time.Second, delay}} {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			expire(t, w.Server, acquire(t, newQueue(t, w.Client(), delayed, lock.WithLockDelay(d[0]))))
			requireDelayed(t, w.Server, newQueue(t, w.Client(), delayed, lock.WithLockDelay(d[1])), delay)
		})
	}
}

// TestLockDelay_WithoutTheOption has a contender neither wait nor mark.
func TestLockDelay_WithoutTheOption(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		next := inDelay(t, w)
		other := newQueue(t, w.Client(), delayed)
		began := time.Now()
		hold := acquire(t, other)
		require.Less(t, time.Since(began), time.Second)
		mark := markOf(w.Server, delayed)
		require.NotEmpty(t, mark)
		held := testbed.Must(other.Participants(testbed.Context(t)))
		require.Len(t, held, 1)
		require.True(t, held[0].Holds)
		require.NoError(t, hold.Release())
		require.Equal(t, mark, markOf(w.Server, delayed))
		require.Empty(t, testbed.Must(next.Participants(testbed.Context(t))), "the mark is not a participant")
		requireDelayed(t, w.Server, next, delay)
	})
}

// TestLockDelay_WaiterThatDies leaves no delay: it never held.
func TestLockDelay_WaiterThatDies(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		a, b, c := delayedQueue(t, w.Client()), w.Client(), delayedQueue(t, w.Client())
		hold := acquire(t, a)
		waiter := acquiring(t, testbed.Context(t), delayedQueue(t, b), w.Server, 3)
		require.NoError(t, b.Close())
		require.Error(t, testbed.Receive(t, waiter, "the end of the waiter").err)
		require.NoError(t, hold.Release())
		requireFree(t, w.Server, c)
	})
}

// TestLockDelay_LateRelease has a holder that was frozen release after another one holds, and the
// deletions of its client carried out late.
func TestLockDelay_LateRelease(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		hold := acquire(t, delayedQueue(t, w.Client()))
		next := delayedQueue(t, w.Client())
		w.Server.Freeze(hold.Session().ID())
		testbed.Receive(t, hold.Done(), "word of the suspension")
		held := acquire(t, next)
		mark := markOf(w.Server, delayed)
		released := testbed.Go(hold.Release)
		w.Server.Thaw()
		require.Error(t, testbed.Receive(t, released, "the end of Release"))
		time.Sleep(delay) // virtual time, in which the background deletes
		require.NoError(t, held.Err())
		require.Equal(t, mark, markOf(w.Server, delayed), "the mark of the next holder")
		require.NoError(t, held.Release())
		length(t, w.Server, next, 0)
	})
}

// TestLockDelay_Requests counts what a hold costs.
func TestLockDelay_Requests(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		a, b := delayedQueue(t, w.Client()), delayedQueue(t, w.Client())
		require.NoError(t, acquire(t, a).Release())
		require.NoError(t, acquire(t, a).Release()) // it has a view
		w.Server.ResetCounts()
		require.NoError(t, acquire(t, a).Release())
		require.Equal(t, map[string]int{"create": 1, "multi": 2}, counted(w.Server), "uncontended")

		hold := acquire(t, a)
		waiting := acquiring(t, testbed.Context(t), b, w.Server, 3)
		synctest.Wait()
		w.Server.ResetCounts()
		require.NoError(t, hold.Release())
		got := received(t, waiting)
		require.Equal(t, map[string]int{"getChildren2": 1, "multi": 2}, counted(w.Server), "a hand-over")

		waiting = acquiring(t, testbed.Context(t), a, w.Server, 3)
		time.Sleep(time.Second) // virtual time: the session of the next one is proven
		var requests []string
		stop := w.Server.Trace(func(e zktest.Event) {
			if strings.Contains(e.Request.String(), "held-mark") {
				requests = append(requests, e.Request.Op)
			}
		})
		defer stop()
		expire(t, w.Server, got)
		hold = received(t, waiting)
		require.Equal(t, []string{"multi"}, requests, "after a death")
		require.NoError(t, hold.Release())
	})
}

// TestLockDelay_ForeignChild has children that are no marks of the lock neither wait for nor
// deleted.
func TestLockDelay_ForeignChild(t *testing.T) {
	for _, name := range []string{
		"held-mark", "held-mark.", "held-mark.5s", "held-mark.6c.", "held-mark.6c.5", "held-mark.6c.-5s", "held-mark.6c.5s",
		"held-mark.zz.5s", "held-mark.6C.5s", markName("_c_x-lock-0000000001", 5*time.Second) + "x",
		markName("_c_x-lock-1", 5*time.Second), markName("_c_x-other-0000000001", 5*time.Second),
		markName("_c_x-lock-0000000001", -5*time.Second),
	} {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			require.NoError(t, w.Server.Create(delayed+"/"+name, nil))
			q := delayedQueue(t, w.Client())
			for _, acquire := range []func(context.Context) (*lock.Hold, error){q.Acquire, q.TryAcquire} {
				began := time.Now()
				require.NoError(t, testbed.Must(acquire(testbed.Context(t))).Release())
				require.Less(t, time.Since(began), time.Second, name)
				require.True(t, w.Server.Exists(delayed+"/"+name))
				length(t, w.Server, q, 1)
			}
		})
	}
}

// TestLockDelay_ExhaustedNumbers has the path deleted with the mark of a dead holder, after the
// delay: the numbers start again.
func TestLockDelay_ExhaustedNumbers(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		next := inDelay(t, w)
		require.NoError(t, w.Server.SetSequence(delayed, math.MaxInt32))
		require.ErrorIs(t, testbed.Err(next.Acquire(testbed.Context(t))), lock.ErrSequenceExhausted)
		require.NotEmpty(t, markOf(w.Server, delayed), "the delay has begun")
		time.Sleep(delay) // virtual time
		require.ErrorIs(t, testbed.Err(next.Acquire(testbed.Context(t))), lock.ErrSequenceExhausted)
		require.NoError(t, acquire(t, next).Release())
	})
}

// TestLockDelay_MarkWithAChild has a release succeed although the mark cannot be deleted.
func TestLockDelay_MarkWithAChild(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := delayedQueue(t, w.Client())
		hold := acquire(t, q)
		require.NoError(t, w.Server.Create(marks(w.Server, delayed)[0]+"/x", nil))
		require.NoError(t, hold.Release())
		length(t, w.Server, q, 1)
	})
}

// TestLockDelay_DeadMarkWithAChild has the mark of a dead holder stay, since another program has
// created a child of it. It delays each client once.
func TestLockDelay_DeadMarkWithAChild(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := inDelay(t, w)
		other := delayedQueue(t, w.Client())
		require.NoError(t, w.Server.Create(marks(w.Server, delayed)[0]+"/x", nil))
		for _, rest := range []time.Duration{delay, 0} {
			for _, q := range []*lock.Queue{q, other} {
				began := time.Now()
				hold := acquire(t, q)
				require.Equal(t, rest, time.Since(began).Round(time.Second))
				require.Len(t, marks(w.Server, delayed), 2)
				require.NoError(t, hold.Release())
			}
		}
		length(t, w.Server, q, 1)
	})
}

// TestLockDelay_ReleaseInAView has a waiter receive the events of a release one by one. It does not
// take the holder for dead.
func TestLockDelay_ReleaseInAView(t *testing.T) {
	releases := map[string]func(t *testing.T, h *lock.Hold) error{
		"Release": func(_ *testing.T, h *lock.Hold) error { return h.Release() },
		"ReleaseWith": func(t *testing.T, h *lock.Hold) error {
			_, err := h.ReleaseWith(testbed.Context(t))
			return err
		},
		"Conclude": func(_ *testing.T, h *lock.Hold) error {
			_, err := locks.Inside.Conclude(h, func(*framework.MultiError) ([]any, error) { return []any{&zk.CreateRequest{Path: "/done"}}, nil })
			return err
		},
	}
	for name, release := range releases {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			a, b := delayedQueue(t, w.Client()), delayedQueue(t, w.Client())
			require.NoError(t, acquire(t, b).Release())
			require.NoError(t, acquire(t, b).Release()) // it has a view
			hold := acquire(t, a)
			waiting := acquiring(t, testbed.Context(t), b, w.Server, 3)
			time.Sleep(time.Second) // virtual time, in which the requests of the waiter are answered
			w.Server.ResetCounts()
			began := time.Now()
			stop := w.Server.Trace(func(e zktest.Event) {
				if e.Request.Op == "" {
					time.Sleep(10 * time.Millisecond) // virtual time: the next event is late
				}
			})
			require.NoError(t, release(t, hold))
			got := received(t, waiting)
			require.Less(t, time.Since(began), time.Second)
			stop()
			require.Empty(t, counted(w.Server)["getChildren2"], "the waiter has asked its view")
			require.NoError(t, got.Release())
			w.Server.ResetCounts()
			time.Sleep(2 * time.Hour) // virtual time, in which the marks of dead holders are deleted
			require.Zero(t, counted(w.Server)["delete"], "a holder that has released was taken for dead")
		})
	}
}

// TestLockDelay_ACL has contenders of several users, none of which is permitted to read or write
// the nodes of another.
func TestLockDelay_ACL(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		user := func(name string) *framework.Client {
			return w.Client(framework.WithAuth("digest", []byte(name+":secret")), framework.WithACLProvider(func(path string) []zk.ACL {
				if !strings.Contains(path, "lock/") {
					return zk.WorldACL(zk.PermAll)
				}
				return zk.AuthACL(zk.PermAll)
			}))
		}
		a, b := delayedQueue(t, user("a")), delayedQueue(t, user("b"))
		for range 2 { // without a view, and with one
			hold := acquire(t, a)
			refused(t, b)
			expire(t, w.Server, hold)
			for _, n := range w.Server.Dump() {
				if strings.HasPrefix(n.Path, delayed+"/held-mark.") {
					require.Equal(t, "digest", n.ACL[0].Scheme, "that of the node")
				}
			}
			requireDelayed(t, w.Server, b, delay)
		}
	})
}

// TestLockDelay_TwoNames has two kinds of locks at one path, each with its marks.
func TestLockDelay_TwoNames(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		queue := func(name string) *lock.Queue {
			return testbed.Must(lock.New(w.Client(), delayed, name, nil, lock.WithLockDelay(delay)))
		}
		a, b, next := queue("a-"), queue("b-"), queue("b-")
		began := time.Now()
		ofA, ofB := acquire(t, a), acquire(t, b)
		require.Less(t, time.Since(began), time.Second, "the holder of the other kind is alive")
		require.NoError(t, ofA.Release())
		require.Len(t, marks(w.Server, delayed), 1, "the other kind's")
		expire(t, w.Server, ofB)
		began = time.Now()
		require.NoError(t, acquire(t, a).Release())
		require.Less(t, time.Since(began), time.Second, "the dead holder is of the other kind")
		requireDelayed(t, w.Server, next, delay)
	})
}

// TestLockDelay_Participants has a contender that waits out a delay.
func TestLockDelay_Participants(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		next := inDelay(t, w)
		holds := func() (holds []bool) {
			ps := testbed.Must(delayedQueue(t, w.Client()).Participants(testbed.Context(t)))
			for _, p := range ps {
				holds = append(holds, p.Holds)
			}
			return holds
		}
		waiting := acquiring(t, testbed.Context(t), next, w.Server, 2)
		time.Sleep(delay / 2) // virtual time
		require.Equal(t, []bool{false}, holds())
		require.Zero(t, testbed.Must(revocable.RevokeAll(testbed.Context(t), next)))
		got := received(t, waiting)
		require.Equal(t, []bool{true}, holds())
		require.NoError(t, got.Release())
		require.NoError(t, acquire(t, newQueue(t, w.Client(), delayed)).Release())
	})
}

// TestLockDelay_TryAcquireWithANewQueue has a caller with a Queue for each try.
func TestLockDelay_TryAcquireWithANewQueue(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		inDelay(t, w)
		client, began := w.Client(), time.Now()
		for {
			hold, err := delayedQueue(t, client).TryAcquire(testbed.Context(t))
			if err == nil {
				require.NoError(t, hold.Release())
				break
			}
			require.ErrorContains(t, err, "lock delay")
			require.LessOrEqual(t, time.Since(began), delay)
			time.Sleep(time.Second) // virtual time
		}
		require.GreaterOrEqual(t, time.Since(began), delay)
	})
}

// TestLockDelay_LateDeletion has a contender that gave up delete its mark when the next holder has
// replaced that. Its deletion meets no other mark.
func TestLockDelay_LateDeletion(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		subject := w.Client()
		lost := w.Server.Inject(zktest.LoseReply, 0, zktest.OnOp("multi"), zktest.OnSession(testbed.Session(t, subject).ID()))
		gate := w.Server.Block(zktest.OnOp("delete"), zktest.OnPath(delayed+"/held-mark"))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-lost.Done()
			cancel() // as its reply is lost
		}()
		require.ErrorIs(t, testbed.Err(delayedQueue(t, subject).Acquire(ctx)), context.Canceled)
		testbed.Receive(t, gate.Arrived(), "the deletion of the mark")
		hold := acquire(t, delayedQueue(t, w.Client())) // after the delay
		gate.Open()
		time.Sleep(time.Second) // virtual time
		require.NoError(t, hold.Err())
		require.Len(t, marks(w.Server, delayed), 1)
		expire(t, w.Server, hold)
		requireDelayed(t, w.Server, delayedQueue(t, w.Client()), delay)
	})
}

// TestLockDelay_NoNextHolder has the mark of a dead holder deleted in the end by a client that
// knows it, and the path after it.
func TestLockDelay_NoNextHolder(t *testing.T) {
	for name, test := range map[string]struct {
		opts []lock.Option // of the holder
		end  func(t *testing.T, w *testbed.World, holder *framework.Client, hold *lock.Hold)
	}{
		"the client of the dead holder": {end: func(t *testing.T, w *testbed.World, _ *framework.Client, hold *lock.Hold) {
			expire(t, w.Server, hold)
		}},
		"the client of a hold whose time is over": {opts: []lock.Option{lock.WithMaxHold(time.Second)}, end: func(t *testing.T, _ *testbed.World, _ *framework.Client, hold *lock.Hold) {
			testbed.Receive(t, hold.Done(), "the end")
		}},
		"a client that tried": {end: func(t *testing.T, w *testbed.World, holder *framework.Client, hold *lock.Hold) {
			require.NoError(t, holder.Close())
			_, err := delayedQueue(t, w.Client()).TryAcquire(testbed.Context(t))
			require.ErrorContains(t, err, "lock delay")
		}},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			holder := w.Client()
			test.end(t, w, holder, acquire(t, delayedQueue(t, holder, test.opts...)))
			time.Sleep(delay + time.Minute) // virtual time, in which the delay ends
			require.NotEmpty(t, marks(w.Server, delayed), "contenders with a longer delay wait for it")
			time.Sleep(time.Hour) // virtual time, after which the client deletes the mark
			require.Empty(t, marks(w.Server, delayed))
			w.Server.ReapContainers()
			require.False(t, w.Server.Exists(delayed))
		})
	}
}

// TestLockDelay_Compression has clients with and without it read each other's marks.
func TestLockDelay_Compression(t *testing.T) {
	for _, compresses := range []bool{true, false} {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			clients := []*framework.Client{w.Client(), w.Client(framework.WithCompression())}
			if compresses {
				clients[0], clients[1] = clients[1], clients[0]
			}
			expire(t, w.Server, acquire(t, delayedQueue(t, clients[0])))
			requireDelayed(t, w.Server, delayedQueue(t, clients[1]), delay)
		})
	}
}

// TestLockDelay_Namespace has the mark below the client's namespace.
func TestLockDelay_Namespace(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := newQueue(t, w.Client(framework.WithNamespace("app")), "/lock", lock.WithLockDelay(delay))
		hold := acquire(t, q)
		require.NotEmpty(t, markOf(w.Server, "/app/lock"))
		require.NoError(t, hold.Release())
		require.Empty(t, markOf(w.Server, "/app/lock"))
	})
}

// TestLockDelay_ReleaseLeftToClose has Close delete a mark together with the node, after a waiter
// gave up while no server was reachable.
func TestLockDelay_ReleaseLeftToClose(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		subject := w.Client()
		q := delayedQueue(t, subject)
		require.NoError(t, acquire(t, q).Release())
		gate := w.Server.BlockReplies(zktest.OnOp("multi"), zktest.OnPath(delayed))
		ctx, cancel := context.WithCancel(t.Context())
		got := start(ctx, q.Acquire)
		testbed.Receive(t, gate.Arrived(), "the mark")
		w.Server.RefuseConnections(true)
		w.Server.CutConnections()
		synctest.Wait()
		cancel()
		require.Error(t, testbed.Receive(t, got, "the end").err)
		gate.Open()
		require.NotEmpty(t, markOf(w.Server, delayed), "it was created")
		w.Server.RefuseConnections(false)
		require.NoError(t, subject.Close())
		length(t, w.Server, q, 0)
	})
}

func TestLockDelay_BadOptions(t *testing.T) {
	client := testbed.On(zktest.NewServer(t)).Client(t)
	for _, opts := range [][]lock.Option{
		{lock.WithLockDelay(0)}, {lock.WithLockDelay(-1)},
		{lock.WithLockDelay(1), lock.WithMaxLeases(2)}, {lock.WithLockDelay(1), lock.WithRetention(1)},
		{lock.WithLockDelay(1), locks.Inside.With(locking.Settings[*lock.Queue]{Another: true})},
	} {
		assert.ErrorIs(t, testbed.Err(lock.New(client, "/lock", "lock-", nil, opts...)), framework.ErrBadArgument)
	}
	for _, name := range []string{"held", "mark", "a", "beef", "k.6c", "held-mark.", "m", "s"} {
		_, err := lock.New(client, "/lock", name, nil, lock.WithLockDelay(1))
		assert.ErrorIs(t, err, framework.ErrBadArgument, "%s occurs in the names of marks", name)
	}
	for _, name := range []string{"lock-", "a-", "__lock__", "lease", "mark-"} {
		assert.NoError(t, testbed.Err(lock.New(client, "/lock", name, nil, lock.WithLockDelay(1))))
	}
	_, err := lock.New(client, "/lock", "lock-", &fragileDriver{}, lock.WithLockDelay(1))
	require.ErrorIs(t, err, framework.ErrBadArgument)
}
