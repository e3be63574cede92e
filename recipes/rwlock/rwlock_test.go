package rwlock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/locksuite"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReadWriteLock(t *testing.T) {
	testbed.Run(t, []testbed.Case{
		{Name: "readers hold together, and each side lists its own kind", Test: readersTogether}, // CUR-RWL-01
		{Name: "readers share, and a writer does not join them", Test: readersKeepWriterOut},     // KZ-RWL-01
		{Name: "first come, first served", Test: fifo},                                           // CUR-RWL-08
		{Name: "a stream of readers does not starve a writer", Test: noStarving},
		{Name: "a hold of one lock is none of another", Test: strangers},
		{Name: "a reader that asks for write is refused at once", Test: upgrade}, // CUR-RWL-02
		{Name: "a writer becomes a reader and nobody comes between", Test: downgrade},
		{Name: "a writer may read while it writes", Test: readsWhileWriting}, // CUR-RWL-03
		{Name: "queued readers join a downgraded writer", Test: readersJoinDowngraded},
		{Name: "a downgrade that races with the release never makes two holders", Test: downgradeRace},
		{Name: "a downgrade that is overtaken by the release is refused", Test: downgradeOvertaken},
		{Name: "a downgrade after the write hold ended is refused", Test: downgradeTooLate},
		{Name: "the nodes have the data and the ACL given", Test: dataAndACL}, // CUR-RWL-05, -06
		{Name: "a downgrade and a writer that are cancelled leave no node", Test: cancelLeavesNothing},
		{Name: "a crash of a downgraded writer takes both nodes", Test: downgradedCrashes},
		{Name: "under load writers are alone and readers overlap", Test: load}, // CUR-RWL-04
	})
}

// TestSides is the suite with each side, for CUR-RWL-07 among others.
func TestSides(t *testing.T) {
	side := func(of func(*rwlock.Lock) *rwlock.Side) locksuite.New {
		return func(client *framework.Client, path string, opts ...lock.Option) (c locksuite.Contender, err error) {
			l, err := rwlock.New(client, path, opts...)
			if err != nil {
				return c, err
			}
			return locksuite.Of(of(l), l.Participants), nil
		}
	}
	read, write := side((*rwlock.Lock).Read), side((*rwlock.Lock).Write)
	foreign := []string{
		"__READ__", "__WRIT__", "__READ__12", "__WRIT__abcdefghij", "__READ__0000000000-x", "lock-0000000000",
		"_c_00000000-0000-0000-0000-000000000000-lock-0000000000",
		"f3d7b1d2a4f64e0c8a8f0c2b6e5d4c3b__rlock__0000000000", // kazoo's
	}
	for name, kind := range map[string]locksuite.Kind{
		"read":  {New: read, Rivals: []locksuite.New{write}, Shared: true},
		"write": {New: write, Rivals: []locksuite.New{write, read}},
	} {
		kind.Op, kind.Reentrant, kind.Late, kind.Foreign = "rwlock", true, true, foreign
		t.Run(name, func(t *testing.T) { locksuite.Run(t, kind) })
	}
}

func newLock(t *testing.T, bed *testbed.Bed, path string, opts ...lock.Option) (*rwlock.Lock, *framework.Client) {
	t.Helper()
	client := bed.Client(t)
	return lockOn(client, path, opts...), client
}

func lockOn(client *framework.Client, path string, opts ...lock.Option) *rwlock.Lock {
	return testbed.Must(rwlock.New(client, path, opts...))
}

// newLocks returns two locks at one path, and the client of the first.
func newLocks(t *testing.T, bed *testbed.Bed, opts ...lock.Option) (a, b *rwlock.Lock, clientA *framework.Client) {
	t.Helper()
	path := testbed.Path(t)
	a, clientA = newLock(t, bed, path, opts...)
	b, _ = newLock(t, bed, path)
	return a, b, clientA
}

func acquire(t *testing.T, side *rwlock.Side) *lock.Hold {
	t.Helper()
	return acquireIn(t, testbed.Context(t), side)
}

func acquireIn(t *testing.T, ctx context.Context, side *rwlock.Side) *lock.Hold {
	t.Helper()
	hold, err := side.Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, hold.Err())
	return hold
}

func release(t *testing.T, holds ...*lock.Hold) {
	t.Helper()
	for _, hold := range holds {
		require.NoError(t, hold.Release())
	}
}

// acquiring is an Acquire that runs.
type acquiring struct {
	hold *lock.Hold
	err  error
}

// begin begins an Acquire.
func begin(ctx context.Context, side *rwlock.Side) <-chan acquiring {
	return testbed.Go(func() acquiring {
		hold, err := side.Acquire(ctx)
		return acquiring{hold, err}
	})
}

// start begins an Acquire and returns when the queue has n nodes.
func start(t *testing.T, ctx context.Context, side *rwlock.Side, all *rwlock.Lock, n int) <-chan acquiring {
	t.Helper()
	done := begin(ctx, side)
	queued(t, all, n)
	return done
}

func queued(t *testing.T, l *rwlock.Lock, n int) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		ps, err := l.Participants(testbed.Context(t))
		return err == nil && len(ps) == n
	}, "the queue has the expected length")
}

func received(t *testing.T, c <-chan acquiring) *lock.Hold {
	t.Helper()
	got := testbed.Receive(t, c, "the lock")
	require.NoError(t, got.err)
	return got.hold
}

func waits(t *testing.T, c <-chan acquiring) {
	t.Helper()
	select {
	case got := <-c:
		require.Fail(t, "did not wait", "%v", got.err)
	default:
	}
}

func refused(t *testing.T, side *rwlock.Side) {
	t.Helper()
	require.ErrorIs(t, testbed.Err(side.TryAcquire(testbed.Context(t))), lock.ErrNotAcquired)
}

func try(t *testing.T, side *rwlock.Side) *lock.Hold {
	t.Helper()
	var hold *lock.Hold
	testbed.Eventually(t, func() bool { // the server may not know yet that it is free
		var err error
		hold, err = side.TryAcquire(testbed.Context(t))
		if err != nil {
			require.ErrorIs(t, err, lock.ErrNotAcquired)
		}
		return err == nil
	}, "the free lock")
	return hold
}

func readersTogether(t *testing.T, bed *testbed.Bed) {
	const readers, writers = 20, 8
	l, client := newLock(t, bed, testbed.Path(t))
	ctx := testbed.Context(t)
	var reading []*lock.Hold
	for range readers {
		reading = append(reading, acquire(t, l.Read()))
	}
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			assert.NoError(t, l.Write().Do(ctx, func(context.Context) error { return nil }))
		})
	}
	queued(t, l, readers+writers)

	rs := testbed.Must(l.Read().Participants(ctx))
	require.Len(t, rs, readers)
	for i, p := range rs {
		assert.Equal(t, reading[i].Path(), p.Path)
		assert.True(t, p.Holds)
	}
	ws := testbed.Must(l.Write().Participants(ctx))
	require.Len(t, ws, writers)
	session := testbed.Session(t, client)
	for _, p := range ws {
		assert.False(t, p.Holds)
		assert.Equal(t, session.ID(), p.SessionID)
	}
	for _, hold := range reading {
		require.NoError(t, hold.Err())
	}
	release(t, reading...)
	wg.Wait()
	queued(t, l, 0)
}

func readersKeepWriterOut(t *testing.T, bed *testbed.Bed) {
	a, b, _ := newLocks(t, bed)
	c, _ := newLock(t, bed, a.Path())
	first := try(t, a.Read())
	second := try(t, b.Read())
	refused(t, c.Write())
	queued(t, c, 2)
	third := try(t, a.Read())
	release(t, first, second)
	refused(t, c.Write())
	release(t, third)
	release(t, try(t, c.Write()))
}

func fifo(t *testing.T, bed *testbed.Bed) {
	l, _ := newLock(t, bed, testbed.Path(t))
	first := acquire(t, l.Write())
	// Reader and writer take turns: w | r r | w | r | w
	sides := []*rwlock.Side{l.Read(), l.Read(), l.Write(), l.Read(), l.Write()}
	var got []<-chan acquiring
	for i, side := range sides {
		got = append(got, start(t, testbed.Context(t), side, l, i+2))
	}
	holders := func() []bool {
		ps := testbed.Must(l.Participants(testbed.Context(t)))
		var holds []bool
		for _, p := range ps {
			holds = append(holds, p.Holds)
		}
		return holds
	}
	require.Equal(t, []bool{true, false, false, false, false, false}, holders())
	release(t, first)
	r1, r2 := received(t, got[0]), received(t, got[1])
	require.Equal(t, []bool{true, true, false, false, false}, holders())
	release(t, r2) // in any order
	waits(t, got[2])
	release(t, r1)
	w := received(t, got[2])
	require.Equal(t, []bool{true, false, false}, holders())
	waits(t, got[3])
	release(t, w)
	r3 := received(t, got[3])
	waits(t, got[4])
	release(t, r3)
	release(t, received(t, got[4]))
}

func noStarving(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	l, _ := newLock(t, bed, path)
	ctx, cancel := context.WithCancel(testbed.Context(t))
	defer cancel()
	var wg sync.WaitGroup
	var rounds atomic.Int32
	for range 3 {
		// Each holds until another one reads: there is never a moment without a reader,
		// until the writer keeps newcomers out.
		r, _ := newLock(t, bed, path)
		wg.Go(func() {
			hold, err := r.Read().Acquire(ctx)
			for err == nil {
				var next *lock.Hold
				again := make(chan struct{})
				go func() {
					defer close(again)
					next, err = r.Read().Acquire(ctx)
				}()
				select {
				case <-again:
				case <-time.After(20 * time.Millisecond): // a writer is in between
				}
				assert.NoError(t, hold.Release())
				<-again
				hold = next
				rounds.Add(1)
			}
		})
	}
	testbed.Eventually(t, func() bool { return rounds.Load() > 10 }, "readers stream")
	for range 3 {
		hold, err := l.Write().Acquire(ctx)
		require.NoError(t, err, "a writer gets in")
		release(t, hold)
	}
	cancel()
	wg.Wait()
	queued(t, l, 0)
}

func strangers(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	l, client := newLock(t, bed, path)
	hold := acquire(t, l.Read())
	release(t, acquireIn(t, hold.Context(), lockOn(client, path+"-other").Write()))
	_, err := lockOn(client, path).Write().TryAcquire(hold.Context())
	require.ErrorIs(t, err, rwlock.ErrUpgrade, "another Lock of the client at the same path is the same lock")
	release(t, hold)
}

func upgrade(t *testing.T, bed *testbed.Bed) {
	l, _ := newLock(t, bed, testbed.Path(t), lock.WithReentry())
	hold := acquire(t, l.Read())
	_, err := l.Write().Acquire(hold.Context())
	require.ErrorIs(t, err, rwlock.ErrUpgrade)
	testbed.OneOp(t, err, "acquire", l.Path())
	_, err = l.Write().TryAcquire(hold.Context())
	require.ErrorIs(t, err, rwlock.ErrUpgrade)
	testbed.OneOp(t, err, "try", l.Path())
	err = l.Write().Do(hold.Context(), func(context.Context) error { panic("not called") })
	require.ErrorIs(t, err, rwlock.ErrUpgrade)
	testbed.OneOp(t, err, "acquire", l.Path())
	queued(t, l, 1)

	inner := acquireIn(t, hold.Context(), l.Read())
	release(t, inner)
	_, err = l.Write().Acquire(inner.Context())
	require.ErrorIs(t, err, lock.ErrReleased, "it would wait for the outer hold")
	release(t, hold)
	release(t, acquire(t, l.Write()))
}

func downgraded(t *testing.T, l *rwlock.Lock, write *lock.Hold) *lock.Hold {
	t.Helper()
	read, err := l.Downgrade(write.Context())
	require.NoError(t, err)
	require.NoError(t, read.Err())
	return read
}

func downgrade(t *testing.T, bed *testbed.Bed) {
	a, b, _ := newLocks(t, bed, lock.WithReentry())
	write := acquire(t, a.Write())
	writer := start(t, testbed.Context(t), b.Write(), a, 2)
	reader := start(t, testbed.Context(t), b.Read(), a, 3)

	read := acquireIn(t, write.Context(), a.Read())
	release(t, write)
	require.NoError(t, read.Err())
	ps := testbed.Must(a.Participants(testbed.Context(t)))
	require.Len(t, ps, 3)
	require.Equal(t, read.Path(), ps[0].Path, "the writer's own place")
	require.Equal(t, []bool{true, false, false}, []bool{ps[0].Holds, ps[1].Holds, ps[2].Holds})
	refused(t, b.Read()) // the rules of the queue: a writer is ahead
	refused(t, b.Write())
	waits(t, writer)

	require.ErrorIs(t, testbed.Err(a.Write().Acquire(read.Context())), rwlock.ErrUpgrade, "there is no way back")
	again := acquireIn(t, read.Context(), a.Read())
	release(t, read)
	waits(t, writer)
	release(t, again)
	release(t, received(t, writer))
	release(t, received(t, reader))
	queued(t, a, 0)
}

func readsWhileWriting(t *testing.T, bed *testbed.Bed) {
	l, _ := newLock(t, bed, testbed.Path(t), lock.WithReentry())
	write := acquire(t, l.Write())
	read := testbed.Must(l.Read().TryAcquire(write.Context()))
	require.NotEqual(t, write.Path(), read.Path())
	deeper := acquireIn(t, read.Context(), l.Write())
	require.Equal(t, write.Path(), deeper.Path(), "still the writer")
	second := acquireIn(t, write.Context(), l.Read())
	require.NotEqual(t, read.Path(), second.Path(), "not from the first read hold's context")
	refused(t, l.Read()) // the only one
	release(t, deeper, read, second)
	require.NoError(t, write.Err(), "still writing")
	refused(t, l.Read())
	release(t, write)
	queued(t, l, 0)
}

func readersJoinDowngraded(t *testing.T, bed *testbed.Bed) {
	a, b, _ := newLocks(t, bed)
	write := acquire(t, a.Write())
	reader := start(t, testbed.Context(t), b.Read(), a, 2)
	read := downgraded(t, a, write)
	waits(t, reader)
	release(t, write)
	joined := received(t, reader)
	require.NoError(t, read.Err())
	third := try(t, b.Read())
	refused(t, b.Write())
	release(t, read, joined, third)
}

func downgradeRace(t *testing.T, bed *testbed.Bed) {
	a, b, _ := newLocks(t, bed)
	granted := 0
	for range 30 {
		write := acquire(t, a.Write())
		next := start(t, testbed.Context(t), b.Write(), a, 2)
		released := testbed.Go(write.Release)
		read, err := a.Downgrade(write.Context())
		require.NoError(t, testbed.Receive(t, released, "the release"))
		if err != nil {
			require.ErrorIs(t, err, lock.ErrReleased)
			release(t, received(t, next))
			continue
		}
		granted++
		require.NoError(t, read.Err())
		refused(t, b.Read())
		waits(t, next)
		release(t, read)
		release(t, received(t, next))
	}
	queued(t, a, 0)
	t.Logf("granted %d of 30", granted)
}

// The write hold is released, and the next writer let in, between the moment at which the
// downgrade has seen that it is held and the making of its node.
func downgradeOvertaken(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	b, _ := newLock(t, bed, path)
	var write, next *lock.Hold
	client := bed.Client(t, framework.WithACLProvider(func(path string) []zk.ACL {
		// With the writer's ACL.
		if write != nil && next == nil && strings.HasSuffix(path, "__WRIT__") {
			assert.NoError(t, write.Release())
			next = acquire(t, b.Write())
		}
		return nil
	}))
	a := lockOn(client, path)
	write = acquire(t, a.Write())
	// Not in the write hold's context alone: that would end the call by itself.
	ctx := context.WithoutCancel(write.Context())
	require.ErrorIs(t, testbed.Err(a.Downgrade(ctx)), lock.ErrReleased)
	require.NotNil(t, next)
	require.NoError(t, next.Err())
	queued(t, b, 1)
	release(t, next)
}

func downgradeTooLate(t *testing.T, bed *testbed.Bed) {
	a, b, client := newLocks(t, bed, lock.WithReentry())
	write := acquire(t, a.Write())
	release(t, write)
	other := acquire(t, b.Write())
	require.ErrorIs(t, testbed.Err(a.Read().Acquire(write.Context())), lock.ErrReleased)
	_, err := a.Downgrade(context.WithoutCancel(write.Context()))
	require.ErrorIs(t, err, lock.ErrReleased)
	testbed.OneOp(t, err, "downgrade", a.Path())
	release(t, other)

	write = acquire(t, a.Write())
	bed.ExpireSession(t, client)
	testbed.Receive(t, write.Done(), "word of the loss")
	require.ErrorIs(t, testbed.Err(a.Read().Acquire(write.Context())), write.Err())
	require.ErrorIs(t, testbed.Err(a.Downgrade(write.Context())), write.Err())
	require.Error(t, write.Release())
	queued(t, b, 0)
}

func dataAndACL(t *testing.T, bed *testbed.Bed) {
	acl := []zk.ACL{{Perms: zk.PermAll &^ zk.PermAdmin, Scheme: "world", ID: "anyone"}}
	client := bed.Client(t, framework.WithNamespace("acl"), framework.WithACLProvider(func(string) []zk.ACL { return acl }))
	l := lockOn(client, testbed.Path(t), lock.WithData([]byte("data")))
	write := acquire(t, l.Write())
	read := downgraded(t, l, write)
	for path, data := range map[string]string{l.Path(): "", write.Path(): "data", read.Path(): "data"} {
		assert.Equal(t, data, testbed.Get(t, client, path), path)
		assert.Equal(t, acl, testbed.ACL(t, client, path), path)
	}
	release(t, write, read)
}

func cancelLeavesNothing(t *testing.T, bed *testbed.Bed) {
	a, b, _ := newLocks(t, bed)
	hold := acquire(t, a.Write())
	ctx, cancel := context.WithCancel(hold.Context())
	cancel()
	_, err := a.Downgrade(ctx)
	require.ErrorIs(t, err, context.Canceled)
	queued(t, a, 1)
	release(t, hold)

	// A writer that gives up lets the readers behind it join those ahead.
	reading := acquire(t, a.Read())
	giveUp, cancel := context.WithCancel(t.Context())
	writer := start(t, giveUp, b.Write(), a, 2)
	behind := start(t, testbed.Context(t), b.Read(), a, 3)
	waits(t, behind)
	cancel()
	require.ErrorIs(t, testbed.Receive(t, writer, "the end of the wait").err, context.Canceled)
	release(t, received(t, behind), reading)
	queued(t, a, 0)
}

func downgradedCrashes(t *testing.T, bed *testbed.Bed) {
	a, b, client := newLocks(t, bed)
	write := acquire(t, a.Write())
	read := downgraded(t, a, write)
	next := start(t, testbed.Context(t), b.Write(), b, 3)
	bed.ExpireSession(t, client)
	hold := received(t, next)
	testbed.Receive(t, write.Done(), "word of the loss")
	testbed.Receive(t, read.Done(), "word of the loss")
	require.Error(t, read.Release())
	require.Error(t, write.Release())
	queued(t, b, 1)
	release(t, hold)
}

// checker knows who is inside.
type checker struct {
	mu               sync.Mutex // guards what follows
	readers, writers int
	overlaps         int // times that a reader met another
	violations       int
}

// enter counts holders that enter, or leave if the numbers are negative.
func (c *checker) enter(readers, writers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readers += readers
	c.writers += writers
	if c.writers > 1 || c.writers == 1 && c.readers > 0 {
		c.violations++
	}
	if readers == 1 && c.readers > 1 {
		c.overlaps++
	}
}

func load(t *testing.T, bed *testbed.Bed) {
	const clients, rounds = 8, 30
	path := testbed.Path(t)
	ctx := testbed.Context(t)
	var c checker
	var wg sync.WaitGroup
	for n := range clients {
		l, _ := newLock(t, bed, path)
		wg.Go(func() {
			for round := range rounds {
				var err error
				switch (round + n) % 10 {
				case 0:
					err = l.Write().Do(ctx, func(ctx context.Context) error {
						c.enter(0, 1)
						defer c.enter(0, -1)
						return ctx.Err()
					})
				case 5:
					err = writeThenRead(ctx, l, &c)
				default:
					err = l.Read().Do(ctx, func(ctx context.Context) error {
						c.enter(1, 0)
						defer c.enter(-1, 0)
						_, err := l.Read().Participants(ctx) // some time inside
						return err
					})
				}
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	assert.Zero(t, c.violations, "a writer met somebody")
	assert.Positive(t, c.overlaps, "readers met")
}

// writeThenRead writes, and then reads without letting another writer in.
func writeThenRead(ctx context.Context, l *rwlock.Lock, c *checker) (err error) {
	write, err := l.Write().Acquire(ctx)
	if err != nil {
		return err
	}
	c.enter(0, 1)
	read, err := l.Downgrade(write.Context())
	if err != nil {
		return errors.Join(err, write.Release())
	}
	c.enter(0, -1)
	c.enter(1, 0)
	err = write.Release()
	c.enter(-1, 0)
	return errors.Join(err, read.Err(), read.Release())
}

// Each waiter is woken by the one change that lets it in, and by no other.
func TestAWaitingReaderIsNotWokenByReaders(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		a, b := lockOn(w.Client(), "/lock"), lockOn(w.Client(), "/lock")
		write := acquire(t, a.Write())
		ctx, cancel := context.WithCancel(t.Context())
		ahead := start(t, ctx, a.Read(), a, 2)
		behind := start(t, t.Context(), b.Read(), a, 3)
		synctest.Wait() // both have looked, and wait
		w.Server.ResetCounts()
		cancel()
		require.Error(t, testbed.Receive(t, ahead, "the end of the wait").err)
		synctest.Wait()
		waits(t, behind)
		require.Zero(t, w.Server.Requests().Requests["getChildren2"], "nobody looks at the queue")
		release(t, write)
		release(t, received(t, behind))
	})
}

func TestADowngradeThatLosesItsCallerLeavesNoNode(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		l := lockOn(w.Client(), "/lock")
		write := acquire(t, l.Write())
		gate := w.Server.Block(zktest.OnOp("exists"))
		ctx, cancel := context.WithCancel(write.Context())
		done := testbed.Go(func() error {
			_, err := l.Downgrade(ctx)
			return err
		})
		testbed.Receive(t, gate.Arrived(), "the look at the writer's node")
		cancel()
		began := time.Now()
		require.ErrorIs(t, testbed.Receive(t, done, "the caller's release"), context.Canceled)
		require.Less(t, time.Since(began), 10*time.Second, "bounded, although the server does not answer")
		gate.Open()
		testbed.Eventually(t, func() bool {
			children, err := w.Server.Children("/lock")
			return err == nil && slices.Equal(children, []string{write.Path()[len("/lock/"):]})
		}, "the reader's node goes")
		require.NoError(t, write.Err())
		release(t, write)
	})
}

// TestRefusedTriesWriteNothing: TryAcquire knows who would be ahead of a node before it is created.
func TestRefusedTriesWriteNothing(t *testing.T) {
	read, write := (*rwlock.Lock).Read, (*rwlock.Lock).Write
	for name, sides := range map[string][2]func(*rwlock.Lock) *rwlock.Side{ // one holds, and the other is refused
		"a writer and a reader": {write, read}, "two writers": {write, write}, "a reader and a writer": {read, write},
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			bed := testbed.On(server)
			holder, _ := newLock(t, bed, "/lock")
			// A new view: an old one may still show the lock as free.
			l, _ := newLock(t, bed, "/lock")
			hold := acquire(t, sides[0](holder))
			defer release(t, hold)
			server.ResetCounts()
			for range 3 { // listed at first, and in a view
				refused(t, sides[1](l))
			}
			require.Zero(t, server.Requests().Requests["create"])
		})
	}
}
