package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/multilock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMultiLock(t *testing.T) {
	testbed.Run(t, []testbed.Case{
		{Name: "all are held, and released", Test: allHeld},
		{Name: "one that is taken keeps all from being held", Test: noneHeld},
		{Name: "many contenders get through", Test: manyGetThrough},                     // CUR-MUL-01
		{Name: "a group ends with the first lock that is lost", Test: endsWithTheFirst}, // CUR-MUL-04
		{Name: "a lock that is lost while waiting ends the waiting", Test: lostWhileWaiting},
		{Name: "a group's context re-enters all", Test: reenters}, // CUR-MUL-03
		{Name: "guards hold for all", Test: guards},
		{Name: "do holds inside and not after", Test: doHolds},
	})
}

// three makes a mutex, a write lock and a semaphore below path, and one lock of them.
func three(t *testing.T, client *framework.Client, path string) (*multilock.Lock, []lock.Locker) {
	t.Helper()
	m, err := mutex.New(client, path+"-a")
	require.NoError(t, err)
	rw, err := rwlock.New(client, path+"-b")
	require.NoError(t, err)
	s, err := semaphore.New(client, path+"-c", 1)
	require.NoError(t, err)
	locks := []lock.Locker{m, rw.Write(), s}
	l, err := multilock.New(locks...)
	require.NoError(t, err)
	return l, locks
}

// free checks that each lock can be had.
func free(t *testing.T, locks []lock.Locker) {
	t.Helper()
	for _, l := range locks {
		h, err := l.Acquire(testbed.Context(t))
		require.NoError(t, err)
		require.NoError(t, h.Release())
	}
}

func allHeld(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	l, locks := three(t, client, testbed.Path(t))
	group, err := l.Acquire(testbed.Context(t))
	require.NoError(t, err)
	require.Len(t, group.Holds(), 3)
	for _, one := range locks {
		_, err := one.TryAcquire(testbed.Context(t))
		require.ErrorIs(t, err, lock.ErrNotAcquired)
	}
	require.NoError(t, group.Err())
	require.NoError(t, group.Release())
	require.ErrorIs(t, group.Err(), lock.ErrReleased)
	require.ErrorIs(t, group.Release(), lock.ErrReleased)
	free(t, locks)
}

func noneHeld(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	l, locks := three(t, bed.Client(t), path)
	_, others := three(t, bed.Client(t), path)
	for i := range others {
		taken, err := others[i].Acquire(testbed.Context(t))
		require.NoError(t, err)
		_, err = l.TryAcquire(testbed.Context(t))
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err = l.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
		for j := range locks {
			if j != i {
				free(t, others[j:j+1])
			}
		}
		require.NoError(t, taken.Release())
	}
	free(t, locks)
}

func manyGetThrough(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	var inside atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		l, _ := three(t, bed.Client(t), path)
		wg.Go(func() {
			for range 4 {
				assert.NoError(t, l.Do(testbed.Context(t), func(ctx context.Context) error {
					assert.EqualValues(t, 1, inside.Add(1))
					inside.Add(-1)
					return ctx.Err()
				}))
			}
		})
	}
	wg.Wait()
}

func endsWithTheFirst(t *testing.T, bed *testbed.Bed) {
	client, operator := bed.Client(t), bed.Client(t)
	for i := range 3 {
		l, locks := three(t, client, testbed.Path(t))
		group, err := l.Acquire(testbed.Context(t))
		require.NoError(t, err)
		require.NoError(t, operator.Delete(testbed.Context(t), group.Holds()[i].Path(), -1))
		testbed.Receive(t, group.Done(), "word of the loss")
		require.ErrorIs(t, group.Err(), lock.ErrNodeDeleted)
		require.ErrorIs(t, group.Release(), lock.ErrNodeDeleted, "and the others are released")
		free(t, locks)
	}
}

func lostWhileWaiting(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	l, locks := three(t, bed.Client(t), path)
	other := bed.Client(t)
	_, others := three(t, other, path)
	taken, err := others[2].Acquire(testbed.Context(t))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := l.Acquire(testbed.Context(t))
		done <- err
	}()
	var first string
	testbed.Eventually(t, func() bool {
		ps, err := others[0].(*mutex.Mutex).Participants(testbed.Context(t))
		if err != nil || len(ps) != 1 {
			return false
		}
		first = ps[0].Path
		ps, err = others[2].(*semaphore.Semaphore).Participants(testbed.Context(t))
		return err == nil && len(ps) == 2
	}, "it has the first, and waits for the third")
	require.NoError(t, other.Delete(testbed.Context(t), first, -1))
	require.ErrorIs(t, testbed.Receive(t, done, "the end of waiting"), lock.ErrNodeDeleted)
	require.NoError(t, taken.Err())
	require.NoError(t, taken.Release())
	free(t, locks)
}

func reenters(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	path := testbed.Path(t)
	a, err := mutex.New(client, path+"-a")
	require.NoError(t, err)
	b, err := mutex.New(client, path+"-b")
	require.NoError(t, err)
	l, err := multilock.New(a, b)
	require.NoError(t, err)
	outer, err := l.Acquire(testbed.Context(t))
	require.NoError(t, err)
	inner, err := l.Acquire(outer.Context())
	require.NoError(t, err)
	for i, h := range inner.Holds() {
		require.Equal(t, outer.Holds()[i].Path(), h.Path())
	}
	require.NoError(t, outer.Release())
	require.NoError(t, inner.Err(), "the leases are held until both are released")
	require.NoError(t, inner.Release())
	free(t, []lock.Locker{a, b})
}

func guards(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	client := bed.Client(t)
	path := testbed.Path(t)
	_, err := client.Create(ctx, path+"-data", nil, framework.ContainerParents())
	require.NoError(t, err)
	l, _ := three(t, client, path)
	group, err := l.Acquire(ctx)
	require.NoError(t, err)
	write := func() error {
		_, err := client.Multi(ctx, append(group.Guards(), &zk.SetDataRequest{Path: path + "-data", Version: -1})...)
		return err
	}
	require.NoError(t, write())
	require.NoError(t, group.Holds()[1].Release())
	require.ErrorIs(t, write(), zk.ErrNoNode)
	require.ErrorIs(t, group.Release(), lock.ErrReleased)
}

func doHolds(t *testing.T, bed *testbed.Bed) {
	l, locks := three(t, bed.Client(t), testbed.Path(t))
	failure := errors.New("failure")
	var inner context.Context
	require.ErrorIs(t, l.Do(testbed.Context(t), func(ctx context.Context) error {
		inner = ctx
		return errors.Join(failure, ctx.Err())
	}), failure)
	require.Error(t, inner.Err())
	assert.Panics(t, func() { _ = l.Do(testbed.Context(t), func(context.Context) error { panic("f") }) })
	free(t, locks)
}

func TestBadArguments(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	m, err := mutex.New(client, "/a")
	require.NoError(t, err)
	rw, err := rwlock.New(client, "/b")
	require.NoError(t, err)
	for name, locks := range map[string][]lock.Locker{
		"none": nil, "nil": {m, nil}, "twice": {m, m},
		"a read side twice": {rw.Read(), m, rw.Read()}, "a write side twice": {rw.Write(), rw.Write()},
	} {
		_, err := multilock.New(locks...)
		assert.ErrorIs(t, err, framework.ErrBadArgument, name)
		testbed.OneOp(t, err, "multilock", "")
	}
}

// TestLockThatCannotBeCompared has a type that can be compared, and a value that cannot.
func TestLockThatCannotBeCompared(t *testing.T) {
	m, err := mutex.New(testbed.InProcess(t).Client(t), "/a")
	require.NoError(t, err)
	_, err = multilock.New(struct {
		lock.Locker
		any
	}{m, []int{1}})
	require.NoError(t, err)
}

// noting remembers its last hold.
type noting struct {
	lock.Locker
	hold *lock.Hold
}

func (n *noting) Acquire(ctx context.Context) (hold *lock.Hold, err error) {
	n.hold, err = n.Locker.Acquire(ctx)
	return n.hold, err
}

// then calls f when it has acquired.
type then struct {
	lock.Locker
	f func()
}

func (a *then) Acquire(ctx context.Context) (*lock.Hold, error) {
	hold, err := a.Locker.Acquire(ctx)
	a.f()
	return hold, err
}

// refusing is a lock that nobody can acquire.
type refusing struct{ f func() error }

func (r refusing) Acquire(context.Context) (*lock.Hold, error) { return nil, r.f() }

func (r refusing) TryAcquire(context.Context) (*lock.Hold, error) { return nil, r.f() }

// TestLocksBeforeOneThatFailsAreReleased has the second of three locks fail, and be a user's own.
func TestLocksBeforeOneThatFailsAreReleased(t *testing.T) { // CUR-MUL-02, -06
	ctx := testbed.Context(t)
	client := testbed.InProcess(t).Client(t)
	a, err := mutex.New(client, "/a")
	require.NoError(t, err)
	c, err := mutex.New(client, "/c")
	require.NoError(t, err)
	first, failure := &noting{Locker: a}, errors.New("failure")
	l, err := multilock.New(first, refusing{func() error {
		_, err := a.TryAcquire(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired, "the first is held")
		return failure
	}}, c)
	require.NoError(t, err)
	for range 2 {
		_, err = l.Acquire(ctx)
		require.ErrorIs(t, err, failure)
		require.ErrorIs(t, first.hold.Err(), lock.ErrReleased)
		_, err = l.TryAcquire(ctx)
		require.ErrorIs(t, err, failure)
		require.ErrorIs(t, l.Do(ctx, func(context.Context) error { panic("not held") }), failure)
		there, _, err := client.Exists(ctx, "/c")
		require.NoError(t, err)
		require.False(t, there, "the third was not asked")
		free(t, []lock.Locker{a})
	}
}

func TestNothingStaysOnTheServer(t *testing.T) { // CUR-MUL-05
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	var wg sync.WaitGroup
	for range 10 {
		l, _ := three(t, bed.Client(t), "/deep/down/lock")
		wg.Go(func() {
			assert.NoError(t, l.Do(testbed.Context(t), func(ctx context.Context) error { return ctx.Err() }))
		})
	}
	wg.Wait()
	testbed.Eventually(t, func() bool {
		server.ReapContainers()
		return server.Tree() == ""
	}, "the containers go")
}

// TestLockThatIsLostAtTheEndIsNotReturned loses the first lock just before the last one is there. The goroutine that ends the
// waiting may be late, so it is tried often.
func TestLockThatIsLostAtTheEndIsNotReturned(t *testing.T) {
	ctx := testbed.Context(t)
	client := testbed.InProcess(t).Client(t)
	a, err := mutex.New(client, "/a")
	require.NoError(t, err)
	b, err := mutex.New(client, "/b")
	require.NoError(t, err)
	first := &noting{Locker: a}
	l, err := multilock.New(first, &then{b, func() {
		require.NoError(t, client.Delete(ctx, first.hold.Path(), -1))
		testbed.Receive(t, first.hold.Done(), "word of the loss")
	}})
	require.NoError(t, err)
	for range 100 {
		_, err := l.Acquire(ctx)
		require.ErrorIs(t, err, lock.ErrNodeDeleted)
		testbed.OneOp(t, err, "acquire", first.hold.Path())
	}
	free(t, []lock.Locker{a, b})
}

// TestGroupReentersByItsOwnHolds has the hold end that the group's context comes from.
func TestGroupReentersByItsOwnHolds(t *testing.T) {
	ctx := testbed.Context(t)
	client := testbed.InProcess(t).Client(t)
	a, err := mutex.New(client, "/a")
	require.NoError(t, err)
	b, err := mutex.New(client, "/b")
	require.NoError(t, err)
	l, err := multilock.New(a, b)
	require.NoError(t, err)
	outer, err := l.Acquire(ctx)
	require.NoError(t, err)
	middle, err := l.Acquire(outer.Context())
	require.NoError(t, err)
	require.NoError(t, outer.Release())
	require.NoError(t, middle.Err())
	inner, err := l.Acquire(middle.Context())
	require.NoError(t, err, "all are held")
	require.NoError(t, middle.Release())
	require.NoError(t, inner.Err())
	require.NoError(t, inner.Release())
	free(t, []lock.Locker{a, b})
}

// TestManyLocksTakeNoLongerThanOneByOne: with contexts that look for a value twice, 64 locks would take for ever.
func TestManyLocksTakeNoLongerThanOneByOne(t *testing.T) {
	ctx := testbed.Context(t)
	client := testbed.InProcess(t).Client(t)
	var locks []lock.Locker
	for i := range 64 {
		m, err := mutex.New(client, fmt.Sprintf("/lock-%d", i))
		require.NoError(t, err)
		locks = append(locks, m)
	}
	l, err := multilock.New(locks...)
	require.NoError(t, err)
	acquired := make(chan error, 1)
	go func() {
		acquired <- l.Do(ctx, func(ctx context.Context) error { return l.Do(ctx, func(context.Context) error { return nil }) })
	}()
	require.NoError(t, testbed.Receive(t, acquired, "the locks, twice"))
	free(t, locks)
}
