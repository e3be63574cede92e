package semaphore_test

import (
	"context"
	"errors"
	"maps"
	"slices"
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
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSemaphore(t *testing.T) {
	testbed.Run(t, []testbed.Case{
		{Name: "never more than max, and everybody gets through", Test: neverMore},     // CUR-SEM-03
		{Name: "goroutines that share a semaphore share its leases", Test: sharedPool}, // CUR-SEM-05, KZ-SEM-01
		{Name: "semaphores of one client share the leases", Test: sharedPath},          // CUR-SEM-04, -07
		{Name: "each goes by its own max", Test: ownMax},                               // CUR-SEM-12
		{Name: "a waiter wakes when any holder releases", Test: anyReleaseWakes},       // CURATOR-460
		{Name: "first come, first served", Test: fifo},                                 // CUR-SEM-13
		{Name: "several leases: all or none", Test: allOrNone},                         // KZ-SEM-05
		{Name: "two that need all leases do not wait for each other", Test: bothGetAll},
		{Name: "a try does not overtake those who wait", Test: doesNotOvertake},
		{Name: "it is not re-entrant", Test: notReentrant},                    // CUR-SEM-06, CUR-SMX-02
		{Name: "participants: who holds, then who waits", Test: participants}, // CUR-SEM-08, -10, KZ-SEM-03, -04
		{Name: "a shared max that rises wakes waiters", Test: raising},        // CUR-SEM-01
		{Name: "a shared max that falls takes nothing away", Test: lowering},
		{Name: "a shared max of 0 or none drains", Test: draining},
		{Name: "waiting for more than a shared max ends when it falls", Test: loweredBelow},
		{Name: "a shared max that is garbage is an error, also while waiting", Test: garbage},
	})
}

// TestOneLease is the suite of all locks: with one lease a semaphore is a mutex, which has
// KZ-SEM-02, KZ-SEM-09, CUR-SMX-01, -04 and -05.
func TestOneLease(t *testing.T) {
	locksuite.Run(t, locksuite.Kind{
		New: func(client *framework.Client, path string, opts ...lock.Option) (c locksuite.Contender, err error) {
			s, err := semaphore.New(client, path, 1, opts...)
			if err != nil {
				return c, err
			}
			return locksuite.Of(s, s.Participants), nil
		},
		Op: "semaphore", Dirs: []string{"/locks", "/leases"},
		Foreign: []string{"readme", "0123456789abcdef0123456789abcdef__lease__0000000001", "lease-x"},
	})
}

func newSemaphore(t *testing.T, bed *testbed.Bed, path string, max int, opts ...lock.Option) (*semaphore.Semaphore, *framework.Client) {
	t.Helper()
	client := bed.Client(t)
	return fixedOn(client, path, max, opts...), client
}

func fixedOn(client *framework.Client, path string, max int, opts ...lock.Option) *semaphore.Semaphore {
	return testbed.Must(semaphore.New(client, path, max, opts...))
}

// several returns n semaphores at a path, each with its own client.
func several(t *testing.T, bed *testbed.Bed, path string, n, max int) (all []*semaphore.Semaphore) {
	t.Helper()
	for range n {
		s, _ := newSemaphore(t, bed, path, max)
		all = append(all, s)
	}
	return all
}

func newShared(t *testing.T, bed *testbed.Bed, path string, seed int32) (*semaphore.Semaphore, *shared.Value[int32], *framework.Client) {
	t.Helper()
	client := bed.Client(t)
	s, count := sharedOn(t, client, path, path+"-max", seed)
	return s, count, client
}

// sharedOn returns a semaphore with a shared count, which is seed unless it is set already.
func sharedOn(t *testing.T, client *framework.Client, path, countPath string, seed int32) (*semaphore.Semaphore, *shared.Value[int32]) {
	t.Helper()
	count := testbed.Must(shared.Int32(client, countPath))
	if err := count.CompareAndSwap(testbed.Context(t), shared.Version{}, seed); err != nil {
		require.ErrorIs(t, err, shared.ErrChanged)
	}
	return testbed.Must(semaphore.NewShared(client, path, countPath)), count
}

func acquire(t *testing.T, s *semaphore.Semaphore) *lock.Hold {
	t.Helper()
	hold := testbed.Acquire(t, s)
	require.NoError(t, hold.Err())
	return hold
}

func release(t *testing.T, holds ...interface{ Release() error }) {
	t.Helper()
	for _, h := range holds {
		require.NoError(t, h.Release())
	}
}

// acquiring is an AcquireN that runs.
type acquiring struct {
	group *lock.Group
	err   error
}

// begin begins an AcquireN.
func begin(ctx context.Context, s *semaphore.Semaphore, n int) <-chan acquiring {
	return testbed.Go(func() acquiring {
		group, err := s.AcquireN(ctx, n)
		return acquiring{group, err}
	})
}

// start begins an AcquireN and returns when it waits, behind others: so there are waiters after it.
func start(t *testing.T, ctx context.Context, s *semaphore.Semaphore, n, waiters int) <-chan acquiring {
	t.Helper()
	done := begin(ctx, s, n)
	waiting(t, s, waiters)
	return done
}

// waiting waits until n participants wait.
func waiting(t *testing.T, s *semaphore.Semaphore, n int) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		_, waiters := census(t, s)
		return waiters == n
	}, "the queue has the expected length")
}

// census counts who holds and who waits; -1 if that cannot be read.
func census(t *testing.T, s *semaphore.Semaphore) (holders, waiters int) {
	ps, err := s.Participants(testbed.Context(t))
	if err != nil {
		return -1, -1
	}
	for _, p := range ps {
		if p.Holds {
			holders++
		} else {
			waiters++
		}
	}
	return holders, waiters
}

// nodes waits until a server has n children of a node.
func nodes(t *testing.T, server *zktest.Server, path string, n int) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		children, err := server.Children(path)
		return err == nil && len(children) == n
	}, "the nodes below "+path)
}

// empty waits until no holder, no waiter and no node is left.
func empty(t *testing.T, client *framework.Client, path string) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		for _, dir := range []string{"/locks", "/leases"} {
			children, _, err := client.Children(testbed.Context(t), path+dir)
			if len(children) > 0 || err != nil && !errors.Is(err, zk.ErrNoNode) {
				return false
			}
		}
		return true
	}, "no node is left")
}

func undecided(t *testing.T, c <-chan acquiring) {
	t.Helper()
	select {
	case got := <-c:
		t.Fatalf("did not wait: %+v", got)
	default:
	}
}

// granted waits for the leases of an AcquireN that runs.
func granted(t *testing.T, c <-chan acquiring) *lock.Group {
	t.Helper()
	got := testbed.Receive(t, c, "the leases")
	require.NoError(t, got.err)
	return got.group
}

// refused requires that a try does not acquire.
func refused(t *testing.T, s *semaphore.Semaphore) {
	t.Helper()
	require.ErrorIs(t, testbed.Err(s.TryAcquire(testbed.Context(t))), lock.ErrNotAcquired)
}

// contend lets each semaphore acquire n leases repeatedly, and counts the leases in use.
func contend(t *testing.T, semaphores []*semaphore.Semaphore, rounds, max int, n func(i int) int) {
	t.Helper()
	var out, most, entered atomic.Int64
	var wg sync.WaitGroup
	ctx := testbed.Context(t)
	for i, s := range semaphores {
		wg.Go(func() {
			for range rounds {
				group, err := s.AcquireN(ctx, n(i))
				if !assert.NoError(t, err) {
					return
				}
				now := out.Add(int64(n(i)))
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
				entered.Add(1)
				out.Add(-int64(n(i)))
				assert.NoError(t, group.Release())
			}
		})
	}
	wg.Wait()
	assert.LessOrEqual(t, most.Load(), int64(max))
	assert.EqualValues(t, len(semaphores)*rounds, entered.Load())
}

func neverMore(t *testing.T, bed *testbed.Bed) {
	contend(t, several(t, bed, testbed.Path(t), 6, 3), 8, 3, func(i int) int { return 1 + i%3 })
}

func sharedPool(t *testing.T, bed *testbed.Bed) {
	s, _ := newSemaphore(t, bed, testbed.Path(t), 2)
	contend(t, slices.Repeat([]*semaphore.Semaphore{s}, 10), 4, 2, func(int) int { return 1 })
}

func sharedPath(t *testing.T, bed *testbed.Bed) {
	client, path := bed.Client(t), testbed.Path(t)
	var all []*semaphore.Semaphore
	for range 20 {
		all = append(all, fixedOn(client, path, 3))
	}
	contend(t, all, 3, 3, func(i int) int { return 1 + i%3 })
	one, two, three := acquire(t, all[0]), acquire(t, all[1]), acquire(t, all[2])
	refused(t, all[3])
	release(t, two)
	release(t, acquire(t, all[3]), one, three)
}

func ownMax(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	narrow, client := newSemaphore(t, bed, path, 1)
	wide, _ := newSemaphore(t, bed, path, 2)
	one := acquire(t, narrow)
	two := acquire(t, wide)
	testbed.CatchUp(t, client)
	refused(t, narrow)
	refused(t, wide)
	require.NoError(t, one.Err())
	release(t, one, two)
}

func anyReleaseWakes(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	s, client := newSemaphore(t, bed, path, 3)
	other, _ := newSemaphore(t, bed, path, 3)
	for i := range 3 {
		holds := []*lock.Hold{acquire(t, s), acquire(t, other), acquire(t, s)}
		waiter := start(t, testbed.Context(t), other, 1, 1)
		undecided(t, waiter)
		release(t, holds[i])
		release(t, granted(t, waiter))
		for _, h := range slices.Delete(holds, i, i+1) {
			release(t, h)
		}
	}
	empty(t, client, path)
}

func fifo(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	s, _ := newSemaphore(t, bed, path, 2)
	first, second := acquire(t, s), acquire(t, s)
	var waiters []<-chan acquiring
	for i := range 4 {
		other, _ := newSemaphore(t, bed, path, 2)
		waiters = append(waiters, start(t, testbed.Context(t), other, 1, i+1))
	}
	release(t, first)
	for i, w := range waiters {
		next := granted(t, w)
		for _, later := range waiters[i+1:] {
			undecided(t, later)
		}
		release(t, next)
	}
	release(t, second)
}

func allOrNone(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	s, client := newSemaphore(t, bed, path, 3)
	other, otherClient := newSemaphore(t, bed, path, 3)
	group := testbed.Must(s.AcquireN(testbed.Context(t), 2))
	require.Len(t, group.Holds(), 2)

	_, err := other.TryAcquireN(testbed.Context(t), 2)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	ctx, cancel := context.WithCancel(testbed.Context(t))
	waiter := start(t, ctx, other, 2, 1)
	cancel()
	require.ErrorIs(t, testbed.Receive(t, waiter, "the end of waiting").err, context.Canceled)
	testbed.Eventually(t, func() bool {
		holders, waiters := census(t, s)
		return holders == 2 && waiters == 0
	}, "it gave back what it got")

	require.NoError(t, group.Err())
	release(t, group.Holds()[0])
	testbed.Receive(t, group.Done(), "the end of a group with a lease less")
	require.ErrorIs(t, group.Err(), lock.ErrReleased)
	require.Error(t, group.Release(), "one of them was released before")
	testbed.CatchUp(t, otherClient)
	group = testbed.Must(other.TryAcquireN(testbed.Context(t), 3))
	release(t, group)
	empty(t, client, path)

	require.ErrorIs(t, testbed.Err(s.AcquireN(testbed.Context(t), 4)), semaphore.ErrTooMany)
	require.ErrorIs(t, testbed.Err(s.TryAcquireN(testbed.Context(t), 4)), semaphore.ErrTooMany)
}

func bothGetAll(t *testing.T, bed *testbed.Bed) {
	contend(t, several(t, bed, testbed.Path(t), 4, 2), 5, 2, func(int) int { return 2 })
}

// doesNotOvertake has another client first in the queue that has not created its lease's node yet:
// both leases are free.
func doesNotOvertake(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	first, client := newSemaphore(t, bed, path, 2)
	second, _ := newSemaphore(t, bed, path, 2)
	release(t, acquire(t, second)) // it has found the semaphore free
	queue := testbed.Must(mutex.New(bed.Client(t), path+"/locks"))
	slow := testbed.Acquire(t, queue)
	testbed.CatchUp(t, client)
	refused(t, first)
	var waiters []<-chan acquiring
	for i, s := range []*semaphore.Semaphore{first, second} {
		waiters = append(waiters, begin(testbed.Context(t), s, 1))
		testbed.Eventually(t, func() bool {
			ps, err := queue.Participants(testbed.Context(t))
			return err == nil && len(ps) == i+2
		}, "it queues")
	}
	for _, w := range waiters {
		undecided(t, w)
	}
	require.Empty(t, testbed.Children(t, client, path+"/leases"))
	release(t, slow)
	release(t, granted(t, waiters[0]), granted(t, waiters[1]))
}

func notReentrant(t *testing.T, bed *testbed.Bed) {
	s, _ := newSemaphore(t, bed, testbed.Path(t), 2)
	one := acquire(t, s)
	two := testbed.Must(s.Acquire(one.Context()))
	require.NotEqual(t, one.Path(), two.Path())
	require.ErrorIs(t, testbed.Err(s.TryAcquire(two.Context())), lock.ErrNotAcquired)
	ctx, cancel := context.WithTimeout(two.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, testbed.Err(s.Acquire(ctx)), context.DeadlineExceeded)
	release(t, one)
	require.NoError(t, two.Err(), "each lease stands alone")
	release(t, two)
	for _, max := range []int{1, 2} {
		_, err := semaphore.New(bed.Client(t), "/s", max, lock.WithReentry())
		require.ErrorIs(t, err, framework.ErrBadArgument)
		testbed.OneOp(t, err, "semaphore", "/s")
	}
}

func participants(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	bystander, client := newSemaphore(t, bed, path, 2)
	ps := testbed.Must(bystander.Participants(testbed.Context(t)))
	require.Empty(t, ps, "the path is missing")
	var holds []*lock.Hold
	for _, data := range []string{"one", "two"} {
		s, _ := newSemaphore(t, bed, path, 2, lock.WithData([]byte(data)))
		holds = append(holds, acquire(t, s))
	}
	ctx, cancel := context.WithCancel(testbed.Context(t))
	var waiters []<-chan acquiring
	for i := range 2 {
		other, _ := newSemaphore(t, bed, path, 2)
		waiters = append(waiters, start(t, ctx, other, 1, i+1))
	}
	testbed.CatchUp(t, client)
	ps, err := bystander.Participants(testbed.Context(t))
	require.NoError(t, err)
	require.Len(t, ps, 4)
	for i, p := range ps {
		require.Equal(t, i < 2, p.Holds, "%+v", p)
	}
	for i, data := range []string{"one", "two"} {
		require.Equal(t, holds[i].Path(), ps[i].Path)
		require.Equal(t, data, string(ps[i].Data))
	}
	cancel()
	for _, w := range waiters {
		require.Error(t, testbed.Receive(t, w, "the end of waiting").err)
	}
	release(t, holds[1])
	testbed.CatchUp(t, client)
	waiting(t, bystander, 0)
	ps = testbed.Must(bystander.Participants(testbed.Context(t)))
	require.Len(t, ps, 1)
	require.Equal(t, holds[0].Path(), ps[0].Path)
	release(t, holds[0])
}

func raising(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	path := testbed.Path(t)
	s, _, _ := newShared(t, bed, path, 1)
	other, count, _ := newShared(t, bed, path, 1)
	hold := acquire(t, s)
	one, two := start(t, ctx, s, 1, 1), start(t, ctx, s, 1, 2)
	undecided(t, one)
	require.NoError(t, count.Set(ctx, 3))
	groups := []*lock.Group{granted(t, one), granted(t, two)}
	testbed.Eventually(t, func() bool {
		max, err := other.Max(ctx)
		return err == nil && max == 3
	}, "everybody knows")
	release(t, hold, groups[0], groups[1])
}

func lowering(t *testing.T, bed *testbed.Bed) {
	s, count, client := newShared(t, bed, testbed.Path(t), 2)
	one, two := acquire(t, s), acquire(t, s)
	require.NoError(t, count.Set(testbed.Context(t), 1))
	testbed.CatchUp(t, client)
	require.NoError(t, one.Err())
	require.NoError(t, two.Err())
	release(t, one)
	refused(t, s) // one holds, and one may
	release(t, two)
	release(t, acquire(t, s))
}

func draining(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	s, count, client := newShared(t, bed, testbed.Path(t), 2)
	for reason, drain := range map[string]func() error{
		"is 0":       func() error { return count.Set(ctx, 0) },
		"is not set": func() error { return client.Delete(ctx, count.Path()) },
	} {
		hold := acquire(t, s)
		require.NoError(t, drain())
		testbed.CatchUp(t, client)
		require.NoError(t, hold.Err())
		for _, n := range []int{1, 5} {
			_, err := s.TryAcquireN(ctx, n)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			require.ErrorContains(t, err, "the maximum at "+count.Path()+" "+reason)
		}
		waiter := start(t, ctx, s, 1, 1)
		release(t, hold)
		giveUp, cancel := context.WithCancel(ctx)
		second := start(t, giveUp, s, 2, 2)
		cancel()
		require.ErrorIs(t, testbed.Receive(t, second, "the end of waiting").err, context.Canceled)
		undecided(t, waiter)
		require.Zero(t, testbed.Must(s.Max(ctx)))
		require.NoError(t, count.Set(ctx, 2))
		release(t, granted(t, waiter))
		require.Equal(t, "\x00\x00\x00\x02", testbed.Get(t, client, count.Path()), "as Java writes it")
		empty(t, client, s.Path())
	}
}

func loweredBelow(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	s, count, client := newShared(t, bed, testbed.Path(t), 2)
	hold := acquire(t, s)
	waiter := start(t, ctx, s, 2, 1)
	require.NoError(t, count.Set(ctx, 1))
	_, err := s.TryAcquireN(ctx, 2)
	require.ErrorIs(t, err, semaphore.ErrTooMany)
	release(t, hold)
	giveUp, cancel := context.WithCancel(ctx)
	second := start(t, giveUp, s, 2, 2)
	cancel()
	require.ErrorIs(t, testbed.Receive(t, second, "the end of waiting").err, lock.ErrNotAcquired)
	undecided(t, waiter)
	require.NoError(t, count.Set(ctx, 2))
	release(t, granted(t, waiter))
	empty(t, client, s.Path())
}

func garbage(t *testing.T, bed *testbed.Bed) {
	for _, data := range []string{"2", "\xff\xff\xff\xff", "\x00\x00\x00\x00\x02"} {
		ctx := testbed.Context(t)
		s, count, client := newShared(t, bed, testbed.Path(t), 1)
		hold := acquire(t, s)
		waiter := start(t, ctx, s, 1, 1)
		testbed.Set(t, client, count.Path(), []byte(data))
		_, acquired := s.Acquire(ctx)
		_, tried := s.TryAcquire(ctx)
		_, asked := s.Max(ctx)
		_, listed := s.Participants(ctx)
		for op, err := range map[string]error{"acquire": acquired, "try": tried, "max": asked, "participants": listed} {
			require.ErrorIs(t, err, shared.ErrBadValue)
			testbed.OneOp(t, err, op, s.Path())
		}
		waited := testbed.Receive(t, waiter, "the end of waiting").err
		require.ErrorIs(t, waited, shared.ErrBadValue)
		testbed.OneOp(t, waited, "acquire", s.Path())
		require.NoError(t, count.Set(ctx, 1))
		release(t, hold)
		release(t, acquire(t, s))
	}
}

// TestBadArguments has the arguments that [TestOneLease] does not try.
func TestBadArguments(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	for _, path := range []string{"", "a", "/", "/a/"} {
		_, err := semaphore.NewShared(client, "/a", path)
		require.ErrorIs(t, err, framework.ErrBadPath)
		testbed.OneOp(t, err, "shared value", path)
	}
	for _, max := range []int{0, -1} {
		require.ErrorIs(t, testbed.Err(semaphore.New(client, "/a", max)), framework.ErrBadArgument)
	}
	require.ErrorIs(t, testbed.Err(semaphore.NewShared(nil, "/a", "/b")), framework.ErrBadArgument)
	for _, countPath := range []string{"/a", "/a/leases", "/a/leases/max"} {
		_, err := semaphore.NewShared(client, "/a", countPath)
		require.ErrorIs(t, err, framework.ErrBadArgument, "it would be in the way")
		testbed.OneOp(t, err, "semaphore", "/a")
	}
	require.NoError(t, testbed.Err(semaphore.NewShared(client, "/a", "/ab")))
}

func TestNoLeaseAtAllIsRefusedBeforeAnythingIsSent(t *testing.T) { // CUR-SEM-11
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		fixed := fixedOn(client, "/pool", 1)
		counted, _ := sharedOn(t, client, "/shared", "/max", 1)
		synctest.Wait() // the mark of the count is deleted in the background
		w.Server.ResetCounts()
		for _, s := range []*semaphore.Semaphore{fixed, counted} {
			for _, n := range []int{0, -1} {
				require.ErrorIs(t, testbed.Err(s.AcquireN(t.Context(), n)), framework.ErrBadArgument)
				require.ErrorIs(t, testbed.Err(s.TryAcquireN(t.Context(), n)), framework.ErrBadArgument)
			}
		}
		require.Empty(t, w.Server.Requests().Requests)
	})
}

// TestWireFormat checks the names that Java's InterProcessSemaphoreV2 creates and expects.
func TestWireFormat(t *testing.T) {
	server := zktest.NewServer(t)
	s, _ := newSemaphore(t, testbed.On(server), "/pool", 1)
	hold := acquire(t, s)
	require.Regexp(t, `^/pool/leases/_c_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}-lease-\d{10}$`, hold.Path())
	waiter := start(t, testbed.Context(t), s, 1, 1)
	children := testbed.ServerChildren(t, server, "/pool/locks")
	require.Len(t, children, 1)
	require.Regexp(t, `^_c_[0-9a-f-]{36}-lock-\d{10}$`, children[0])
	release(t, hold)
	release(t, granted(t, waiter))
}

// TestManyLeases requires that a wait costs the same for any number of leases.
func TestManyLeases(t *testing.T) {
	server := zktest.NewServer(t)
	s, _ := newSemaphore(t, testbed.On(server), "/pool", 100)
	other, _ := newSemaphore(t, testbed.On(server), "/pool", 100)
	group := testbed.Must(s.AcquireN(testbed.Context(t), 100))
	server.ResetCounts()
	waiter := begin(testbed.Context(t), other, 1)
	nodes(t, server, "/pool/leases", 101)
	undecided(t, waiter)
	release(t, group.Holds()[42])
	next := granted(t, waiter)
	require.Less(t, server.Requests().Requests["getData"], 10)
	release(t, next)
	require.Error(t, group.Release(), "one of them was released before")
}

// TestOneWaitsAtTheLeases requires that a release wakes one waiter of many.
func TestOneWaitsAtTheLeases(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, world *testbed.World) {
		s := fixedOn(world.Client(), "/pool", 2)
		one, two := acquire(t, s), acquire(t, s)
		var waiters []<-chan acquiring
		for i := range 10 {
			waiters = append(waiters, start(t, testbed.Context(t), s, 1, i+1))
		}
		synctest.Wait()
		require.Len(t, testbed.ServerChildren(t, world.Server, "/pool/leases"), 3, "two hold and one waits")
		release(t, one, two)
		for _, w := range waiters {
			release(t, granted(t, w))
		}
	})
}

// TestFreeLeaseTakesTwoRequests is about a semaphore that is used again: create and delete.
func TestFreeLeaseTakesTwoRequests(t *testing.T) {
	server := zktest.NewServer(t)
	s, _ := newSemaphore(t, testbed.On(server), "/pool", 2)
	require.NoError(t, s.Do(testbed.Context(t), func(context.Context) error { return nil }))
	testbed.Eventually(t, func() bool {
		server.ResetCounts()
		require.NoError(t, s.Do(testbed.Context(t), func(context.Context) error { return nil }))
		counts := server.Requests().Requests
		delete(counts, "ping")
		return maps.Equal(counts, map[string]int{"create": 1, "delete": 1})
	}, "views of both paths")
}

// TestLeaseThatIsLostAtOnceIsNotReturned ends the session when the leases are acquired, and the
// node in the queue is about to be deleted.
func TestLeaseThatIsLostAtOnceIsNotReturned(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	s, client := newSemaphore(t, bed, "/pool", 1)
	other, _ := newSemaphore(t, bed, "/pool", 1)
	first := acquire(t, other)
	session := testbed.Session(t, client)
	acquired := testbed.Go(func() *lock.Hold {
		hold, err := s.Acquire(testbed.Context(t))
		assert.NoError(t, err)
		return hold
	})
	nodes(t, server, "/pool/leases", 2)
	gate := server.Block(zktest.OnOp("delete"), zktest.OnPath("/pool/locks/"))
	release(t, first)
	testbed.Receive(t, gate.Arrived(), "the lease is there")
	require.NoError(t, server.ExpireSession(session.ID()))
	gate.Open()
	hold := testbed.Receive(t, acquired, "a lease")
	require.NoError(t, hold.Err())
	require.NotSame(t, session, hold.Session(), "a second try")
	release(t, hold)
}

// TestCountThatFellInTheQueueIsKnownAtItsFront has the count fall while an acquire is in the queue.
func TestCountThatFellInTheQueueIsKnownAtItsFront(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	ctx := testbed.Context(t)
	client, other := bed.Client(t), bed.Client(t)
	_, count := sharedOn(t, other, "/pool", "/max", 2)
	s, _ := sharedOn(t, client, "/pool", "/max", 2)
	queue := testbed.Must(mutex.New(client, "/pool/locks"))
	hold := acquire(t, s)
	front := testbed.Acquire(t, queue)
	waiter := begin(ctx, s, 1)
	nodes(t, server, "/pool/locks", 2)
	require.NoError(t, count.Set(ctx, 1))
	release(t, front)
	nodes(t, server, "/pool/leases", 2) // it waits for a lease
	undecided(t, waiter)
	release(t, hold)
	release(t, granted(t, waiter))
}

// TestLeaseThatIsReleasedAfterTheCountFellIsNotGranted has a client wait for a lease of two, and
// delays the answer with the new count.
func TestLeaseThatIsReleasedAfterTheCountFellIsNotGranted(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	ctx := testbed.Context(t)
	s, _, client := newShared(t, bed, "/pool", 2)
	other, count, _ := newShared(t, bed, "/pool", 2)
	for range 30 { // with lists and with views
		require.NoError(t, count.Set(ctx, 2))
		one, two := acquire(t, other), acquire(t, other)
		waiter := start(t, ctx, s, 1, 1)
		nodes(t, server, "/pool/leases", 3) // it waits for a lease
		testbed.CatchUp(t, client)
		require.NoError(t, count.Set(ctx, 1))
		release(t, one)
		for range 5 { // an unexpected answer may be in flight
			testbed.CatchUp(t, client)
		}
		select {
		case got := <-waiter:
			require.NoError(t, got.err)
			require.Error(t, two.Err(), "two hold, and one may")
		case <-time.After(5 * time.Millisecond): // the same
		}
		release(t, two)
		release(t, granted(t, waiter))
	}
}
