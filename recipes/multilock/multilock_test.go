package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/locksuite"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/multilock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMultiLock has CUR-MUL-01, -03, -04 and -05 in the suite.
func TestMultiLock(t *testing.T) {
	locksuite.Run(t, locksuite.Kind{New: two, Reentrant: true, Several: true, Dirs: []string{"-a", "-b"}},
		testbed.Case{Name: "all are held, and released", Test: allHeld},
		testbed.Case{Name: "one that is taken keeps all from being held", Test: noneHeld},
		testbed.Case{Name: "a lock that is lost while waiting ends the waiting", Test: lostWhileWaiting},
	)
}

// two returns a mutex and a write lock as one lock, which can be re-entered.
func two(client *framework.Client, path string, opts ...lock.Option) (c locksuite.Contender, err error) {
	m, err := mutex.New(client, path+"-a", opts...)
	if err != nil {
		return c, err
	}
	rw, err := rwlock.New(client, path+"-b", opts...)
	if err != nil {
		return c, err
	}
	l, err := multilock.New(m, rw.Write())
	if err != nil {
		return c, err
	}
	return locksuite.Of(l, m.Participants), nil
}

func newMutex(client *framework.Client, path string, opts ...lock.Option) *mutex.Mutex {
	return testbed.Must(mutex.New(client, path, opts...))
}

func newLock(locks ...lock.Locker) *multilock.Lock {
	return testbed.Must(multilock.New(locks...))
}

// three makes a mutex, a write lock and a semaphore below path, and one lock of them.
func three(client *framework.Client, path string) (*multilock.Lock, []lock.Locker) {
	rw := testbed.Must(rwlock.New(client, path+"-b"))
	locks := []lock.Locker{newMutex(client, path+"-a"), rw.Write(), testbed.Must(semaphore.New(client, path+"-c", 1))}
	return newLock(locks...), locks
}

// free checks that each lock can be had.
func free(t *testing.T, locks []lock.Locker) {
	t.Helper()
	for _, l := range locks {
		require.NoError(t, testbed.Acquire(t, l).Release())
	}
}

func allHeld(t *testing.T, bed *testbed.Bed) {
	l, locks := three(bed.Client(t), testbed.Path(t))
	group := testbed.Acquire(t, l)
	require.Len(t, group.Holds(), 3)
	for _, one := range locks {
		require.ErrorIs(t, testbed.Err(one.TryAcquire(testbed.Context(t))), lock.ErrNotAcquired)
	}
	require.NoError(t, group.Err())
	require.NoError(t, group.Release())
	require.ErrorIs(t, group.Err(), lock.ErrReleased)
	require.ErrorIs(t, group.Release(), lock.ErrReleased)
	free(t, locks)
}

func noneHeld(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	l, locks := three(bed.Client(t), path)
	_, others := three(bed.Client(t), path)
	for i := range others {
		taken := testbed.Acquire(t, others[i])
		require.ErrorIs(t, testbed.Err(l.TryAcquire(testbed.Context(t))), lock.ErrNotAcquired)
		require.ErrorIs(t, testbed.Err(l.Acquire(testbed.Timeout(t, 50*time.Millisecond))), context.DeadlineExceeded)
		for j := range locks {
			if j != i {
				free(t, others[j:j+1])
			}
		}
		require.NoError(t, taken.Release())
	}
	free(t, locks)
}

func lostWhileWaiting(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	l, locks := three(bed.Client(t), path)
	other := bed.Client(t)
	_, others := three(other, path)
	taken := testbed.Acquire(t, others[2])
	done := testbed.Go(func() error {
		_, err := l.Acquire(testbed.Context(t))
		return err
	})
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
	require.NoError(t, other.Delete(testbed.Context(t), first))
	require.ErrorIs(t, testbed.Receive(t, done, "the end of waiting"), lock.ErrNodeDeleted)
	require.NoError(t, taken.Err())
	require.NoError(t, taken.Release())
	free(t, locks)
}

func TestBadArguments(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	m := newMutex(client, "/a")
	rw := testbed.Must(rwlock.New(client, "/b"))
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
	m := newMutex(testbed.InProcess(t).Client(t), "/a")
	newLock(struct {
		lock.Locker
		any
	}{m, []int{1}})
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
	a, c := newMutex(client, "/a"), newMutex(client, "/c")
	first, failure := &noting{Locker: a}, errors.New("failure")
	l := newLock(first, refusing{func() error {
		require.ErrorIs(t, testbed.Err(a.TryAcquire(ctx)), lock.ErrNotAcquired, "the first is held")
		return failure
	}}, c)
	for range 2 {
		require.ErrorIs(t, testbed.Err(l.Acquire(ctx)), failure)
		require.ErrorIs(t, first.hold.Err(), lock.ErrReleased)
		require.ErrorIs(t, testbed.Err(l.TryAcquire(ctx)), failure)
		require.ErrorIs(t, l.Do(ctx, func(context.Context) error { panic("not held") }), failure)
		require.False(t, testbed.Exists(t, client, "/c"), "the third was not asked")
		free(t, []lock.Locker{a})
	}
}

// TestLockThatIsLostAtTheEndIsNotReturned loses the first lock just before the last one is there.
// The goroutine that ends the waiting may be late, so it is tried often.
func TestLockThatIsLostAtTheEndIsNotReturned(t *testing.T) {
	ctx := testbed.Context(t)
	client := testbed.InProcess(t).Client(t)
	a, b := newMutex(client, "/a"), newMutex(client, "/b")
	first := &noting{Locker: a}
	l := newLock(first, &then{b, func() {
		require.NoError(t, client.Delete(ctx, first.hold.Path()))
		testbed.Receive(t, first.hold.Done(), "word of the loss")
	}})
	for range 100 {
		_, err := l.Acquire(ctx)
		require.ErrorIs(t, err, lock.ErrNodeDeleted)
		testbed.OneOp(t, err, "acquire", first.hold.Path())
	}
	free(t, []lock.Locker{a, b})
}

// TestGroupReentersByItsOwnHolds has the hold end that the group's context comes from.
func TestGroupReentersByItsOwnHolds(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	a, b := newMutex(client, "/a", lock.WithReentry()), newMutex(client, "/b", lock.WithReentry())
	l := newLock(a, b)
	outer := testbed.Acquire(t, l)
	middle := testbed.Must(l.Acquire(outer.Context()))
	require.NoError(t, outer.Release())
	require.NoError(t, middle.Err())
	inner, err := l.Acquire(middle.Context())
	require.NoError(t, err, "all are held")
	require.NoError(t, middle.Release())
	require.NoError(t, inner.Err())
	require.NoError(t, inner.Release())
	free(t, []lock.Locker{a, b})
}

// TestAcquire_TwoLocksAtOnePath: the second would wait for the first.
func TestAcquire_TwoLocksAtOnePath(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	a, twin := newMutex(client, "/a"), newMutex(client, "/a")
	l := newLock(a, twin)
	require.ErrorIs(t, testbed.Err(l.Acquire(testbed.Context(t))), lock.ErrHeld)
	require.ErrorIs(t, testbed.Err(l.TryAcquire(testbed.Context(t))), lock.ErrHeld)
	free(t, []lock.Locker{a})
}

// TestManyLocksTakeNoLongerThanOneByOne: with contexts that look for a value twice, 64 locks would
// take for ever.
func TestManyLocksTakeNoLongerThanOneByOne(t *testing.T) {
	ctx := testbed.Context(t)
	client := testbed.InProcess(t).Client(t)
	var locks []lock.Locker
	for i := range 64 {
		locks = append(locks, newMutex(client, fmt.Sprintf("/lock-%d", i), lock.WithReentry()))
	}
	l := newLock(locks...)
	acquired := testbed.Go(func() error {
		return l.Do(ctx, func(ctx context.Context) error { return l.Do(ctx, func(context.Context) error { return nil }) })
	})
	require.NoError(t, testbed.Receive(t, acquired, "the locks, twice"))
	free(t, locks)
}

type valueKey struct{}

// TestDo_ValueOfAnObserver has the context inside Do carry what an observer adds when a lock is
// acquired, such as a span, with the context of the acquire and with another.
func TestDo_ValueOfAnObserver(t *testing.T) {
	client := testbed.InProcess(t).Client(t, lock.WithObserver(lock.Observer{
		Acquired: func(ctx context.Context, _ lock.AcquiredEvent) context.Context {
			return context.WithValue(ctx, valueKey{}, "span")
		},
	}))
	ctx := testbed.Context(t)
	check := func(ctx context.Context) error {
		assert.Equal(t, "span", ctx.Value(valueKey{}))
		return nil
	}
	a, b := newMutex(client, "/a"), newMutex(client, "/b")
	require.NoError(t, newLock(a, b).Do(ctx, func(ctx context.Context) error {
		for _, m := range []*mutex.Mutex{a, b} {
			assert.ErrorIs(t, testbed.Err(m.Acquire(ctx)), lock.ErrHeld)
		}
		return check(ctx)
	}))
	s := testbed.Must(semaphore.New(client, "/s", 2))
	for _, inside := range []context.Context{ctx, context.WithoutCancel(ctx)} {
		require.NoError(t, testbed.Must(s.AcquireN(ctx, 2)).Do(inside, check))
	}
}

// panicking is a lock of a user that panics.
type panicking struct{}

func (panicking) Acquire(context.Context) (*lock.Hold, error)    { panic("a lock of the user") }
func (panicking) TryAcquire(context.Context) (*lock.Hold, error) { panic("a lock of the user") }

// TestAcquire_PanicOfALockReleasesThoseBefore has a caller that recovers.
func TestAcquire_PanicOfALockReleasesThoseBefore(t *testing.T) {
	m := newMutex(testbed.On(zktest.NewServer(t)).Client(t), "/lock")
	l := newLock(m, panicking{})
	require.Panics(t, func() { _, _ = l.Acquire(testbed.Context(t)) })
	require.NoError(t, testbed.Must(m.TryAcquire(testbed.Context(t))).Release())
	require.Panics(t, func() { _, _ = l.TryAcquire(testbed.Context(t)) })
	require.NoError(t, testbed.Must(m.TryAcquire(testbed.Context(t))).Release())
}
