package locksuite

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// Run runs the suite and the lock's own cases on each backend. Then it runs the tests that need a
// server in this process.
func Run(t *testing.T, kind Kind, own ...testbed.Case) {
	t.Helper()
	cases := slices.Clone(own)
	add := func(name string, test func(s *stage)) {
		cases = append(cases, testbed.Case{Name: name, Test: func(t *testing.T, bed *testbed.Bed) {
			test(newStage(t, kind, bed))
		}})
	}
	add("a release hands over", handsOver)
	if !kind.Shared {
		add("many sessions never overlap", neverOverlap)
		add("goroutines that share a lock never overlap", sharedLock)
		add("first come, first served", fifo)
		add("of many tries one wins", oneTryWins)
		add("participants are listed in order", participants)
	}
	if kind.Reentrant {
		add("a hold's context is refused at once", refusesItself)
		add("a fan-out inside a hold does not enter", fanOut)
		add("a hold's context re-enters with the option", reenters)
		add("a released hold's context is refused", releasedContext)
	}
	add("a wait that times out leaves no node", timesOut)
	add("a cancelled wait returns the cause and leaves no node", cancelled)
	add("a try on a held lock leaves no trace", refusedTry)
	add("a hold is released once", releasedOnce)
	add("do holds inside and not after", doHolds)
	add("do releases when f panics", doPanics)
	add("do's context ends with the caller's", doEndsWithCaller)
	add("do's context has the caller's deadline and values", doDerivesFromCaller)
	add("a crash frees the lock and ends the hold", crash)
	add("a waiter that loses its session queues again", waiterLosesSession)
	add("a waiter whose node was deleted queues again", waiterNodeDeleted)
	add("a holder learns that its node was deleted", nodeDeleted)
	add("max hold ends the hold", maxHold)
	add("a guard commits only while the nodes exist", guarded)
	add("foreign children neither block nor break", foreignChildren)
	add("nodes lie in the client's namespace", inNamespace)
	add("closing a client frees its locks and ends its waits", closing)
	testbed.Run(t, cases)
	if !kind.Several { // the constructor of several locks has no path and no options
		t.Run("bad arguments", func(t *testing.T) { badArguments(t, kind) })
	}
	t.Run("nothing stays on the server", func(t *testing.T) { nothingStays(t, kind) })
	t.Run("a suspension ends the hold, and not its session", func(t *testing.T) { suspension(t, kind) })
	Faults(t, kind)
}

func handsOver(s *stage) {
	a, _ := s.rival()
	b, _ := s.contender()
	hold := acquire(s.t, a)
	waiting := s.start(testbed.Context(s.t), b, 2)
	s.waits(waiting)
	release(s.t, hold)
	require.ErrorIs(s.t, hold.Err(), lock.ErrReleased)
	release(s.t, s.received(waiting))
	release(s.t, acquire(s.t, b)) // again
	s.empty()
}

// Contend has each contender acquire and release in rounds, and requires that holds never overlap.
func Contend(t *testing.T, contenders []Contender, rounds int) {
	t.Helper()
	var inside, entered atomic.Int32
	var wg sync.WaitGroup
	ctx := testbed.Context(t)
	for _, c := range contenders {
		wg.Go(func() {
			for range rounds {
				assert.NoError(t, c.Do(ctx, func(ctx context.Context) error {
					assert.EqualValues(t, 1, inside.Add(1), "alone inside")
					entered.Add(1)
					inside.Add(-1)
					return ctx.Err()
				}))
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, len(contenders)*rounds, entered.Load())
}

func neverOverlap(s *stage) {
	var all []Contender
	for range 5 {
		c, _ := s.contender()
		all = append(all, c)
	}
	Contend(s.t, all, 10)
}

func sharedLock(s *stage) {
	Contend(s.t, slices.Repeat([]Contender{s.view}, 20), 3)
}

func fifo(s *stage) {
	hold := acquire(s.t, s.view)
	const n = 5
	order := make(chan int, n)
	for i := range n {
		c, _ := s.contender()
		go func() {
			_ = c.Do(testbed.Context(s.t), func(context.Context) error {
				order <- i
				return nil
			})
		}()
		s.queued(i + 2)
	}
	release(s.t, hold)
	for i := range n {
		assert.Equal(s.t, i, testbed.Receive(s.t, order, "the next holder"))
	}
	s.empty()
}

func oneTryWins(s *stage) {
	const n = 20
	results := make(chan result, n)
	for range n {
		go func() {
			hold, err := s.view.TryAcquire(testbed.Context(s.t))
			results <- result{hold, err}
		}()
	}
	var holds []Hold
	for range n {
		if r := testbed.Receive(s.t, results, "a try"); r.err == nil {
			holds = append(holds, r.hold)
		} else {
			assert.ErrorIs(s.t, r.err, lock.ErrNotAcquired)
		}
	}
	require.Len(s.t, holds, 1)
	release(s.t, holds...)
	s.empty()
}

func participants(s *stage) {
	ctx := testbed.Context(s.t)
	ps, err := s.view.Participants(ctx)
	require.NoError(s.t, err)
	require.Empty(s.t, ps, "the path does not exist")
	a, client := s.contender(lock.WithData([]byte("a")))
	hold := acquire(s.t, a)
	var waiting []<-chan result
	for i, data := range []string{"b", "c"} {
		c, _ := s.contender(lock.WithData([]byte(data)))
		waiting = append(waiting, s.start(ctx, c, i+2))
	}
	ps, err = s.view.Participants(ctx)
	require.NoError(s.t, err)
	require.Len(s.t, ps, 3)
	assert.Equal(s.t, paths(hold)[0], ps[0].Path)
	assert.Equal(s.t, testbed.Session(s.t, client).ID(), ps[0].SessionID)
	assert.Equal(s.t, "a", string(ps[0].Data))
	assert.WithinDuration(s.t, time.Now(), ps[0].Since, time.Minute)
	assert.Equal(s.t, []bool{true, false, false}, []bool{ps[0].Holds, ps[1].Holds, ps[2].Holds})
	if h, ok := hold.(interface {
		FencingToken(ctx context.Context) (int64, error)
	}); ok {
		token, err := h.FencingToken(ctx)
		require.NoError(s.t, err)
		assert.Equal(s.t, token, ps[0].Token)
	}
	release(s.t, hold)
	for _, w := range waiting {
		release(s.t, s.received(w))
	}
}

// refusesItself uses the object of the hold, and another of the same client.
func refusesItself(s *stage) {
	twin := testbed.Must(s.New(s.root, s.path))
	hold := acquire(s.t, s.view)
	for _, c := range []Contender{s.view, twin} {
		for _, ctx := range []context.Context{hold.Context(), context.WithoutCancel(hold.Context())} {
			_, acquired := c.Acquire(ctx)
			_, tried := c.TryAcquire(ctx)
			for _, err := range []error{acquired, tried, c.Do(ctx, s.nothing)} {
				require.ErrorIs(s.t, err, lock.ErrHeld)
				require.ErrorContains(s.t, err, paths(hold)[0])
				require.NotErrorIs(s.t, err, lock.ErrNotAcquired, "a loop would spin")
				require.NotErrorIs(s.t, err, framework.ErrLost)
			}
		}
	}
	s.queued(1)
	require.NoError(s.t, hold.Err())

	outside := lock.Outside(context.WithoutCancel(hold.Context()))
	if !s.Shared {
		_, err := s.view.TryAcquire(outside)
		require.ErrorIs(s.t, err, lock.ErrNotAcquired, "a caller from outside is a contender")
	}
	release(s.t, hold)
	later, err := s.view.Acquire(outside)
	require.NoError(s.t, err)
	release(s.t, later)
	later, err = s.view.Acquire(context.WithoutCancel(hold.Context()))
	require.NoError(s.t, err, "what has been released is in no one's way")
	release(s.t, later)
	s.empty()
}

func fanOut(s *stage) {
	errs := make([]error, 8)
	require.NoError(s.t, s.view.Do(testbed.Context(s.t), func(ctx context.Context) error {
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { errs[i] = s.view.Do(ctx, s.nothing) })
		}
		all.Wait()
		return ctx.Err()
	}))
	for _, err := range errs {
		require.ErrorIs(s.t, err, lock.ErrHeld)
	}
	s.empty()
}

func reenters(s *stage) {
	s.view, s.root = s.contender(lock.WithReentry())
	twin := testbed.Must(s.New(s.root, s.path, lock.WithReentry()))
	outer := acquire(s.t, s.view)
	_, err := twin.Acquire(outer.Context())
	require.ErrorIs(s.t, err, lock.ErrHeld, "another object")
	middle, err := s.view.Acquire(outer.Context())
	require.NoError(s.t, err)
	inner, err := s.view.TryAcquire(middle.Context())
	require.NoError(s.t, err)
	require.Equal(s.t, paths(outer), paths(inner), "the same nodes")
	s.queued(1)

	release(s.t, outer) // in any order
	require.ErrorIs(s.t, outer.Err(), lock.ErrReleased)
	require.NoError(s.t, inner.Err())
	release(s.t, inner)
	require.ErrorIs(s.t, inner.Release(), lock.ErrReleased)
	require.NoError(s.t, middle.Err(), "held until the last release")
	s.queued(1)
	release(s.t, middle)
	s.empty()

	require.NoError(s.t, s.view.Do(testbed.Context(s.t), func(ctx context.Context) error {
		return s.view.Do(ctx, func(ctx context.Context) error { return ctx.Err() })
	}))
}

func releasedContext(s *stage) {
	reentrant, _ := s.contender(lock.WithReentry())
	for _, c := range []Contender{s.view, reentrant} {
		hold := acquire(s.t, c)
		release(s.t, hold)
		_, err := c.Acquire(hold.Context())
		require.ErrorIs(s.t, err, lock.ErrReleased)
	}
	s.empty()
}

func timesOut(s *stage) {
	a, _ := s.rival()
	hold := acquire(s.t, a)
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := s.view.Acquire(ctx)
	require.ErrorIs(s.t, err, context.DeadlineExceeded)
	require.ErrorContains(s.t, err, s.path)
	s.queued(1)
	require.NoError(s.t, hold.Err(), "the holder is not disturbed")
	release(s.t, hold)
	s.empty()
}

func cancelled(s *stage) {
	a, _ := s.rival()
	hold := acquire(s.t, a)
	ctx, cancel := context.WithCancelCause(s.t.Context())
	waiting := s.start(ctx, s.view, 2)
	cancel(assert.AnError)
	got := testbed.Receive(s.t, waiting, "the end of the wait")
	require.ErrorIs(s.t, got.err, context.Canceled)
	require.ErrorIs(s.t, got.err, assert.AnError)
	s.queued(1)
	release(s.t, hold)

	_, err := s.view.Acquire(ctx)
	require.ErrorIs(s.t, err, assert.AnError, "a context that was cancelled before")
	s.empty()
}

func refusedTry(s *stage) {
	a, _ := s.rival()
	b, client := s.contender()
	hold, err := a.TryAcquire(testbed.Context(s.t))
	require.NoError(s.t, err, "a path that does not exist yet is free")
	_, err = b.TryAcquire(testbed.Context(s.t))
	require.ErrorIs(s.t, err, lock.ErrNotAcquired)
	testbed.CatchUp(s.t, client)
	ps, err := b.Participants(testbed.Context(s.t))
	require.NoError(s.t, err)
	require.Len(s.t, ps, 1)
	release(s.t, hold)
	testbed.CatchUp(s.t, client)
	hold, err = b.TryAcquire(testbed.Context(s.t))
	require.NoError(s.t, err)
	release(s.t, hold)
	s.empty()
}

// releasedOnce requires that a second release does not release the hold of another client:
// etcd issue 22082.
func releasedOnce(s *stage) {
	b, _ := s.rival()
	stale := acquire(s.t, s.view)
	release(s.t, stale)
	hold := acquire(s.t, b)
	require.ErrorIs(s.t, stale.Release(), lock.ErrReleased)
	s.queued(1)
	require.NoError(s.t, hold.Err())
	release(s.t, hold)
}

func doHolds(s *stage) {
	b, _ := s.rival()
	var inner context.Context
	err := s.view.Do(testbed.Context(s.t), func(ctx context.Context) error {
		inner = ctx
		s.queued(1)
		_, err := b.TryAcquire(testbed.Context(s.t))
		require.ErrorIs(s.t, err, lock.ErrNotAcquired)
		require.NoError(s.t, ctx.Err())
		return assert.AnError
	})
	require.ErrorIs(s.t, err, assert.AnError)
	require.Error(s.t, inner.Err())
	s.empty()
}

func doPanics(s *stage) {
	require.Panics(s.t, func() {
		_ = s.view.Do(testbed.Context(s.t), func(context.Context) error { panic("in the critical section") })
	})
	s.empty()
}

func doEndsWithCaller(s *stage) {
	ctx, cancel := context.WithCancelCause(s.t.Context())
	err := s.view.Do(ctx, func(ctx context.Context) error {
		cancel(assert.AnError)
		testbed.Receive(s.t, ctx.Done(), "the end of f's context")
		return context.Cause(ctx)
	})
	require.ErrorIs(s.t, err, assert.AnError)
	require.ErrorIs(s.t, s.view.Do(ctx, s.nothing), context.Canceled)
	s.empty()
}

// nothing is a function for Do that must not be called.
func (s *stage) nothing(context.Context) error {
	assert.Fail(s.t, "called")
	return nil
}

func doDerivesFromCaller(s *stage) {
	type key struct{}
	ctx, cancel := context.WithTimeout(context.WithValue(testbed.Context(s.t), key{}, "value"), time.Hour)
	defer cancel()
	want, _ := ctx.Deadline()
	derives := func(ctx context.Context) error {
		deadline, _ := ctx.Deadline()
		require.Equal(s.t, want, deadline)
		require.Equal(s.t, "value", ctx.Value(key{}))
		return nil
	}
	require.NoError(s.t, s.view.Do(ctx, derives))
	hold := acquire(s.t, s.view)
	do, ok := hold.(interface {
		Do(ctx context.Context, f func(ctx context.Context) error) error
	})
	require.True(s.t, ok, "%T has no Do", hold)
	require.NoError(s.t, do.Do(ctx, derives))
	s.empty()
}

func crash(s *stage) {
	a, client := s.contender()
	b, _ := s.rival()
	hold := acquire(s.t, a)
	waiting := s.start(testbed.Context(s.t), b, 2)
	s.bed.ExpireSession(s.t, client)
	next := s.received(waiting)
	lost(s.t, hold)
	s.queued(1)
	release(s.t, next)
	release(s.t, acquire(s.t, a)) // in a new session
	s.empty()
}

func waiterLosesSession(s *stage) {
	s.requeues(false, func(_ string, client *framework.Client) { s.bed.ExpireSession(s.t, client) })
}

func waiterNodeDeleted(s *stage) {
	s.requeues(s.Late, func(path string, _ *framework.Client) {
		require.NoError(s.t, s.root.Delete(testbed.Context(s.t), path))
	})
}

// requeues requires that a waiter queues again after strike has removed its node: at once, or, if
// late, at the latest when the holder releases.
func (s *stage) requeues(late bool, strike func(path string, client *framework.Client)) {
	s.t.Helper()
	a, _ := s.rival()
	b, client := s.contender()
	hold := acquire(s.t, a)
	waiting := s.start(testbed.Context(s.t), b, 2)
	before, err := s.view.Participants(testbed.Context(s.t))
	require.NoError(s.t, err)
	strike(before[1].Path, client)
	if !late {
		testbed.Eventually(s.t, func() bool {
			after, err := s.view.Participants(testbed.Context(s.t))
			return err == nil && len(after) == 2 && after[1].Path != before[1].Path
		}, "the waiter has a new node")
		s.waits(waiting)
	}
	release(s.t, hold)
	next := s.received(waiting)
	require.NotContains(s.t, paths(next), before[1].Path)
	release(s.t, next)
	s.empty()
}

func nodeDeleted(s *stage) {
	for i := 0; ; i++ {
		hold := acquire(s.t, s.view)
		if i == len(paths(hold)) {
			release(s.t, hold)
			return
		}
		require.NoError(s.t, s.bed.Client(s.t).Delete(testbed.Context(s.t), paths(hold)[i]))
		testbed.Receive(s.t, hold.Done(), "the loss of the hold")
		require.ErrorIs(s.t, hold.Err(), lock.ErrNodeDeleted)
		if s.Reentrant {
			_, err := s.view.Acquire(hold.Context())
			require.ErrorIs(s.t, err, lock.ErrNodeDeleted)
		}
		require.ErrorIs(s.t, hold.Release(), lock.ErrNodeDeleted)
		s.empty()
	}
}

func maxHold(s *stage) {
	b, _ := s.rival()
	var hold Hold
	for d := 20 * time.Millisecond; hold == nil; d *= 2 { // a slow machine needs longer for several locks
		a, _ := s.contender(lock.WithMaxHold(d))
		h, err := a.Acquire(testbed.Context(s.t)) // the hold may have ended by now
		if errors.Is(err, lock.ErrMaxHold) {
			continue
		}
		require.NoError(s.t, err)
		hold = h
	}
	next := acquire(s.t, b)
	require.ErrorIs(s.t, hold.Err(), lock.ErrMaxHold, "the hold ends before the next hold begins")
	require.ErrorIs(s.t, hold.Release(), lock.ErrMaxHold)
	release(s.t, next)
}

func guarded(s *stage) {
	ctx := testbed.Context(s.t)
	target := s.path + "-guarded"
	testbed.Create(s.t, s.root, target, []byte("0"), framework.ContainerParents())
	hold := acquire(s.t, s.view)
	write := func(data string) error {
		_, err := s.root.Multi(ctx, append(guards(hold), &zk.SetDataRequest{Path: target, Data: []byte(data), Version: -1})...)
		return err
	}
	require.NoError(s.t, write("1"))
	release(s.t, hold)
	require.ErrorIs(s.t, write("2"), zk.ErrNoNode)
	require.Equal(s.t, "1", testbed.Get(s.t, s.root, target))
}

func foreignChildren(s *stage) {
	ctx := testbed.Context(s.t)
	names := append([]string{
		"_c_x", "_c_", "0000000000", "config",
		"f3d7b1d2a4f64e0c8a8f0c2b6e5d4c3b__lease__0000000000", // kazoo's
	}, s.Foreign...)
	for _, dir := range s.dirs(s.path) {
		for _, name := range names {
			testbed.Create(s.t, s.root, framework.Join(dir, name), []byte{}, framework.ContainerParents())
		}
	}
	hold, err := s.view.TryAcquire(ctx)
	require.NoError(s.t, err)
	ps, err := s.view.Participants(ctx)
	require.NoError(s.t, err)
	require.Len(s.t, ps, 1)
	release(s.t, hold)
}

func inNamespace(s *stage) {
	client := s.bed.Client(s.t, framework.WithNamespace("billing"))
	root := testbed.Namespace(s.t, client, "")
	hold := acquire(s.t, testbed.Must(s.New(client, s.path)))
	for _, want := range []bool{true, false} {
		for i, path := range paths(hold) {
			parent, _ := framework.Split(path)
			assert.Contains(s.t, s.dirs(s.path), parent)
			assert.Equal(s.t, want, testbed.Exists(s.t, root, "/billing"+path), "node %d", i)
		}
		if want {
			release(s.t, hold)
		}
	}
}

func closing(s *stage) {
	// closed checks an error of a closed client: it names the operation and the path once.
	closed := func(err error, op string) {
		s.t.Helper()
		require.ErrorIs(s.t, err, framework.ErrClosed)
		require.IsType(s.t, &framework.OpError{}, err)
		e := err.(*framework.OpError)
		require.Contains(s.t, e.Path, s.path)
		testbed.OneOp(s.t, err, op, e.Path)
	}
	a, clientA := s.contender()
	b, clientB := s.rival()
	hold := acquire(s.t, a)
	waiting := s.start(context.Background(), b, 2)
	require.NoError(s.t, clientB.Close())
	closed(testbed.Receive(s.t, waiting, "the end of the wait").err, "acquire")
	s.queued(1)
	require.NoError(s.t, clientA.Close())
	require.ErrorIs(s.t, hold.Err(), framework.ErrClosed)
	require.ErrorIs(s.t, hold.Release(), framework.ErrClosed)
	c, _ := s.rival()
	release(s.t, acquire(s.t, c))
	_, err := a.Acquire(s.t.Context())
	closed(err, "acquire")
	_, err = a.TryAcquire(s.t.Context())
	closed(err, "try")
	require.NoError(s.t, clientA.Close(), "a second time")
}

func badArguments(t *testing.T, kind Kind) {
	client := testbed.InProcess(t).Client(t)
	for name, path := range map[string]string{
		"empty": "", "relative": "a/b", "root": "/", "slash at the end": "/a/", "empty element": "/a//b", "dots": "/a/../b", "control": "/a\x00",
	} {
		_, err := kind.New(client, path)
		require.ErrorIs(t, err, framework.ErrBadPath, name)
		testbed.OneOp(t, err, kind.Op, path)
	}
	_, err := kind.New(nil, "/a")
	require.ErrorIs(t, err, framework.ErrBadArgument)
	for name, opt := range map[string]lock.Option{
		"nil": nil, "zero max hold": lock.WithMaxHold(0), "negative max hold": lock.WithMaxHold(-1),
		"zero leases": lock.WithMaxLeases(0), "two leases": lock.WithMaxLeases(2), "policy": lock.WithErrorPolicy(17),
	} {
		_, err := kind.New(client, "/a", opt)
		assert.ErrorIs(t, err, framework.ErrBadArgument, name)
	}
}

func nothingStays(t *testing.T, kind Kind) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	var all []Contender
	var wg sync.WaitGroup
	for range 10 {
		c := testbed.Must(kind.New(bed.Client(t), "/deep/down/lock"))
		all = append(all, c)
		wg.Go(func() {
			assert.NoError(t, c.Do(testbed.Context(t), func(ctx context.Context) error { return ctx.Err() }))
		})
	}
	wg.Wait()
	testbed.Eventually(t, func() bool {
		server.ReapContainers()
		return server.Tree() == ""
	}, "the containers are deleted")
	release(t, acquire(t, all[0])) // creates them again
}

func suspension(t *testing.T, kind Kind) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		c := testbed.Must(kind.New(client, "/lock"))
		hold := acquire(t, c)
		before := testbed.Session(t, client)
		w.Server.CutConnections()
		testbed.Receive(t, hold.Done(), "the suspension")
		require.ErrorIs(t, hold.Err(), framework.ErrSuspended)
		require.NoError(t, client.WaitConnected(t.Context()))
		require.NoError(t, hold.Release(), "the nodes existed, so no other client has held")
		after := testbed.Session(t, client)
		require.Same(t, before, after)
		for _, dir := range kind.dirs("/lock") {
			children, err := w.Server.Children(dir)
			require.True(t, err != nil || len(children) == 0, "%v", children)
		}
	})
}
