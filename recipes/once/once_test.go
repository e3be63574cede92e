package once_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/once"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOnce(t *testing.T) {
	testbed.Run(t, []testbed.Case{
		{Name: "a fleet runs a firing once", Test: aFleetRunsOnce},
		{Name: "a mutex at the path excludes the job", Test: aMutexExcludes},
		{Name: "TryDo names the runner", Test: tryDoNamesTheRunner},
		{Name: "a failure is not recorded", Test: aFailureIsNotRecorded},
		{Name: "a canceled call is not recorded, even if the function returns nil", Test: aCanceledCallIsNotRecorded},
		{Name: "a panic and Goexit release the lock", Test: panicsRelease},
		{Name: "operations of Commit are carried out once", Test: commitsOnce},
		{Name: "a refused operation of Commit is no success", Test: refusedCommit},
		{Name: "a forgotten key runs again", Test: forgottenKeysRun},
		{Name: "data of another program are never overwritten", Test: foreignData},
		{Name: "fields of another version stay", Test: unknownFieldsStay},
		{Name: "a missing right to write is found before the function runs", Test: noRightToWrite},
		{Name: "successes have a minimum distance", Test: minInterval},
		{Name: "a write of the record during the function", Test: concurrentWrites},
		{Name: "a client that compresses", Test: compressing},
	})
}

// call is Do or TryDo.
type (
	call   = func(ctx context.Context, key string, f func(context.Context) error) (once.Record, error)
	method = func(o *once.Once, ctx context.Context, key string, f func(context.Context) error) (once.Record, error)
)

// newJob returns a job at a new path, with a client of its own.
func newJob(t *testing.T, bed *testbed.Bed, opts ...once.Option) (o *once.Once, client *framework.Client, path string) {
	t.Helper()
	client, path = bed.Client(t), testbed.Path(t)
	return newOnce(client, path, opts...), client, path
}

func newOnce(client *framework.Client, path string, opts ...once.Option) *once.Once {
	return testbed.Must(once.New(client, path, opts...))
}

// succeed is a function of a job that only succeeds.
func succeed(context.Context) error { return nil }

// never is a function of a job that must not be called.
func never(t *testing.T) func(context.Context) error {
	return func(context.Context) error {
		assert.Fail(t, "called")
		return nil
	}
}

// ran requires that the call runs its function and records the key.
func ran(t *testing.T, o *once.Once, key string) once.Record {
	t.Helper()
	called := 0
	r, err := o.Do(testbed.Context(t), key, func(context.Context) error { called++; return nil })
	require.NoError(t, err)
	require.Equal(t, 1, called)
	require.True(t, r.Ran)
	require.Equal(t, key, r.Key)
	return r
}

// done requires that the key is recorded.
func done(t *testing.T, o *once.Once, key string) once.Record {
	t.Helper()
	for _, do := range []call{o.Do, o.TryDo} {
		r, err := do(testbed.Context(t), key, never(t))
		require.NoError(t, err)
		require.False(t, r.Ran)
	}
	r, err := o.Do(testbed.Context(t), key, never(t))
	require.NoError(t, err)
	return r
}

func records(t *testing.T, o *once.Once) []once.Record {
	t.Helper()
	all, err := o.Records(testbed.Context(t))
	require.NoError(t, err)
	return all
}

// refused requires that neither Do nor TryDo calls its function, and returns the error of Do.
func refused(t *testing.T, o *once.Once, key string, want error) error {
	t.Helper()
	require.ErrorIs(t, testbed.Err(o.TryDo(testbed.Context(t), key, never(t))), want)
	_, err := o.Do(testbed.Context(t), key, never(t))
	require.ErrorIs(t, err, want)
	testbed.OneOp(t, err, "do", o.Path())
	return err
}

// noLock requires that the job's lock has no node.
func noLock(t *testing.T, client *framework.Client, path string) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		children, _, err := client.Children(testbed.Context(t), path)
		return errors.Is(err, zk.ErrNoNode) || err == nil && (len(children) == 0 || len(children) == 1 && children[0] == "once")
	}, "no node of the lock is left")
}

func aFleetRunsOnce(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	for _, key := range []string{"2026-11-28", "builds/main/1a2b"} {
		var calls, live atomic.Int32
		var fleet sync.WaitGroup
		records := make([]once.Record, 5)
		for i := range records {
			o := newOnce(bed.Client(t, framework.WithDefaultData(fmt.Append(nil, "member ", i))), path)
			fleet.Go(func() {
				var err error
				records[i], err = o.Do(testbed.Context(t), key, func(context.Context) error {
					assert.EqualValues(t, 1, live.Add(1))
					defer live.Add(-1)
					calls.Add(1)
					return nil
				})
				assert.NoError(t, err)
			})
		}
		fleet.Wait()
		require.EqualValues(t, 1, calls.Load())
		runners := 0
		for _, r := range records {
			require.Equal(t, key, r.Key)
			require.Equal(t, records[0].By, r.By)
			require.Equal(t, records[0].At, r.At)
			require.WithinDuration(t, time.Now(), r.At, time.Hour, "the clock of a server on the same machine")
			if r.Ran {
				runners++
			}
		}
		require.Equal(t, 1, runners)
		require.Contains(t, records[0].By, "member ")
		noLock(t, bed.Client(t), path)
	}
}

func aMutexExcludes(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	m := testbed.Must(mutex.New(bed.Client(t), path))
	hold := testbed.Acquire(t, m)
	o := newOnce(bed.Client(t), path)
	require.ErrorIs(t, testbed.Err(o.TryDo(testbed.Context(t), "a", never(t))), once.ErrRunning)
	require.NoError(t, hold.Release())
	testbed.CatchUp(t, bed.Client(t))
	_, err := o.Do(testbed.Context(t), "a", func(ctx context.Context) error {
		assert.ErrorIs(t, testbed.Err(m.TryAcquire(testbed.Context(t))), lock.ErrNotAcquired)
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, testbed.Acquire(t, m).Release())
}

func tryDoNamesTheRunner(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	runner := newOnce(bed.Client(t), path, once.WithLock(lock.WithData([]byte("host-7:42"))))
	other := newOnce(bed.Client(t), path)
	r, err := runner.Do(testbed.Context(t), "a", func(ctx context.Context) error {
		_, err := other.TryDo(testbed.Context(t), "b", never(t))
		testbed.OneOp(t, err, "try", path)
		require.ErrorIs(t, err, once.ErrRunning)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.ErrorContains(t, err, "by host-7:42")
		for _, nested := range []call{runner.Do, runner.TryDo} {
			_, err = nested(ctx, "b", never(t))
			require.ErrorIs(t, err, framework.ErrBadArgument, "two keys never overlap")
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, "host-7:42", r.By)
	require.Equal(t, "host-7:42", done(t, other, "a").By)
	ran(t, other, "b")
}

func aFailureIsNotRecorded(t *testing.T, bed *testbed.Bed) {
	o, client, path := newJob(t, bed)
	bad := &framework.OpError{Op: "get", Path: "/x", Err: errors.New("bad")}
	r, err := o.Do(testbed.Context(t), "a", func(context.Context) error { return bad })
	require.Equal(t, error(bad), err, "the function's own error")
	require.False(t, r.Ran)
	noLock(t, client, path)
	ran(t, o, "a")
}

func aCanceledCallIsNotRecorded(t *testing.T, bed *testbed.Bed) {
	o, client, path := newJob(t, bed)
	ctx, cancel := context.WithCancel(testbed.Context(t))
	r, err := o.Do(ctx, "a", func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		return nil // as a loop that ends with its context does
	})
	testbed.OneOp(t, err, "do", path)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, r.Ran)
	noLock(t, client, path)
	require.ErrorIs(t, testbed.Err(o.Do(ctx, "a", never(t))), context.Canceled)
	ran(t, o, "a")
}

func panicsRelease(t *testing.T, bed *testbed.Bed) {
	o, client, path := newJob(t, bed)
	require.PanicsWithValue(t, "oops", func() {
		_, _ = o.Do(testbed.Context(t), "a", func(context.Context) error { panic("oops") })
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = o.TryDo(context.Background(), "a", func(context.Context) error { runtime.Goexit(); return nil })
	}()
	testbed.Receive(t, ended, "the end of the goroutine")
	noLock(t, client, path)
	ran(t, o, "a")
}

func commitsOnce(t *testing.T, bed *testbed.Bed) {
	o, client, path := newJob(t, bed)
	target := path + "-target"
	testbed.Create(t, client, target, []byte("0"), framework.ContainerParents())
	var after context.Context
	_, err := o.Do(testbed.Context(t), "a", func(ctx context.Context) error {
		after = ctx
		op := &zk.SetDataRequest{Path: target, Data: []byte("1"), Version: 0}
		require.NoError(t, once.Commit(ctx, op, &zk.CreateRequest{Path: target + "-new", Data: []byte("x")}))
		op.Path = "changed by its owner"
		require.NoError(t, once.Commit(ctx, &zk.CheckVersionRequest{Path: target, Version: 1}, &zk.DeleteRequest{Path: target + "-new", Version: -1}))
		for _, bad := range []any{nil, framework.SetOp(target, nil, nil), framework.CreateOp(target, nil, nil), &zk.CreateRequest{Path: target, Flags: 99}, zk.SetDataRequest{Path: target}, (*zk.DeleteRequest)(nil), &zk.DeleteRequest{Path: "x"}, 7} {
			err := once.Commit(ctx, bad)
			assert.True(t, errors.Is(err, framework.ErrBadArgument) || errors.Is(err, framework.ErrBadPath), "%v", err)
		}
		assert.ErrorIs(t, once.Commit(ctx, &zk.SetDataRequest{Path: target, Data: make([]byte, 1<<20)}), framework.ErrTooLong)
		hold, err := once.Hold(ctx)
		require.NoError(t, err)
		_, err = client.Multi(ctx, hold.Guard(), &zk.CheckVersionRequest{Path: target, Version: 0})
		return err
	})
	require.NoError(t, err)
	require.Equal(t, "1", testbed.Get(t, client, target))
	require.EqualValues(t, 1, testbed.Stat(t, client, target).Version)
	require.False(t, testbed.Exists(t, client, target+"-new"))
	require.ErrorIs(t, once.Commit(after, &zk.DeleteRequest{Path: target, Version: -1}), lock.ErrReleased)
	require.ErrorIs(t, once.Commit(testbed.Context(t), &zk.DeleteRequest{Path: target, Version: -1}), framework.ErrBadArgument)
	require.ErrorIs(t, testbed.Err(once.Hold(testbed.Context(t))), framework.ErrBadArgument)
}

func refusedCommit(t *testing.T, bed *testbed.Bed) {
	o, client, path := newJob(t, bed)
	ran(t, o, "before")
	r, err := o.Do(testbed.Context(t), "a", func(ctx context.Context) error {
		return once.Commit(ctx, &zk.CreateRequest{Path: path + "-new"}, &zk.CheckVersionRequest{Path: path, Version: 77})
	})
	testbed.OneOp(t, err, "do", path)
	require.True(t, r.Ran)
	require.ErrorIs(t, err, zk.ErrBadVersion)
	var refused *framework.MultiError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 1, refused.Index)
	require.False(t, retry.Unknown(err))
	require.False(t, testbed.Exists(t, client, path+"-new"))
	noLock(t, client, path)
	ran(t, o, "a")
}

func forgottenKeysRun(t *testing.T, bed *testbed.Bed) {
	o, client, path := newJob(t, bed)
	require.Empty(t, records(t, o))
	require.NoError(t, o.Forget(testbed.Context(t), "a"))
	a, b := ran(t, o, "a"), ran(t, o, "b")
	require.NoError(t, o.Forget(testbed.Context(t), "c"))
	require.NoError(t, o.Forget(testbed.Context(t), "a"))
	require.Equal(t, b.At, done(t, o, "b").At, "a write of the record changes no time")
	again := ran(t, o, "a")
	require.False(t, again.At.Before(a.At))
	again.Ran, b.Ran = false, false
	require.Equal(t, []once.Record{again, b}, records(t, o))
	require.Regexp(t, `^{"n":3,"done":\[{"by":"[^}]*},{"key":"b"`, testbed.Get(t, client, path+"/once"))
}

func foreignData(t *testing.T, bed *testbed.Bed) {
	o, client, path := newJob(t, bed)
	for i, text := range []string{"", "127.0.0.1", "{}", `{"n":-1,"done":[]}`, `{"n":1}`, `{"n":"1","done":[]}`, `[]`, `{"n":1,"done":{}}`, `null`} {
		testbed.Create(t, client, path+"/once", []byte(text), framework.ContainerParents(), framework.OrSet())
		refused(t, o, "a", once.ErrBadValue)
		require.ErrorIs(t, testbed.Err(o.Records(testbed.Context(t))), once.ErrBadValue, text)
		require.ErrorIs(t, o.Forget(testbed.Context(t), "a"), once.ErrBadValue, text)
		require.ErrorIs(t, o.Run(testbed.Context(t), once.Every(time.Hour), func(context.Context, time.Time) error { return nil }), once.ErrBadValue)
		require.Equal(t, text, testbed.Get(t, client, path+"/once"))
		require.EqualValues(t, i, testbed.Stat(t, client, path+"/once").Version)
	}
}

func unknownFieldsStay(t *testing.T, bed *testbed.Bed) {
	o, client, path := newJob(t, bed)
	testbed.Create(t, client, path+"/once", []byte(
		`{"later":[1,2], "n":7, "done":[ {"new":"kind"}, 5, {"key":"a<b","by":"x","id":"i","more":true} ]}`), framework.ContainerParents())
	a := done(t, o, "a<b")
	b := ran(t, o, "b")
	data := testbed.Get(t, client, path+"/once")
	prefix := `{"n":8,"done":[{"new":"kind"},5,{"key":"a<b","by":"x","id":"i","more":true,"at":"` + a.At.Format(time.RFC3339Nano) + `"},{"key":"b","by":"` + b.By
	require.True(t, strings.HasPrefix(data, prefix), "%s\n%s", prefix, data)
	require.True(t, strings.HasSuffix(data, `],"later":[1,2]}`), data)
	require.Len(t, records(t, o), 2)
}

func noRightToWrite(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	owner := bed.Client(t, framework.WithAuth("digest", []byte("owner:secret")))
	ran(t, newOnce(owner, path), "before")
	testbed.SetACL(t, owner, path+"/once", append(zk.WorldACL(zk.PermRead), zk.AuthACL(zk.PermAll)...))
	client := bed.Client(t)
	for _, opts := range [][]once.Option{nil, {once.WithMinInterval(time.Nanosecond)}} {
		o := newOnce(client, path, opts...)
		done(t, o, "before")
		for range 2 {
			require.ErrorContains(t, refused(t, o, "a", zk.ErrNoAuth), `write node "once"`)
		}
		err := o.Run(testbed.Context(t), once.Every(time.Hour), func(context.Context, time.Time) error { return nil })
		require.ErrorIs(t, err, zk.ErrNoAuth)
	}
	noLock(t, client, path)
	ran(t, newOnce(owner, path), "a")

	// A record that the client creates itself, and is not permitted to write.
	path = testbed.Path(t)
	readers := bed.Client(t, framework.WithACLProvider(func(string) []zk.ACL { return zk.WorldACL(zk.PermAll &^ zk.PermWrite) }))
	refused(t, newOnce(readers, path), "a", zk.ErrNoAuth)
}

func minInterval(t *testing.T, bed *testbed.Bed) {
	patient, client, path := newJob(t, bed, once.WithMinInterval(time.Hour))
	hasty := newOnce(client, path, once.WithMinInterval(time.Nanosecond))
	ran(t, patient, "a")
	done(t, patient, "a")
	err := refused(t, patient, "b", once.ErrTooSoon)
	require.Regexp(t, `too soon after the last success \((59m.*|1h0m0)s left\)`, err.Error())
	noLock(t, client, path)
	testbed.Eventually(t, func() bool { // the servers' time has milliseconds
		r, err := hasty.Do(testbed.Context(t), "b", succeed)
		return err == nil && r.Ran
	}, "the interval is over")
}

func concurrentWrites(t *testing.T, bed *testbed.Bed) {
	o, client, path := newJob(t, bed)
	operator := newOnce(bed.Client(t), path)
	ran(t, o, "a")
	ran(t, o, "b")
	r, err := o.Do(testbed.Context(t), "c", func(ctx context.Context) error {
		return operator.Forget(testbed.Context(t), "a")
	})
	require.NoError(t, err)
	require.True(t, r.Ran)
	done(t, operator, "c")
	done(t, operator, "b")
	ran(t, o, "a")
	_, err = o.Do(testbed.Context(t), "d", func(ctx context.Context) error {
		return client.Delete(testbed.Context(t), path+"/once")
	})
	require.NoError(t, err)
	done(t, operator, "d")
	ran(t, o, "c")

	// Data of another program that appear during the function are not overwritten.
	r, err = o.Do(testbed.Context(t), "e", func(ctx context.Context) error {
		testbed.Set(t, client, path+"/once", []byte("foreign"))
		return nil
	})
	require.ErrorIs(t, err, once.ErrBadValue)
	require.True(t, r.Ran)
	require.False(t, retry.Unknown(err))
	require.Equal(t, "foreign", testbed.Get(t, client, path+"/once"))
}

func compressing(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	client := bed.Client(t, framework.WithCompression())
	o := newOnce(client, path)
	text := strings.Repeat("compressed ", 100)
	_, err := o.Do(testbed.Context(t), "a", func(ctx context.Context) error {
		return once.Commit(ctx, &zk.CreateRequest{Path: path + "-result", Data: []byte(text)})
	})
	require.NoError(t, err)
	require.Equal(t, text, testbed.Get(t, client, path+"-result"))
	done(t, newOnce(bed.Client(t), path), "a")
}

func TestNewRefusesBadArguments(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	small := testbed.On(server).Client(t, framework.WithMaxRequest(50_000))
	require.NoError(t, testbed.Err(once.New(small, "/job", once.WithKeep(50))))
	_, err := once.New(client, "/job", once.WithKeep(1000), once.WithLock(lock.WithMaxLeases(1), lock.WithMaxHold(time.Hour), lock.WithLockDelay(time.Second)))
	require.NoError(t, err)
	for _, c := range []struct {
		client *framework.Client
		path   string
		opts   []once.Option
		want   error
	}{
		{nil, "/job", nil, framework.ErrBadArgument},
		{client, "/", nil, framework.ErrBadPath},
		{client, "job", nil, framework.ErrBadPath},
		{client, "/job", []once.Option{nil}, framework.ErrBadArgument},
		{client, "/job", []once.Option{once.WithKeep(0)}, framework.ErrBadArgument},
		{client, "/job", []once.Option{once.WithKeep(1001)}, framework.ErrBadArgument},
		{client, "/job", []once.Option{once.WithMinInterval(0)}, framework.ErrBadArgument},
		{client, "/job", []once.Option{once.WithMissed(-1)}, framework.ErrBadArgument},
		{client, "/job", []once.Option{once.WithLock(nil)}, framework.ErrBadArgument},
		{client, "/job", []once.Option{once.WithLock(lock.WithMaxLeases(2))}, framework.ErrBadArgument},
		{client, "/job", []once.Option{once.WithLock(lock.WithRetention(time.Second))}, framework.ErrBadArgument},
		{small, "/job", nil, framework.ErrBadArgument},
	} {
		o, err := once.New(c.client, c.path, c.opts...)
		require.ErrorIs(t, err, c.want)
		require.Nil(t, o)
		testbed.OneOp(t, err, "once", c.path)
	}
}

func TestBadArguments(t *testing.T) {
	server := zktest.NewServer(t)
	o := newOnce(testbed.On(server).Client(t), "/job")
	require.Equal(t, "/job", o.Path())
	for _, key := range []string{"", strings.Repeat("x", 256), strings.Repeat("x", 1<<20), "a\nb", "a\x00", "\xff"} {
		for op, do := range map[string]call{"do": o.Do, "try": o.TryDo} {
			_, err := do(t.Context(), key, never(t))
			require.ErrorIs(t, err, framework.ErrBadArgument)
			testbed.OneOp(t, err, op, "/job")
			require.Less(t, len(err.Error()), 500)
		}
	}
	require.ErrorIs(t, testbed.Err(o.Do(t.Context(), "a", nil)), framework.ErrBadArgument)
	var none context.Context
	require.ErrorIs(t, testbed.Err(o.Do(none, "a", never(t))), framework.ErrBadArgument)
	require.ErrorIs(t, o.Run(t.Context(), nil, func(context.Context, time.Time) error { return nil }), framework.ErrBadArgument)
	require.ErrorIs(t, o.Run(t.Context(), once.Every(time.Hour), nil), framework.ErrBadArgument)
	require.False(t, server.Exists("/job"), "no request was sent")
}

// TestTheLargestRecordFits fills a record with the longest keys, of the characters that JSON
// escapes.
func TestTheLargestRecordFits(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t, framework.WithMaxRequest(20_000), framework.WithDefaultData([]byte(strings.Repeat("\"\n", 300))))
	keep := 0
	for ; ; keep++ {
		if _, err := once.New(client, "/job", once.WithKeep(keep+1)); err != nil {
			break
		}
	}
	require.Greater(t, keep, 20)
	o := newOnce(client, "/job", once.WithKeep(keep))
	for i := range keep + 2 {
		require.NotContains(t, ran(t, o, fmt.Sprint(i, strings.Repeat(`"`, 253))).By, "\n")
	}
	require.Greater(t, len(testbed.ServerData(t, server, "/job/once")), 15_000, "the limit is not generous")
}
