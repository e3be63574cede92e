package mutex_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMutex(t *testing.T) {
	testbed.Run(t, []testbed.Case{
		{Name: "two sessions exclude each other, and a release hands over", Test: handsOver}, // CUR-MTX-01
		{Name: "many sessions never overlap", Test: neverOverlap},
		{Name: "goroutines that share a mutex never overlap", Test: sharedMutex}, // CUR-MTX-05, KZ-MTX-05
		{Name: "goroutines that pass their node on never overlap", Test: handedOn},
		{Name: "first come, first served", Test: fifo},
		{Name: "tokens rise from holder to holder", Test: tokensRise},
		{Name: "a wait that times out leaves no node", Test: timeoutLeavesNothing}, // CUR-MTX-08, KZ-MTX-08
		{Name: "a cancelled wait returns the cause and leaves no node", Test: cancelLeavesNothing},
		{Name: "a try on a held mutex leaves no trace", Test: tryLeavesNoTrace},    // KZ-MTX-02
		{Name: "of many tries one wins", Test: oneTryWins},                         // KZ-MTX-04
		{Name: "a hold's context re-enters", Test: reenters},                       // CUR-MTX-06
		{Name: "a context from elsewhere does not re-enter", Test: strangersQueue}, // KZ-MTX-03
		{Name: "a released hold's context is refused", Test: releasedContextIsRefused},
		{Name: "a hold is released once", Test: releasedOnce},  // CUR-MTX-09
		{Name: "a mutex can be used again", Test: reusable},    // KZ-MTX-06
		{Name: "do holds inside and not after", Test: doHolds}, // CUR-MTX-02
		{Name: "do releases when f panics", Test: doSurvivesPanic},
		{Name: "do's context ends with the caller's", Test: doEndsWithCaller},
		{Name: "a crash frees the mutex and ends the hold", Test: crashFrees},
		{Name: "a waiter that loses its session queues again", Test: waiterQueuesAgain},
		{Name: "a holder learns that its node was deleted", Test: nodeDeleted},
		{Name: "max hold lets go", Test: maxHoldLetsGo},
		{Name: "a guard commits only while the node exists", Test: guard},
		{Name: "foreign children neither block nor break", Test: foreignChildren},      // CURATOR-43
		{Name: "participants are listed in order", Test: participants},                 // CUR-MTX-10, KZ-MTX-01
		{Name: "nodes lie in the client's namespace", Test: inNamespace},               // CUR-MTX-04
		{Name: "closing a client frees its locks and ends its waits", Test: closeEnds}, // CUR-MTX-11
	})
}

// newMutex makes a mutex on a client of its own.
func newMutex(t *testing.T, bed *testbed.Bed, path string, opts ...lock.Option) (*mutex.Mutex, *framework.Client) {
	t.Helper()
	client := bed.Client(t)
	m, err := mutex.New(client, path, opts...)
	require.NoError(t, err)
	return m, client
}

func acquire(t *testing.T, m *mutex.Mutex) *lock.Hold {
	t.Helper()
	hold, err := m.Acquire(testbed.Context(t))
	require.NoError(t, err)
	require.NoError(t, hold.Err())
	return hold
}

// acquiring is an Acquire that runs.
type acquiring struct {
	hold *lock.Hold
	err  error
}

// start begins an Acquire and returns when it has queued behind n others.
func start(t *testing.T, ctx context.Context, m *mutex.Mutex, n int) <-chan acquiring {
	t.Helper()
	done := make(chan acquiring, 1)
	go func() {
		hold, err := m.Acquire(ctx)
		done <- acquiring{hold, err}
	}()
	queued(t, m, n+1)
	return done
}

// queued waits until n nodes are in the queue.
func queued(t *testing.T, m *mutex.Mutex, n int) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		ps, err := m.Participants(testbed.Context(t))
		return err == nil && len(ps) == n
	}, "the queue has the expected length")
}

func handsOver(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	a, _ := newMutex(t, bed, path)
	b, _ := newMutex(t, bed, path)
	hold := acquire(t, a)
	waiting := start(t, testbed.Context(t), b, 1)
	select {
	case <-waiting:
		t.Fatal("acquired a held mutex")
	default:
	}
	require.NoError(t, hold.Release())
	require.ErrorIs(t, hold.Err(), lock.ErrReleased)
	got := testbed.Receive(t, waiting, "the mutex")
	require.NoError(t, got.err)
	require.NoError(t, got.hold.Release())
}

func neverOverlap(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	var mutexes []*mutex.Mutex
	for range 5 {
		m, _ := newMutex(t, bed, path)
		mutexes = append(mutexes, m)
	}
	contend(t, mutexes, 10)
}

func sharedMutex(t *testing.T, bed *testbed.Bed) {
	m, _ := newMutex(t, bed, testbed.Path(t))
	var mutexes []*mutex.Mutex
	for range 20 {
		mutexes = append(mutexes, m)
	}
	contend(t, mutexes, 3)
}

// handedOn has two processes' worth of goroutines that pass their node on, and one that does not.
func handedOn(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	plain, _ := newMutex(t, bed, path)
	mutexes := []*mutex.Mutex{plain}
	for range 2 {
		m, _ := newMutex(t, bed, path, lock.WithLocalHandOff(5, time.Minute))
		for range 10 {
			mutexes = append(mutexes, m)
		}
	}
	contend(t, mutexes, 5)
}

// contend lets one goroutine per mutex go in and out, and checks that none meets another.
func contend(t *testing.T, mutexes []*mutex.Mutex, rounds int) {
	t.Helper()
	var inside, entered atomic.Int32
	var wg sync.WaitGroup
	ctx := testbed.Context(t)
	for _, m := range mutexes {
		wg.Go(func() {
			for range rounds {
				err := m.Do(ctx, func(ctx context.Context) error {
					assert.EqualValues(t, 1, inside.Add(1), "alone inside")
					entered.Add(1)
					inside.Add(-1)
					return ctx.Err()
				})
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, len(mutexes)*rounds, entered.Load())
}

func fifo(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	first, _ := newMutex(t, bed, path)
	hold := acquire(t, first)
	const n = 5
	order := make(chan int, n)
	for i := range n {
		m, _ := newMutex(t, bed, path)
		go func() {
			_ = m.Do(testbed.Context(t), func(context.Context) error {
				order <- i
				return nil
			})
		}()
		queued(t, first, i+2)
	}
	require.NoError(t, hold.Release())
	for i := range n {
		assert.Equal(t, i, testbed.Receive(t, order, "the next holder"))
	}
	queued(t, first, 0)
}

func tokensRise(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	path := testbed.Path(t)
	m, client := newMutex(t, bed, path)
	var last int64
	for round := range 4 {
		hold := acquire(t, m)
		token, err := hold.FencingToken(ctx)
		require.NoError(t, err)
		require.Greater(t, token, last, "round %d", round)
		again, err := hold.FencingToken(ctx)
		require.NoError(t, err)
		require.Equal(t, token, again)
		last = token
		require.NoError(t, hold.Release())
		if round == 1 {
			// Numbers start again with the parent; tokens do not. A real
			// server may have reaped it by itself.
			if err := client.Delete(ctx, path, -1); err != nil {
				require.ErrorIs(t, err, zk.ErrNoNode)
			}
		}
	}
}

func timeoutLeavesNothing(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	a, _ := newMutex(t, bed, path)
	b, _ := newMutex(t, bed, path)
	hold := acquire(t, a)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := b.Acquire(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, path)
	queued(t, a, 1)
	require.NoError(t, hold.Err(), "the holder is not disturbed")
	require.NoError(t, hold.Release())
}

func cancelLeavesNothing(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	a, _ := newMutex(t, bed, path)
	b, _ := newMutex(t, bed, path)
	hold := acquire(t, a)
	ctx, cancel := context.WithCancelCause(t.Context())
	waiting := start(t, ctx, b, 1)
	cancel(assert.AnError)
	got := testbed.Receive(t, waiting, "the end of the wait")
	require.ErrorIs(t, got.err, context.Canceled)
	require.ErrorIs(t, got.err, assert.AnError, "the cause is kept")
	require.Nil(t, got.hold)
	queued(t, a, 1)
	require.NoError(t, hold.Release())

	_, err := b.Acquire(ctx)
	require.ErrorIs(t, err, assert.AnError, "a context that is done beforehand")
	queued(t, a, 0)
}

func tryLeavesNoTrace(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	a, _ := newMutex(t, bed, path)
	b, clientB := newMutex(t, bed, path)
	hold, err := a.TryAcquire(testbed.Context(t))
	require.NoError(t, err, "a path that does not exist yet is free")
	_, err = b.TryAcquire(testbed.Context(t))
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	testbed.CatchUp(t, clientB)
	ps, err := b.Participants(testbed.Context(t))
	require.NoError(t, err)
	require.Len(t, ps, 1)
	require.NoError(t, hold.Release())
	testbed.CatchUp(t, clientB)
	hold, err = b.TryAcquire(testbed.Context(t))
	require.NoError(t, err)
	require.NoError(t, hold.Release())
}

func oneTryWins(t *testing.T, bed *testbed.Bed) {
	m, _ := newMutex(t, bed, testbed.Path(t))
	const n = 20
	results := make(chan acquiring, n)
	for range n {
		go func() {
			hold, err := m.TryAcquire(testbed.Context(t))
			results <- acquiring{hold, err}
		}()
	}
	won := 0
	var hold *lock.Hold
	for range n {
		r := testbed.Receive(t, results, "a try")
		if r.err == nil {
			won, hold = won+1, r.hold
			continue
		}
		assert.ErrorIs(t, r.err, lock.ErrNotAcquired)
	}
	require.Equal(t, 1, won, "the node that is made first")
	require.NoError(t, hold.Release())
	queued(t, m, 0)
}

func reenters(t *testing.T, bed *testbed.Bed) {
	m, _ := newMutex(t, bed, testbed.Path(t))
	outer := acquire(t, m)
	middle, err := m.Acquire(outer.Context())
	require.NoError(t, err)
	inner, err := m.TryAcquire(middle.Context())
	require.NoError(t, err)
	require.Equal(t, outer.Path(), inner.Path(), "one node")
	queued(t, m, 1)

	require.NoError(t, outer.Release(), "in any order")
	require.ErrorIs(t, outer.Err(), lock.ErrReleased)
	require.NoError(t, inner.Err())
	require.NoError(t, inner.Release())
	require.NoError(t, middle.Err(), "held until the last one")
	queued(t, m, 1)
	require.NoError(t, middle.Release())
	queued(t, m, 0)
}

func strangersQueue(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	m, client := newMutex(t, bed, path)
	other, err := mutex.New(client, path+"-other")
	require.NoError(t, err)
	hold := acquire(t, m)
	_, err = m.TryAcquire(testbed.Context(t))
	require.ErrorIs(t, err, lock.ErrNotAcquired, "the same client is no reason to come in")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = m.Acquire(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, hold.Err())
	inner, err := other.Acquire(hold.Context())
	require.NoError(t, err, "another lock, from inside this one")
	require.NotEqual(t, hold.Path(), inner.Path())
	require.NoError(t, inner.Release())
	require.NoError(t, hold.Release())
}

func releasedContextIsRefused(t *testing.T, bed *testbed.Bed) {
	m, _ := newMutex(t, bed, testbed.Path(t))
	hold := acquire(t, m)
	require.NoError(t, hold.Release())
	_, err := m.Acquire(hold.Context())
	require.ErrorIs(t, err, lock.ErrReleased)
	queued(t, m, 0)
}

func releasedOnce(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	a, _ := newMutex(t, bed, path)
	b, _ := newMutex(t, bed, path)
	stale := acquire(t, a)
	require.NoError(t, stale.Release())
	hold := acquire(t, b)
	require.ErrorIs(t, stale.Release(), lock.ErrReleased)
	queued(t, a, 1) // etcd 22082: a stale unlock must not hit the next holder
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Release())

	outer := acquire(t, a)
	inner, err := a.Acquire(outer.Context())
	require.NoError(t, err)
	require.NoError(t, inner.Release())
	require.ErrorIs(t, inner.Release(), lock.ErrReleased)
	require.NoError(t, outer.Err(), "releasing the inner one twice does not release the outer one")
	require.NoError(t, outer.Release())
}

func reusable(t *testing.T, bed *testbed.Bed) {
	m, _ := newMutex(t, bed, testbed.Path(t))
	for range 3 {
		require.NoError(t, acquire(t, m).Release())
	}
}

func doHolds(t *testing.T, bed *testbed.Bed) {
	m, _ := newMutex(t, bed, testbed.Path(t))
	err := m.Do(testbed.Context(t), func(ctx context.Context) error {
		queued(t, m, 1)
		require.NoError(t, m.Do(ctx, func(context.Context) error { return nil }), "re-enters")
		return assert.AnError
	})
	require.ErrorIs(t, err, assert.AnError)
	queued(t, m, 0)
}

func doSurvivesPanic(t *testing.T, bed *testbed.Bed) {
	m, _ := newMutex(t, bed, testbed.Path(t))
	require.Panics(t, func() {
		_ = m.Do(testbed.Context(t), func(context.Context) error { panic("in the critical section") })
	})
	queued(t, m, 0)
}

func doEndsWithCaller(t *testing.T, bed *testbed.Bed) {
	m, _ := newMutex(t, bed, testbed.Path(t))
	ctx, cancel := context.WithCancelCause(t.Context())
	err := m.Do(ctx, func(ctx context.Context) error {
		cancel(assert.AnError)
		testbed.Receive(t, ctx.Done(), "the end of f's context")
		return context.Cause(ctx)
	})
	require.ErrorIs(t, err, assert.AnError)
	queued(t, m, 0)
}

func crashFrees(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	a, client := newMutex(t, bed, path)
	b, _ := newMutex(t, bed, path)
	hold := acquire(t, a)
	waiting := start(t, testbed.Context(t), b, 1)
	bed.KillSession(t, client)
	got := testbed.Receive(t, waiting, "the mutex")
	require.NoError(t, got.err)
	testbed.Receive(t, hold.Done(), "word of the loss")
	require.Error(t, hold.Err())
	require.Error(t, hold.Release(), "a loss is not a release")
	queued(t, b, 1)
	require.NoError(t, got.hold.Release())
	require.NoError(t, acquire(t, a).Release(), "the client goes on with a new session")
}

func waiterQueuesAgain(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	a, _ := newMutex(t, bed, path)
	b, client := newMutex(t, bed, path)
	hold := acquire(t, a)
	waiting := start(t, testbed.Context(t), b, 1)
	before, err := a.Participants(testbed.Context(t))
	require.NoError(t, err)
	bed.KillSession(t, client)
	testbed.Eventually(t, func() bool {
		after, err := a.Participants(testbed.Context(t))
		return err == nil && len(after) == 2 && after[1].Path != before[1].Path
	}, "the waiter is back with a new node")
	require.NoError(t, hold.Release())
	got := testbed.Receive(t, waiting, "the mutex")
	require.NoError(t, got.err)
	require.NoError(t, got.hold.Release())
	queued(t, a, 0)
}

func nodeDeleted(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	m, _ := newMutex(t, bed, path)
	hold := acquire(t, m)
	require.NoError(t, bed.Client(t).Delete(testbed.Context(t), hold.Path(), -1))
	testbed.Receive(t, hold.Done(), "word of the loss")
	require.ErrorIs(t, hold.Err(), lock.ErrNodeDeleted)
	require.ErrorIs(t, hold.Release(), lock.ErrNodeDeleted)
	_, err := m.Acquire(hold.Context())
	require.ErrorIs(t, err, lock.ErrNodeDeleted, "a lost hold cannot be re-entered")
}

func maxHoldLetsGo(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	a, _ := newMutex(t, bed, path, lock.WithMaxHold(20*time.Millisecond))
	b, _ := newMutex(t, bed, path)
	hold, err := a.Acquire(testbed.Context(t)) // its time may be over by now
	require.NoError(t, err)
	next := acquire(t, b)
	require.ErrorIs(t, hold.Err(), lock.ErrMaxHold, "the hold ends before the next one begins")
	require.ErrorIs(t, hold.Release(), lock.ErrMaxHold)
	require.NoError(t, next.Release())
}

func guard(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	path := testbed.Path(t)
	m, client := newMutex(t, bed, path)
	hold := acquire(t, m)
	target := path + "-guarded"
	_, err := client.Create(ctx, target, []byte("0"), framework.ContainerParents())
	require.NoError(t, err)
	_, err = client.Multi(ctx, hold.Guard(), &zk.SetDataRequest{Path: target, Data: []byte("1"), Version: -1})
	require.NoError(t, err)
	require.NoError(t, hold.Release())
	_, err = client.Multi(ctx, hold.Guard(), &zk.SetDataRequest{Path: target, Data: []byte("2"), Version: -1})
	require.ErrorIs(t, err, zk.ErrNoNode)
	data, _, err := client.Get(ctx, target)
	require.NoError(t, err)
	require.Equal(t, "1", string(data))
}

func foreignChildren(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	path := testbed.Path(t)
	m, client := newMutex(t, bed, path)
	for _, name := range []string{
		"_c_x", "_c_", "lock-", "lock-12", "lock-abcdefghij", "0000000000", "x-lock-00000000001", "config",
		"f3d7b1d2a4f64e0c8a8f0c2b6e5d4c3b__lock__0000000000", // kazoo's
	} {
		_, err := client.Create(ctx, framework.Join(path, name), []byte{}, framework.ContainerParents())
		require.NoError(t, err)
	}
	hold, err := m.TryAcquire(ctx)
	require.NoError(t, err)
	ps, err := m.Participants(ctx)
	require.NoError(t, err)
	require.Len(t, ps, 1)
	require.NoError(t, hold.Release())
}

func participants(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	path := testbed.Path(t)
	a, client := newMutex(t, bed, path, lock.WithData([]byte("a")))
	b, _ := newMutex(t, bed, path, lock.WithData([]byte("b")))
	ps, err := a.Participants(ctx)
	require.NoError(t, err)
	require.Empty(t, ps, "a path that does not exist")
	hold := acquire(t, a)
	waiting := start(t, ctx, b, 1)

	ps, err = b.Participants(ctx)
	require.NoError(t, err)
	require.Len(t, ps, 2)
	token, err := hold.FencingToken(ctx)
	require.NoError(t, err)
	session, err := client.Session(ctx)
	require.NoError(t, err)
	assert.Equal(t, hold.Path(), ps[0].Path)
	assert.True(t, ps[0].Holds)
	assert.Equal(t, "a", string(ps[0].Data))
	assert.Equal(t, session.ID(), ps[0].Session)
	assert.Equal(t, token, ps[0].Token)
	assert.WithinDuration(t, time.Now(), ps[0].Since, time.Minute)
	assert.False(t, ps[1].Holds)
	assert.Equal(t, "b", string(ps[1].Data))

	require.NoError(t, hold.Release())
	require.NoError(t, testbed.Receive(t, waiting, "the mutex").hold.Release())
}

func inNamespace(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	path := testbed.Path(t)
	client := bed.Client(t, framework.WithNamespace("billing"))
	root, err := client.Namespace("")
	require.NoError(t, err)
	m, err := mutex.New(client, path)
	require.NoError(t, err)
	hold := acquire(t, m)
	parent, _ := framework.Split(hold.Path())
	assert.Equal(t, path, parent)
	found, _, err := root.Exists(ctx, "/billing"+hold.Path())
	require.NoError(t, err)
	assert.True(t, found)
	_, err = hold.FencingToken(ctx)
	require.NoError(t, err)
	require.NoError(t, hold.Release())
	found, _, err = root.Exists(ctx, "/billing"+hold.Path())
	require.NoError(t, err)
	assert.False(t, found)
}

func closeEnds(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	a, clientA := newMutex(t, bed, path)
	b, clientB := newMutex(t, bed, path)
	c, _ := newMutex(t, bed, path)
	hold := acquire(t, a)
	waiting := start(t, context.Background(), b, 1)
	require.NoError(t, clientB.Close())
	require.ErrorIs(t, testbed.Receive(t, waiting, "the end of the wait").err, framework.ErrClosed)
	queued(t, c, 1)
	require.NoError(t, clientA.Close())
	require.ErrorIs(t, hold.Err(), framework.ErrClosed)
	require.ErrorIs(t, hold.Release(), framework.ErrClosed)
	require.NoError(t, acquire(t, c).Release())
	_, err := a.Acquire(t.Context())
	require.ErrorIs(t, err, framework.ErrClosed)
	require.NoError(t, clientA.Close(), "again")
}

func TestNothingStaysOnTheServer(t *testing.T) { // CUR-MTX-03
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	var mutexes []*mutex.Mutex
	for range 10 {
		m, _ := newMutex(t, bed, "/deep/down/lock")
		mutexes = append(mutexes, m)
	}
	contend(t, mutexes, 1)
	testbed.Eventually(t, func() bool {
		server.ReapContainers()
		return server.Tree() == ""
	}, "the containers go")
	require.NoError(t, acquire(t, mutexes[0]).Release(), "they are made again")
}

func TestBadArgumentsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	bed := testbed.InProcess(t)
	client := bed.Client(t)
	for name, path := range map[string]string{
		"empty": "", "relative": "a/b", "root": "/", "slash at the end": "/a/", "empty element": "/a//b", "dots": "/a/../b", "control": "/a\x00",
	} {
		_, err := mutex.New(client, path)
		assert.ErrorIs(t, err, framework.ErrBadPath, name)
	}
	_, err := mutex.New(nil, "/a")
	assert.ErrorIs(t, err, framework.ErrBadArgument)
	for name, opt := range map[string]lock.Option{
		"nil": nil, "zero max hold": lock.WithMaxHold(0), "negative max hold": lock.WithMaxHold(-1),
		"zero leases": lock.WithMaxLeases(0), "two leases": lock.WithMaxLeases(2), "policy": lock.WithErrorPolicy(17),
	} {
		_, err := mutex.New(client, "/a", opt)
		assert.ErrorIs(t, err, framework.ErrBadArgument, name)
	}
}

// TestLostReplyUnderAHoldsContextIsUnknown: the lost connection fails the write, and a moment later it ends the context of the
// hold. The error must say that the write may have been carried out.
func TestLostReplyUnderAHoldsContextIsUnknown(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, newClient func(...framework.Option) *framework.Client) {
		require.NoError(t, server.Create("/n", nil))
		for range 200 {
			client := newClient()
			m, err := mutex.New(client, "/lock")
			require.NoError(t, err)
			hold, err := m.Acquire(testbed.Context(t))
			require.NoError(t, err)
			_, before, err := client.Exists(testbed.Context(t), "/n")
			require.NoError(t, err)
			server.Inject(zktest.LoseReply, 0, zktest.OnOp(zktest.OpMulti))
			_, failed := client.Multi(hold.Context(), hold.Guard(), &zk.SetDataRequest{Path: "/n", Data: []byte("x"), Version: -1})
			_, after, err := client.Exists(testbed.Context(t), "/n")
			require.NoError(t, err)
			if failed != nil && after.Version != before.Version {
				require.True(t, retry.Unknown(failed), "%v", failed)
			}
			_ = hold.Release()
			require.NoError(t, client.Close())
		}
	})
}
