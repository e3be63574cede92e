package shared_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestShared(t *testing.T) {
	testbed.Run(t, []testbed.Case{
		// CUR-VAL-01, CUR-VAL-07
		{Name: "the first content wins", Test: firstContentWins},
		// CUR-VAL-03
		{Name: "each client sees each value, in order", Test: eachValueInOrder}, // CUR-VAL-02
		// CUR-VAL-04, CURATOR-151
		{Name: "a swap works against the version that was read", Test: swaps},
		// CUR-VAL-05, KZ-VAL-01
		{Name: "a number is updated, with its parents", Test: updates},
		// CUR-VAL-08, CUR-VAL-11
		{Name: "numbers are reserved in blocks", Test: reserves},
		// CUR-VAL-10
		{Name: "increments of many clients are all counted", Test: increments},
		// KZ-VAL-02
		{Name: "data of another kind are an error, and repaired by a set", Test: badValues},
		{Name: "a watch fires at a change, and at the creation of a node", Test: watchFires}, // CUR-VAL-06
		{Name: "bytes and JSON", Test: bytesAndJSON},
		// CUR-VAL-07
		{Name: "a value that was never set equals nothing", Test: comparesAndSets},
		// CURATOR-688
		{Name: "a value that is deleted and made again has another version", Test: madeAgain},
	})
}

func int32s(t *testing.T, client *framework.Client, path string) *shared.Value[int32] {
	t.Helper()
	v, err := shared.Int32(client, path)
	require.NoError(t, err)
	return v
}

func int64s(t *testing.T, client *framework.Client, path string, opts ...shared.Option) *shared.Value[int64] {
	t.Helper()
	v, err := shared.Int64(client, path, opts...)
	require.NoError(t, err)
	return v
}

func get[T any](t *testing.T, v *shared.Value[T]) T {
	t.Helper()
	x, _, err := v.Get(testbed.Context(t))
	require.NoError(t, err)
	return x
}

func versionOf[T any](t *testing.T, v *shared.Value[T]) shared.Version {
	t.Helper()
	_, version, err := v.Get(testbed.Context(t))
	require.NoError(t, err)
	return version
}

// add updates a number, and returns the new one.
func add(t *testing.T, v *shared.Value[int64], n int64) int64 {
	t.Helper()
	x, err := v.Update(testbed.Context(t), plus(n))
	require.NoError(t, err)
	return x
}

// two returns a number on a client, and the same on another one.
func two(t *testing.T, w *testbed.World, client *framework.Client, path string, opts ...shared.Option) (v, other *shared.Value[int64]) {
	t.Helper()
	return int64s(t, client, path, opts...), int64s(t, w.Client(), path)
}

func plus(n int64) func(int64) (int64, error) {
	return func(x int64) (int64, error) { return x + n, nil }
}

// bare checks that writes have left no child.
func bare(t *testing.T, client *framework.Client, path string) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		names, _, err := client.Children(testbed.Context(t), path)
		return err == nil && len(names) == 0
	}, "no child is left")
}

func firstContentWins(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	path := testbed.Path(t)
	one, other := bed.Client(t), bed.Client(t)
	a, b := int32s(t, one, path), int32s(t, other, path)
	require.NoError(t, a.CompareAndSwap(ctx, shared.Version{}, math.MinInt32))
	testbed.CatchUp(t, other)
	require.ErrorIs(t, b.CompareAndSwap(ctx, shared.Version{}, 20), shared.ErrChanged)
	require.EqualValues(t, math.MinInt32, get(t, a))
	require.EqualValues(t, math.MinInt32, get(t, b))
	bare(t, one, path)
}

// comparesAndSets is Java's compareAndSet, as docs/FROM-JAVA.md has it.
func comparesAndSets(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	v := int64s(t, bed.Client(t), testbed.Path(t))
	compareAndSet := func(expected, x int64) bool {
		now, version, err := v.Get(ctx)
		require.NoError(t, err)
		if !version.Exists() || now != expected {
			return false
		}
		require.NoError(t, v.CompareAndSwap(ctx, version, x))
		return true
	}
	require.False(t, compareAndSet(0, 1))
	require.False(t, versionOf(t, v).Exists(), "a read creates no node")
	require.NoError(t, v.CompareAndSwap(ctx, shared.Version{}, 0))
	require.True(t, compareAndSet(0, 1))
	require.False(t, compareAndSet(0, 2))
	require.ErrorIs(t, v.CompareAndSwap(ctx, shared.Version{}, 0), shared.ErrChanged, "initialising never overwrites")
	require.EqualValues(t, 1, get(t, v))
}

func watchFires(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	client := bed.Client(t)
	v := int32s(t, client, testbed.Path(t))
	for n := range int32(3) {
		x, version, watch, err := v.GetW(ctx)
		require.NoError(t, err)
		require.Equal(t, n, x)
		require.Equal(t, n > 0, version.Exists())
		require.NoError(t, v.Set(ctx, n+1))
		testbed.Receive(t, watch.Done(), "the watch")
	}
	testbed.Set(t, client, v.Path(), []byte("bad"))
	_, _, _, err := v.GetW(ctx)
	require.ErrorIs(t, err, shared.ErrBadValue)
	testbed.OneOp(t, err, "get", v.Path())
}

func eachValueInOrder(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	var heard []chan int64
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(testbed.Context(t))
	defer cancel()
	for range 5 {
		v, c := int64s(t, bed.Client(t), path), make(chan int64, 100)
		heard = append(heard, c)
		wg.Go(func() {
			for n, err := range v.Observe(ctx) {
				if err == nil {
					c <- n
				}
			}
		})
	}
	v := int64s(t, bed.Client(t), path)
	for n := range int64(30) {
		if n > 0 {
			require.NoError(t, v.Set(ctx, n*n))
			require.Equal(t, n*n, get(t, v))
		}
		for _, c := range heard {
			require.Equal(t, n*n, testbed.Receive(t, c, "the value"))
		}
	}
}

func swaps(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	v := int64s(t, bed.Client(t), testbed.Path(t))
	require.NoError(t, v.Set(ctx, 0))
	first := versionOf(t, v)
	for n := range int64(3) {
		version := versionOf(t, v)
		require.True(t, version.Exists())
		require.NoError(t, v.CompareAndSwap(ctx, version, n))
		require.ErrorIs(t, v.CompareAndSwap(ctx, version, 99), shared.ErrChanged)
	}
	err := v.CompareAndSwap(ctx, first, 99)
	require.ErrorIs(t, err, shared.ErrChanged)
	require.ErrorContains(t, err, "swap "+v.Path())
	require.EqualValues(t, 2, get(t, v))
}

func updates(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	client := bed.Client(t)
	v := int64s(t, client, testbed.Path(t)+"/deep/down")
	was := int64(0)
	for _, n := range []int64{1, -1, 10, -5, -100} {
		calls := 0
		x, err := v.Update(ctx, func(x int64) (int64, error) {
			calls++
			require.Equal(t, was, x)
			return x + n, nil
		})
		require.NoError(t, err)
		require.Equal(t, 1, calls, "nobody else writes")
		was += n
		require.Equal(t, was, x)
	}
	bare(t, client, v.Path())
}

func reserves(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	client := bed.Client(t)
	v := int64s(t, client, testbed.Path(t))
	for want := int64(0); want < 200; want += 100 {
		first, err := shared.Reserve(ctx, v, 100)
		require.NoError(t, err)
		require.Equal(t, want, first)
	}
	require.EqualValues(t, 1, testbed.Stat(t, client, v.Path()).Version, "two writes")
	require.ErrorIs(t, testbed.Err(shared.Reserve(ctx, v, 0)), framework.ErrBadArgument)
	require.NoError(t, v.Set(ctx, math.MaxInt64-5))
	require.ErrorIs(t, testbed.Err(shared.Reserve(ctx, v, 6)), shared.ErrBadValue)
	first, err := shared.Reserve(ctx, v, 5)
	require.NoError(t, err)
	require.EqualValues(t, math.MaxInt64-5, first)
}

func increments(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	path := testbed.Path(t)
	var wg sync.WaitGroup
	const clients, each = 6, 10
	for i := range clients {
		var opts []shared.Option
		if i > 0 { // one never takes turns
			opts = append(opts, shared.WithMutex(path+"-mutex"))
		}
		v := int64s(t, bed.Client(t), path, opts...)
		wg.Go(func() {
			last := int64(0)
			for range each {
				x, err := v.Update(ctx, plus(1))
				assert.NoError(t, err)
				assert.Greater(t, x, last)
				last = x
			}
		})
	}
	wg.Wait()
	client := bed.Client(t)
	testbed.CatchUp(t, client)
	require.EqualValues(t, clients*each, get(t, int64s(t, client, path)))
	bare(t, client, path)
}

func badValues(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	client := bed.Client(t)
	small := int32s(t, client, testbed.Path(t))
	large := int64s(t, client, small.Path())
	heard := make(chan error, 10)
	go func() {
		for _, err := range large.Observe(ctx) {
			heard <- err
		}
	}()
	require.NoError(t, testbed.Receive(t, heard, "no value"))
	require.NoError(t, small.Set(ctx, 1))
	_, version, err := large.Get(ctx)
	require.ErrorIs(t, err, shared.ErrBadValue)
	require.True(t, version.Exists())
	require.ErrorIs(t, testbed.Receive(t, heard, "a bad value"), shared.ErrBadValue)
	require.ErrorIs(t, testbed.Err(large.Update(ctx, plus(1))), shared.ErrBadValue)
	require.EqualValues(t, 1, get(t, small))
	require.NoError(t, large.Set(ctx, 2))
	require.NoError(t, testbed.Receive(t, heard, "a value again"))
	require.EqualValues(t, 2, get(t, large))
	require.ErrorIs(t, testbed.Err(small.Get(ctx)), shared.ErrBadValue)
}

func bytesAndJSON(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	client := bed.Client(t)
	raw := testbed.Must(shared.Bytes(client, testbed.Path(t)))
	require.NoError(t, raw.Set(ctx, nil))
	require.Empty(t, get(t, raw))
	type limits struct{ Rate, Burst int }
	v := testbed.Must(shared.JSON[limits](client, raw.Path()))
	require.ErrorIs(t, testbed.Err(v.Get(ctx)), shared.ErrBadValue)
	require.NoError(t, v.Set(ctx, limits{1, 2}))
	require.JSONEq(t, `{"Rate":1,"Burst":2}`, string(get(t, raw)))
	got, err := v.Update(ctx, func(l limits) (limits, error) {
		l.Burst *= 2
		return l, nil
	})
	require.NoError(t, err)
	require.Equal(t, limits{1, 4}, got)
	bad := testbed.Must(shared.JSON[any](client, raw.Path()))
	require.ErrorContains(t, bad.Set(ctx, func() {}), "set "+raw.Path())
	require.Equal(t, limits{1, 4}, get(t, v))
}

func madeAgain(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	client := bed.Client(t)
	v := int64s(t, client, testbed.Path(t)+"/x")
	require.NoError(t, v.Set(ctx, 7))
	version := versionOf(t, v)
	bare(t, client, v.Path())
	require.NoError(t, client.Delete(ctx, v.Path()))
	require.Zero(t, get(t, v))
	require.ErrorIs(t, v.CompareAndSwap(ctx, version, 8), shared.ErrChanged)
	require.NoError(t, v.Set(ctx, 7))
	require.ErrorIs(t, v.CompareAndSwap(ctx, version, 8), shared.ErrChanged, "the version of the node is the same")
	require.EqualValues(t, 7, get(t, v))
}

func TestBadArguments(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		for _, path := range []string{"", "relative", "/", "/a/"} {
			_, err := shared.Int64(c, path)
			require.ErrorIs(t, err, framework.ErrBadPath)
		}
		bad := func(_ any, err error) {
			t.Helper()
			require.ErrorIs(t, err, framework.ErrBadArgument)
		}
		v := int64s(t, c, "/a", shared.WithMutex("/ab"))
		bad(shared.Bytes(nil, "/a"))
		bad(shared.Bytes(c, "/a", nil))
		bad(shared.Bytes(c, "/a", shared.WithMutex("/a")))
		bad(shared.Bytes(c, "/a", shared.WithMutex("/a/b")))
		bad(v.Update(t.Context(), nil))
		require.ErrorIs(t, testbed.Err(shared.Bytes(c, "/a", shared.WithMutex("b"))), framework.ErrBadPath)
		require.NoError(t, c.Close())
		require.ErrorIs(t, testbed.Err(shared.Reserve(t.Context(), v, 1)), framework.ErrClosed)
		for _, err := range v.Observe(t.Context()) {
			require.ErrorIs(t, err, framework.ErrClosed)
		}
	})
}

// TestChangesThroughAnOutage yields each state once, even if it changed during the outage: no value twice, and
// no older one.
func TestChangesThroughAnOutage(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var heard []int64
		v, writer := two(t, w, w.Client(), "/a")
		done := testbed.Go(func() (last error) {
			for x, err := range v.Observe(ctx) {
				if last = err; err == nil {
					heard = append(heard, x)
				}
			}
			return last
		})
		time.Sleep(time.Second)
		require.NoError(t, writer.Set(t.Context(), 1))
		time.Sleep(time.Second)
		w.Server.CutConnections()
		time.Sleep(time.Second)
		w.Server.Stop()
		time.Sleep(5 * time.Minute)
		require.NoError(t, w.Server.Restart())
		require.NoError(t, w.Server.Set("/a", make([]byte, 8)))
		time.Sleep(time.Minute)
		w.Server.Stop()
		time.Sleep(time.Minute)
		cancel()
		err := <-done
		testbed.OneOp(t, err, "observe", "/a")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, zk.ErrNoServer)
		require.Equal(t, []int64{0, 1, 0}, heard)
	})
}

func TestAnUpdateThatIsOvertakenTakesTurns(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		v, other := two(t, w, w.Client(), "/a", shared.WithMutex("/mutex"))
		calls := 0
		x, err := v.Update(testbed.Context(t), func(x int64) (int64, error) {
			if calls++; calls <= 5 {
				require.Equal(t, calls > 3, held(w.Server), "call %d", calls)
				require.NoError(t, other.Set(testbed.Context(t), 10*int64(calls)))
			}
			return x + 1, nil
		})
		require.NoError(t, err)
		require.EqualValues(t, 51, x)
		require.False(t, held(w.Server))
		_, err = v.Update(testbed.Context(t), func(x int64) (int64, error) {
			require.False(t, held(w.Server), "optimistic again")
			return x + 1, nil
		})
		require.NoError(t, err)
	})
}

// TestUpdate_InsideItsMutex: the caller has the turn, and the Update does not wait for itself.
func TestUpdate_InsideItsMutex(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		v, other := two(t, w, client, "/a", shared.WithMutex("/mutex"))
		m := testbed.Must(mutex.New(client, "/mutex"))
		calls := 0
		require.NoError(t, m.Do(testbed.Context(t), func(ctx context.Context) error {
			x, err := v.Update(ctx, func(x int64) (int64, error) {
				if calls++; calls <= 10 {
					require.NoError(t, other.Set(t.Context(), 10*int64(calls)))
				}
				return x + 1, nil
			})
			require.EqualValues(t, 101, x)
			return err
		}))
		require.Equal(t, 11, calls)
	})
}

// TestAnUpdateThatWaitsForTheMutexNamesItself: the error names the update, and nothing was written.
func TestAnUpdateThatWaitsForTheMutexNamesItself(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		v, other := two(t, w, w.Client(), "/a", shared.WithMutex("/mutex"))
		m := testbed.Must(mutex.New(w.Client(), "/mutex"))
		testbed.Acquire(t, m)
		_, err := v.Update(testbed.Timeout(t, time.Minute), func(x int64) (int64, error) {
			require.NoError(t, other.Set(t.Context(), x+1))
			return 100, nil
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, retry.Unknown(err))
		testbed.OneOp(t, err, "update", "/a")
		require.EqualValues(t, 3, get(t, other), "three tries")
	})
}

// TestAnUpdateThatHasTheMutexEndsWithItsContext loses its servers when it has acquired the mutex.
func TestAnUpdateThatHasTheMutexEndsWithItsContext(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		v, other := two(t, w, w.Client(), "/a", shared.WithMutex("/mutex"))
		ctx := testbed.Timeout(t, 3*time.Second)
		calls := 0
		_, err := v.Update(ctx, func(x int64) (int64, error) {
			if calls++; calls <= 3 {
				require.NoError(t, other.Set(t.Context(), x+1))
			} else {
				require.True(t, held(w.Server))
				w.Server.RefuseConnections(true)
				w.Server.CutConnections()
				synctest.Wait()
			}
			return 100, nil
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 4, calls)
		deadline, _ := ctx.Deadline()
		require.LessOrEqual(t, time.Since(deadline), time.Second)
		w.Server.RefuseConnections(false)
		testbed.Eventually(t, func() bool { return !held(w.Server) }, "the mutex is free")
	})
}

// TestAnErrorOfTheFunctionEndsAnUpdate returns the function's error, even an error that Update itself
// would handle.
func TestAnErrorOfTheFunctionEndsAnUpdate(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		v := int64s(t, w.Client(), "/a")
		for _, ends := range []error{shared.ErrChanged, zk.ErrConnectionClosed, assert.AnError} {
			calls := 0
			_, err := v.Update(testbed.Context(t), func(int64) (int64, error) {
				calls++
				return 1, ends
			})
			require.ErrorIs(t, err, ends)
			require.False(t, retry.Unknown(err), "nothing was sent")
			require.Equal(t, 1, calls)
		}
		require.False(t, versionOf(t, v).Exists())
	})
}

// TestAValueThatIsDeletedDuringAnUpdate begins again with 0, as one that was never set.
func TestAValueThatIsDeletedDuringAnUpdate(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		v := int64s(t, w.Client(), "/a")
		require.NoError(t, v.Set(t.Context(), 5))
		var seen []int64
		x, err := v.Update(t.Context(), func(x int64) (int64, error) {
			if seen = append(seen, x); len(seen) == 1 {
				require.NoError(t, w.Server.Delete("/a"))
			}
			return x + 1, nil
		})
		require.NoError(t, err)
		require.EqualValues(t, 1, x)
		require.Equal(t, []int64{5, 0}, seen)
		require.EqualValues(t, math.MinInt64, add(t, v, math.MaxInt64), "it overflows as an int64 does, and as in Java")
	})
}

// TestAValueIsDeletedAfterAWrite: the write leaves nothing that obstructs the client's next
// request.
func TestAValueIsDeletedAfterAWrite(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		v := int64s(t, c, "/a")
		for n := range int64(10) {
			for range 5 {
				add(t, v, 1)
			}
			require.NoError(t, v.Set(t.Context(), n))
			require.NoError(t, c.Delete(t.Context(), "/a"))
			require.Zero(t, get(t, v))
		}
	})
}

// TestCloseEndsUpdatesAndChanges, the first while it pauses.
func TestCloseEndsUpdatesAndChanges(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		v, other := two(t, w, c, "/a")
		observed := testbed.Go(func() (last error) {
			for _, last = range v.Observe(context.Background()) {
			}
			return last
		})
		updated := testbed.Go(func() error {
			_, err := v.Update(context.Background(), func(x int64) (int64, error) { return x + 1, other.Set(context.Background(), x+100) })
			return err
		})
		time.Sleep(time.Minute)
		require.NoError(t, c.Close())
		for _, ended := range []<-chan error{observed, updated} {
			err := testbed.Receive(t, ended, "the end")
			require.ErrorIs(t, err, framework.ErrClosed)
			require.False(t, retry.Unknown(err))
		}
	})
}

// held reports whether another client holds the mutex at /mutex.
func held(server *zktest.Server) bool {
	names, err := server.Children("/mutex")
	return !errors.Is(err, zktest.ErrNoNode) && len(names) > 0
}

// reads counts the reads of a node's data from now on.
func reads(server *zktest.Server) func() int {
	server.ResetCounts()
	return func() int { return server.Requests().Requests["getData"] }
}

// TestUpdatesInARowSkipTheRead: no other client has written since the last one.
func TestUpdatesInARowSkipTheRead(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		ctx := testbed.Context(t)
		c := w.Client()
		v := int64s(t, c, "/a")
		count := reads(w.Server)
		for n := range int64(10) {
			require.Equal(t, n+1, add(t, v, 1))
		}
		require.Equal(t, 3, count(), "the first one creates the node, and two begin the row")

		count = reads(w.Server)
		calls := 0
		_, err := v.Update(ctx, func(int64) (int64, error) {
			calls++
			return 0, assert.AnError
		})
		require.ErrorIs(t, err, assert.AnError)
		require.Equal(t, 1, count(), "an error counts with the present value")
		require.Equal(t, 2, calls)

		time.Sleep(time.Second)
		count = reads(w.Server)
		require.EqualValues(t, 11, add(t, v, 1))
		require.Equal(t, 1, count(), "a pause ends the row")
	})
}

// TestAnUpdateNeverBeginsWithSomethingOlderThanWasShown has a row of updates, and then a newer
// value.
func TestAnUpdateNeverBeginsWithSomethingOlderThanWasShown(t *testing.T) {
	for name, newer := range map[string]func(*testing.T, *shared.Value[int64], *shared.Value[int64], *zktest.Server) int64{
		"read": func(t *testing.T, v, other *shared.Value[int64], _ *zktest.Server) int64 {
			require.NoError(t, other.Set(t.Context(), 50))
			require.EqualValues(t, 50, get(t, v))
			return 50
		},
		"deleted": func(t *testing.T, v, _ *shared.Value[int64], server *zktest.Server) int64 {
			require.NoError(t, server.Delete("/a"))
			require.Zero(t, get(t, v))
			return 0
		},
		"set": func(t *testing.T, v, _ *shared.Value[int64], _ *zktest.Server) int64 {
			require.NoError(t, v.Set(t.Context(), 60))
			return 60
		},
		"swapped": func(t *testing.T, v, _ *shared.Value[int64], _ *zktest.Server) int64 {
			require.NoError(t, v.CompareAndSwap(t.Context(), versionOf(t, v), 70))
			return 70
		},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			v, other := two(t, w, w.Client(), "/a")
			for range 5 {
				add(t, v, 1)
			}
			want := newer(t, v, other, w.Server)
			x, err := v.Update(t.Context(), func(x int64) (int64, error) {
				require.Equal(t, want, x)
				return x + 1, nil
			})
			require.NoError(t, err)
			require.Equal(t, want+1, x)
		})
	}
}

// TestAnUpdateInARowIsOvertaken: what another one has written is not lost, and the row is over.
func TestAnUpdateInARowIsOvertaken(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		v, other := two(t, w, w.Client(), "/a")
		for range 5 {
			add(t, v, 1)
		}
		add(t, other, 100)
		count := reads(w.Server)
		var seen []int64
		for range 2 {
			_, err := v.Update(t.Context(), func(x int64) (int64, error) {
				seen = append(seen, x)
				return x + 1, nil
			})
			require.NoError(t, err)
		}
		require.Equal(t, []int64{5, 105, 106}, seen)
		require.Equal(t, 2, count())
		require.EqualValues(t, 107, get(t, other))
	})
}
