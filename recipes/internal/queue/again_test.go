package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/internal/testlevel"
	"github.com/gocurator/curator/recipes/internal/queue"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

func TestAsyncReleaseDoesNotWait(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	q := newQueue(t, bed.Client(t), "/lock", lock.WithAsyncRelease())
	hold := acquire(t, q)
	gate := server.BlockReplies(zktest.OnOp(zktest.OpDelete))
	require.NoError(t, hold.Release(), "it returns without the answer")
	require.ErrorIs(t, hold.Err(), queue.ErrReleased)
	testbed.Receive(t, gate.Arrived(), "the delete")
	length(t, server, q, 0) // applied, and not answered
	next := acquire(t, newQueue(t, bed.Client(t), "/lock"))
	gate.Open()
	require.NoError(t, next.Release())
	require.ErrorIs(t, hold.Release(), queue.ErrReleased)
	for range 50 { // each create right behind the delete before
		require.NoError(t, acquire(t, q).Release())
	}
	testbed.Eventually(t, func() bool { children, err := server.Children("/lock"); return err != nil || len(children) == 0 }, "all are gone")
}

func TestAsyncReleaseWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, s scenario) {
		for range 3 {
			hold, err := s.subject.Acquire(testbed.Context(t))
			require.NoError(t, err)
			s.checkAlone(t, hold)
			if err := hold.Release(); err != nil {
				require.ErrorIs(t, err, framework.ErrLost)
			}
		}
		s.finish(t)
	}, lock.WithAsyncRelease())
}

// TestTryAfterAnAsyncRelease must not find the node whose delete was sent before, with a view and without.
func TestTryAfterAnAsyncRelease(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, _ *zktest.Server, client func(...framework.Option) *framework.Client) {
		q := newQueue(t, client(), "/lock", lock.WithAsyncRelease())
		for range 100 {
			hold, err := q.TryAcquire(testbed.Context(t))
			require.NoError(t, err)
			require.NoError(t, hold.Release())
		}
		require.True(t, q.Viewed())
	})
}

// TestTryAfterAnAsyncReleaseAndARead has the node read before its delete, and the answer come after the delete was sent.
func TestTryAfterAnAsyncReleaseAndARead(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		q := newQueue(t, client(), "/lock", lock.WithAsyncRelease())
		watched(t, q)
		hold := acquire(t, q)
		reads, deletes := server.BlockReplies(zktest.OnOp(zktest.OpGetData)), server.BlockReplies(zktest.OnOp(zktest.OpDelete))
		read := make(chan error, 1)
		go func() {
			_, err := q.Participants(t.Context())
			read <- err
		}()
		testbed.Receive(t, reads.Arrived(), "the read")
		require.NoError(t, hold.Release())
		reads.Open()
		require.NoError(t, <-read)
		tried := make(chan result, 1)
		go func() {
			hold, err := q.TryAcquire(t.Context())
			tried <- result{hold, err}
		}()
		synctest.Wait()
		deletes.Open()
		got := <-tried
		require.NoError(t, got.err)
		require.NoError(t, got.hold.Release())
	})
}

// TestAsyncReleaseLogsARefusal: its caller gets no error any more.
func TestAsyncReleaseLogsARefusal(t *testing.T) {
	server := zktest.NewServer(t)
	said := make(chan string, 1)
	logger := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		said <- string(p)
		return len(p), nil
	}), &slog.HandlerOptions{Level: slog.LevelWarn}))
	client := testbed.On(server).Client(t, framework.WithLogger(logger))
	hold := acquire(t, newQueue(t, client, "/lock", lock.WithAsyncRelease()))
	_, err := client.SetACL(testbed.Context(t), "/lock", zk.WorldACL(zk.PermAll&^zk.PermDelete), -1)
	require.NoError(t, err)
	require.NoError(t, hold.Release())
	line := testbed.Receive(t, said, "the warning")
	require.Contains(t, line, "lock node stays behind")
	require.Contains(t, line, hold.Path())
}

func TestReleaseWithIsOneTransaction(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	ctx := testbed.Context(t)
	_, err := client.Create(ctx, "/result", []byte("old"))
	require.NoError(t, err)
	q := newQueue(t, client, "/lock")
	hold := acquire(t, q)
	server.ResetCounts()
	responses, err := hold.ReleaseWith(ctx, &zk.SetDataRequest{Path: "/result", Data: []byte("new"), Version: -1})
	require.NoError(t, err)
	require.Len(t, responses, 1)
	require.EqualValues(t, 1, responses[0].Stat.Version)
	require.Equal(t, 1, counted(server)[zktest.OpMulti])
	require.Zero(t, counted(server)[zktest.OpDelete])
	require.ErrorIs(t, hold.Err(), queue.ErrReleased)
	length(t, server, q, 0)
	require.ErrorIs(t, hold.Release(), queue.ErrReleased)
	_, err = hold.ReleaseWith(ctx)
	require.ErrorIs(t, err, queue.ErrReleased)
}

func TestReleaseWithWhatIsRefusedWritesNothingAndReleases(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	ctx := testbed.Context(t)
	_, err := client.Create(ctx, "/a", []byte("old"))
	require.NoError(t, err)
	q := newQueue(t, client, "/lock")
	hold := acquire(t, q)
	_, err = hold.ReleaseWith(ctx, &zk.SetDataRequest{Path: "/a", Data: []byte("new"), Version: -1},
		&zk.SetDataRequest{Path: "/missing", Data: []byte("new"), Version: -1})
	require.ErrorIs(t, err, zk.ErrNoNode)
	testbed.OneOp(t, err, "release", hold.Path())
	var failed *framework.MultiError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "set /missing", failed.Op+" "+failed.Path)
	data, _, err := client.Get(ctx, "/a")
	require.NoError(t, err)
	require.Equal(t, "old", string(data))
	length(t, server, q, 0)
}

func TestReleaseWithoutANodeWritesNothing(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	client := bed.Client(t)
	ctx := testbed.Context(t)
	_, err := client.Create(ctx, "/a", []byte("old"))
	require.NoError(t, err)
	hold := acquire(t, newQueue(t, client, "/lock"))
	gate := server.Block(zktest.OnOp(zktest.OpMulti))
	done := make(chan error, 1)
	go func() {
		_, err := hold.ReleaseWith(ctx, &zk.SetDataRequest{Path: "/a", Data: []byte("new"), Version: -1})
		done <- err
	}()
	testbed.Receive(t, gate.Arrived(), "the transaction")
	require.NoError(t, bed.Client(t).Delete(ctx, hold.Path(), -1))
	gate.Open()
	require.ErrorIs(t, testbed.Receive(t, done, "the end"), zk.ErrNoNode)
	data, _, err := client.Get(ctx, "/a")
	require.NoError(t, err)
	require.Equal(t, "old", string(data))
}

func TestReleaseWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, s scenario) {
		client := s.Client() // another, which meets the fault as well
		ctx := testbed.Context(t)
		_, err := client.Create(ctx, "/result", []byte{})
		if err != nil {
			require.ErrorIs(t, err, zk.ErrNodeExists) // its reply was lost
		}
		hold, err := s.subject.Acquire(ctx)
		require.NoError(t, err)
		_, err = hold.ReleaseWith(ctx, &zk.SetDataRequest{Path: "/result", Data: []byte("x"), Version: -1})
		_, stat, got := client.Get(ctx, "/result")
		require.NoError(t, got)
		switch {
		case err == nil:
			require.EqualValues(t, 1, stat.Version, "once")
		case !retry.Unknown(err):
			require.Zero(t, stat.Version, "not at all: %v", err)
		default:
			require.LessOrEqual(t, stat.Version, int32(1), "never twice")
		}
		s.finish(t)
	})
}

func TestRequeueIsOneWriteAndFair(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	a, b := newQueue(t, bed.Client(t), "/lock"), newQueue(t, bed.Client(t), "/lock")
	watched(t, a)
	watched(t, b)
	hold := acquire(t, a)
	first, err := hold.FencingToken(testbed.Context(t))
	require.NoError(t, err)
	waiting := acquiring(t, testbed.Context(t), b, server, 2)
	server.ResetCounts()
	again := make(chan result, 1)
	go func() {
		next, err := hold.Requeue(testbed.Context(t))
		again <- result{next, err}
	}()
	theirs := testbed.Receive(t, waiting, "the other one's turn")
	require.NoError(t, theirs.err)
	require.ErrorIs(t, hold.Err(), queue.ErrReleased)
	blocked(t, again)
	require.Equal(t, map[zktest.Op]int{zktest.OpMulti: 1}, counted(server))
	require.NoError(t, theirs.hold.Release())
	got := testbed.Receive(t, again, "the lock again")
	require.NoError(t, got.err)
	second, err := got.hold.FencingToken(testbed.Context(t))
	require.NoError(t, err)
	require.Greater(t, second, first)
	require.NoError(t, got.hold.Release())
	length(t, server, a, 0)
}

func TestRequeueOfAloneHolder(t *testing.T) {
	server := zktest.NewServer(t)
	q := newQueue(t, testbed.On(server).Client(t), "/lock")
	watched(t, q)
	hold := acquire(t, q)
	server.ResetCounts()
	for range 20 {
		_, err := hold.Requeue(hold.Context()) // its context, and yet no re-entry
		require.ErrorIs(t, err, context.Canceled, "the context has ended")
		hold, err = acquire(t, q).Requeue(testbed.Context(t))
		require.NoError(t, err)
		require.NoError(t, hold.Err())
	}
	require.NoError(t, hold.Release())
	length(t, server, q, 0)
}

// requeueing has a hold be requeued, up to the gate behind which the server carries that out.
func requeueing(t *testing.T, server *zktest.Server, hold *queue.Hold) (gate *zktest.Gate, done <-chan error) {
	t.Helper()
	gate = server.Block(zktest.OnOp(zktest.OpMulti))
	ended := make(chan error, 1)
	go func() {
		_, err := hold.Requeue(testbed.Context(t))
		ended <- err
	}()
	testbed.Receive(t, gate.Arrived(), "the transaction")
	return gate, ended
}

func TestRequeueOfALostHoldMakesNothing(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	q := newQueue(t, bed.Client(t), "/lock")
	hold := acquire(t, q)
	gate, done := requeueing(t, server, hold)
	require.NoError(t, bed.Client(t).Delete(testbed.Context(t), hold.Path(), -1))
	gate.Open()
	require.ErrorIs(t, testbed.Receive(t, done, "the end"), queue.ErrNodeDeleted)
	length(t, server, q, 0)
}

func TestReenteredLeaseIsNotRequeued(t *testing.T) {
	for name, opts := range withAndWithoutHandOff {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			q := newQueue(t, testbed.On(server).Client(t), "/lock", opts...)
			hold := acquire(t, q)
			inner, err := q.Acquire(hold.Context())
			require.NoError(t, err)
			_, err = hold.Requeue(testbed.Context(t))
			require.ErrorIs(t, err, framework.ErrBadArgument)
			_, err = hold.ReleaseWith(testbed.Context(t))
			require.ErrorIs(t, err, framework.ErrBadArgument)
			require.NoError(t, hold.Err())
			require.NoError(t, inner.Release())
			require.NoError(t, hold.Release())
		})
	}
}

// TestLeaseIsReenteredOrRequeued: not both, or Requeue would wait for whoever has re-entered.
func TestLeaseIsReenteredOrRequeued(t *testing.T) {
	q := newQueue(t, testbed.On(zktest.NewServer(t)).Client(t), "/lock", lock.WithLocalHandOff(10, time.Hour))
	for i := range testlevel.Pick(1000, 1000, 3000) { // without that rule one in about ten thousand did both
		hold := acquire(t, q)
		entered := make(chan result, 1)
		go func() {
			for range i % 700 { // another moment each time
			}
			inner, err := q.Acquire(hold.Context())
			entered <- result{inner, err}
		}()
		requeued := make(chan result, 1)
		go func() {
			next, err := hold.Requeue(testbed.Context(t))
			requeued <- result{next, err}
		}()
		inner, next := testbed.Receive(t, entered, "the answer to re-entry"), result{}
		if inner.err == nil {
			next = testbed.Receive(t, requeued, "the refusal")
			require.ErrorIs(t, next.err, framework.ErrBadArgument)
			require.NoError(t, inner.hold.Release())
			require.NoError(t, hold.Release())
			continue
		}
		require.ErrorIs(t, inner.err, queue.ErrReleased)
		next = testbed.Receive(t, requeued, "the next hold")
		require.NoError(t, next.err)
		require.NoError(t, next.hold.Release())
	}
}

var withAndWithoutHandOff = map[string][]queue.Option{"plain": nil, "hand-off": {lock.WithLocalHandOff(10, time.Hour)}}

func TestRequeueOfASuspendedHoldIsRefused(t *testing.T) {
	for name, opts := range withAndWithoutHandOff {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			client := testbed.On(server).Client(t)
			q := newQueue(t, client, "/lock", opts...)
			hold := acquire(t, q)
			server.CutConnections()
			testbed.Receive(t, hold.Done(), "word of the suspension")
			require.NoError(t, client.WaitConnected(testbed.Context(t)))
			_, err := hold.Requeue(testbed.Context(t))
			require.ErrorIs(t, err, framework.ErrSuspended)
			testbed.Eventually(t, func() bool {
				children, err := server.Children("/lock")
				return err != nil || len(children) == 0
			}, "the node is gone")
			require.NoError(t, acquire(t, q).Release(), "the lock is free")
		})
	}
}

func TestRequeueWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, s scenario) {
		hold, err := s.subject.Acquire(testbed.Context(t))
		require.NoError(t, err)
		next, err := hold.Requeue(testbed.Context(t))
		if err != nil {
			require.True(t, errors.Is(err, framework.ErrLost), "%v", err)
			s.finish(t)
			return
		}
		s.checkAlone(t, next)
		s.checkRelease(t, next)
		s.finish(t)
	})
}

func TestRequeueWithALocalHandOff(t *testing.T) {
	server := zktest.NewServer(t)
	q := newQueue(t, testbed.On(server).Client(t), "/lock", lock.WithLocalHandOff(10, time.Hour))
	hold := acquire(t, q)
	next, err := hold.Requeue(testbed.Context(t))
	require.NoError(t, err)
	require.NoError(t, next.Release())
	length(t, server, q, 0)
}

// TestRequeueWithTheContextOfAnotherSession: the node of the hold goes also if the context is of a session that has ended.
func TestRequeueWithTheContextOfAnotherSession(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		c := client()
		q := newQueue(t, c, "/lock", lock.WithLocalHandOff(10, time.Hour))
		earlier, err := c.Session(t.Context())
		require.NoError(t, err)
		require.NoError(t, server.ExpireSession(earlier.ID()))
		testbed.Receive(t, earlier.Done(), "the end of the session")
		hold := acquire(t, q)
		_, err = hold.Requeue(framework.InSession(t.Context(), earlier))
		require.ErrorIs(t, err, framework.ErrSessionLost)
		require.NoError(t, hold.Session().Err())
		length(t, server, q, 0)
	})
}

// TestRequeueWithTheContextOfASessionEndsWithIt has the session of the hold end while Requeue waits.
func TestRequeueWithTheContextOfASessionEndsWithIt(t *testing.T) {
	for name, opts := range withAndWithoutHandOff {
		t.Run(name, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
				q, other := newQueue(t, client(), "/lock", opts...), newQueue(t, client(), "/lock")
				hold := acquire(t, q)
				waiting := acquiring(t, t.Context(), other, server, 2)
				again := make(chan result, 1)
				go func() {
					next, err := hold.Requeue(framework.InSession(t.Context(), hold.Session()))
					again <- result{next, err}
				}()
				theirs := testbed.Receive(t, waiting, "the other one's turn")
				require.NoError(t, theirs.err)
				length(t, server, other, 2)
				synctest.Wait() // it waits
				require.NoError(t, server.ExpireSession(hold.Session().ID()))
				require.ErrorIs(t, testbed.Receive(t, again, "the end of Requeue").err, framework.ErrSessionLost)
				require.NoError(t, theirs.hold.Release())
				length(t, server, other, 0)
			})
		})
	}
}

// TestRequeueWhileTheSessionOfItsHoldEnds has the client lose the session while the node is given back, and the servers go on with it. The node
// goes all the same. With a hand-off any session deletes it, and the next hold is of that one.
func TestRequeueWhileTheSessionOfItsHoldEnds(t *testing.T) {
	for name, opts := range withAndWithoutHandOff {
		t.Run(name, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
				q := newQueue(t, client(framework.WithExpirationPercent(50)), "/lock", opts...)
				hold := acquire(t, q)
				session := hold.Session()
				gate := server.Block(zktest.OnSession(session.ID()), zktest.OnOp(zktest.OpMulti, zktest.OpDelete), zktest.OnPath("/lock"))
				again := make(chan result, 1)
				go func() {
					next, err := hold.Requeue(t.Context())
					again <- result{next, err}
				}()
				testbed.Receive(t, gate.Arrived(), "the request")
				server.Freeze(session.ID())
				got := testbed.Receive(t, again, "the end of Requeue")
				require.ErrorIs(t, session.Err(), framework.ErrSessionLost)
				testbed.Eventually(t, func() bool { return !server.Exists(hold.Path()) }, "the node is gone")
				lives := func(s zktest.Session) bool { return s.ID == session.ID() }
				require.True(t, slices.ContainsFunc(server.Sessions(), lives), "the servers have not ended it")
				if opts == nil {
					require.ErrorIs(t, got.err, framework.ErrSessionLost)
				} else {
					require.NoError(t, got.err)
					require.NotSame(t, session, got.hold.Session())
					require.NoError(t, got.hold.Release())
				}
				gate.Open()
				length(t, server, q, 0)
			})
		})
	}
}

// TestRequeueDoesNotOvertakeAQueueAhead: whoever waits for a semaphore waits in another queue than its leases.
func TestRequeueDoesNotOvertakeAQueueAhead(t *testing.T) {
	client := testbed.On(zktest.NewServer(t)).Client(t)
	waiters := newQueue(t, client, "/s/locks")
	q := newQueue(t, client, "/s/leases", opt.Set(func(c *queue.Config) { c.Ahead = waiters }))
	hold := acquire(t, q)
	_, err := hold.Requeue(testbed.Context(t))
	require.ErrorIs(t, err, framework.ErrBadArgument)
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Release())
}

// TestRequeuedHoldKeepsTheOthers has a hold of one lock requeued with the context of a hold of another.
func TestRequeuedHoldKeepsTheOthers(t *testing.T) {
	for name, opts := range withAndWithoutHandOff {
		t.Run(name, func(t *testing.T) {
			client := testbed.On(zktest.NewServer(t)).Client(t)
			outer, q := newQueue(t, client, "/outer"), newQueue(t, client, "/lock", opts...)
			held := acquire(t, outer)
			hold, err := q.Acquire(held.Context())
			require.NoError(t, err)
			next, err := hold.Requeue(held.Context())
			require.NoError(t, err)
			again, err := outer.TryAcquire(next.Context())
			require.NoError(t, err, "it re-enters")
			require.Equal(t, held.Path(), again.Path())
			require.NoError(t, again.Release())
			require.NoError(t, next.Release())
			require.NoError(t, held.Release())
		})
	}
}

// TestQueueAheadIsLookedAtAfterTheCreate has somebody queue while our node is being made, in the second try.
func TestQueueAheadIsLookedAtAfterTheCreate(t *testing.T) {
	inLeases := func(r zktest.Request) bool { return strings.HasPrefix(r.Path, "/s/leases") }
	for name, fail := range map[string]func(*zktest.Server){
		"the connection is lost": func(s *zktest.Server) { s.Inject(zktest.FailBefore, 0, zktest.OnCreate(), inLeases) },
		"the path is missing":    func(s *zktest.Server) { _ = s.Delete("/s/leases") },
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			bed := testbed.On(server)
			other, client := bed.Client(t), bed.Client(t)
			for _, path := range []string{"/s/locks", "/s/leases"} {
				require.NoError(t, acquire(t, newQueue(t, other, path)).Release())
			}
			q := newQueue(t, client, "/s/leases", opt.Set(func(c *queue.Config) { c.Ahead = newQueue(t, client, "/s/locks") }))
			fail(server)
			var tries atomic.Int32
			second := server.Block(zktest.OnCreate(), inLeases, func(zktest.Request) bool { return tries.Add(1) == 2 })
			tried := make(chan result, 1)
			go func() {
				hold, err := q.TryAcquire(testbed.Context(t))
				tried <- result{hold, err}
			}()
			testbed.Receive(t, second.Arrived(), "the second try")
			foreign(t, other, "/s/locks")
			second.Open()
			require.ErrorIs(t, testbed.Receive(t, tried, "the end").err, queue.ErrNotAcquired)
			length(t, server, q, 0)
		})
	}
}
