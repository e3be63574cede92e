package lock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// TestDo_HowItsContextEnds is the table of Hold.Do: the first cause counts.
func TestDo_HowItsContextEnds(t *testing.T) {
	late, stopped := errors.New("late"), errors.New("stopped")
	for name, c := range map[string]struct {
		first      func(cancel context.CancelCauseFunc, w *testbed.World, h *lock.Hold)
		err, cause error
	}{
		"the caller's deadline": {func(context.CancelCauseFunc, *testbed.World, *lock.Hold) { time.Sleep(time.Minute) },
			context.DeadlineExceeded, late},
		"the caller cancels": {func(cancel context.CancelCauseFunc, _ *testbed.World, _ *lock.Hold) { cancel(stopped) },
			context.Canceled, stopped},
		"a loss": {func(_ context.CancelCauseFunc, w *testbed.World, _ *lock.Hold) { w.Server.CutConnections() },
			context.Canceled, framework.ErrSuspended},
		"a release": {func(_ context.CancelCauseFunc, _ *testbed.World, h *lock.Hold) { assert.NoError(t, h.Release()) },
			context.Canceled, lock.ErrReleased},
		"the return of f": {nil, context.Canceled, lock.ErrReleased},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			q := newQueue(t, w.Client(), "/lock")
			for _, group := range []bool{false, true} {
				h := acquire(t, q)
				ctx, cancel := context.WithCancelCause(t.Context())
				ctx, stop := context.WithTimeoutCause(ctx, time.Minute, late)
				var in context.Context
				work := func(ctx context.Context) error {
					in = ctx
					if c.first != nil {
						c.first(cancel, w, h)
						testbed.Receive(t, ctx.Done(), "the end of the context")
					}
					return nil
				}
				if group {
					_ = lock.NewGroup([]*lock.Hold{h}).Do(ctx, work)
				} else {
					_ = h.Do(ctx, work)
				}
				cancel(errors.New("too late"))
				synctest.Wait()
				require.Equal(t, c.err, in.Err())
				require.Equal(t, c.cause, context.Cause(in))
				require.Error(t, h.Err(), "released")
				stop()
			}
		})
	}
}

type valueKey string

// with returns ctx with the value of a key, and its own name as the value of another.
func with(ctx context.Context, name string, keys ...valueKey) context.Context {
	for _, k := range keys {
		ctx = context.WithValue(ctx, k, name)
	}
	return ctx
}

// TestDo_Values: the caller's values hide Acquire's, and an observer's hide both if Do acquires.
func TestDo_Values(t *testing.T) {
	for _, observed := range []bool{false, true} {
		t.Run(fmt.Sprint("observed: ", observed), func(t *testing.T) {
			var opts []framework.Option
			if observed {
				opts = append(opts, lock.WithObserver(lock.Observer{
					Acquired: func(ctx context.Context, _ lock.AcquiredEvent) context.Context { return with(ctx, "observer", "span") },
				}))
			}
			client := testbed.InProcess(t).Client(t, opts...)
			q, outer := newQueue(t, client, "/lock"), newQueue(t, client, "/outer")
			acquired := with(testbed.Context(t), "acquire", "span", "acquire")
			called, cancel := context.WithTimeout(with(testbed.Context(t), "do", "span", "do"), time.Hour)
			defer cancel()
			check := func(want map[valueKey]any) func(ctx context.Context) error {
				return func(ctx context.Context) error {
					for key, value := range want {
						assert.Equal(t, value, ctx.Value(key), "the value of %s", key)
					}
					return nil
				}
			}
			merged := map[valueKey]any{"acquire": "acquire", "do": "do", "span": "do"}
			h := acquireIn(t, acquired, q)
			require.NoError(t, h.Do(called, check(merged)))
			h = acquireIn(t, acquired, q)
			require.NoError(t, lock.NewGroup([]*lock.Hold{h}).Do(called, check(merged)))

			span := "do"
			if observed {
				span = "observer"
			}
			require.NoError(t, q.Do(called, func(ctx context.Context) error {
				deadline, _ := ctx.Deadline()
				want, _ := called.Deadline()
				assert.Equal(t, want, deadline)
				return check(map[valueKey]any{"do": "do", "span": span, "missing": nil})(ctx)
			}))
			require.NoError(t, outer.Do(called, func(ctx context.Context) error {
				return q.Do(ctx, check(map[valueKey]any{"do": "do", "span": span}))
			}), "a Do inside a Do")
		})
	}
}

// TestDo_NestedLookups: the time to look up a value is linear in the depth, not exponential.
func TestDo_NestedLookups(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	base := &foreignContext{Context: testbed.Context(t)}
	var nest func(ctx context.Context, depth int) error
	nest = func(ctx context.Context, depth int) error {
		if depth == 8 {
			base.reset()
			ctx.Value(valueKey("missing"))
			assert.LessOrEqual(t, base.reset(), 1)
			return nil
		}
		return newQueue(t, client, fmt.Sprint("/lock", depth)).Do(ctx, func(ctx context.Context) error { return nest(ctx, depth+1) })
	}
	require.NoError(t, nest(base, 0))
}

// foreignContext is a context of a type of the user that counts the calls of Value.
type foreignContext struct {
	context.Context
	mu    sync.Mutex
	calls int
}

func (f *foreignContext) Value(key any) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	return f.Context.Value(key)
}

func (f *foreignContext) reset() (calls int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls, f.calls = f.calls, 0
	return calls
}

// TestDo_NoUserCodeUnderAMutex releases while a method of the caller's context blocks: the release
// cancels the context inside Do, and calls no method of the caller's.
func TestDo_NoUserCodeUnderAMutex(t *testing.T) {
	q := newQueue(t, testbed.InProcess(t).Client(t), "/lock")
	ctx := &foreignContext{Context: testbed.Context(t)}
	h := acquire(t, q)
	require.ErrorIs(t, h.Do(ctx, func(in context.Context) error {
		ctx.mu.Lock()
		defer ctx.mu.Unlock()
		released := testbed.Go(h.Release)
		testbed.Receive(t, in.Done(), "the end of the context")
		require.NoError(t, testbed.Receive(t, released, "the release"))
		return nil
	}), lock.ErrReleased, "the second release")
}

// uncomparable is a context whose comparison panics.
type uncomparable struct {
	context.Context
	_ []int
}

// TestDo_ContextThatCannotBeCompared.
func TestDo_ContextThatCannotBeCompared(t *testing.T) {
	q := newQueue(t, testbed.InProcess(t).Client(t), "/lock")
	ctx, cancel := context.WithCancel(with(testbed.Context(t), "do", "do"))
	require.ErrorIs(t, q.Do(uncomparable{Context: ctx}, func(in context.Context) error {
		assert.Equal(t, "do", in.Value(valueKey("do")))
		cancel()
		testbed.Receive(t, in.Done(), "the end of the context")
		return in.Err()
	}), context.Canceled)
}

// TestDo_EndsBeforeAReleaseIsSent: the observer is called after the hold's context has ended, and
// before the delete is sent. No goroutine is needed to cancel the context inside Do.
func TestDo_EndsBeforeAReleaseIsSent(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // other goroutines do not run by chance
	var in context.Context
	live := make(chan bool, 1)
	client := testbed.InProcess(t).Client(t, lock.WithObserver(lock.Observer{Ended: func(context.Context, lock.EndedEvent) {
		select {
		case live <- in.Err() == nil:
		default: // the other hold
		}
	}}))
	one, two := newQueue(t, client, "/a"), newQueue(t, client, "/b")
	h := acquire(t, one)
	_ = h.Do(testbed.Context(t), func(ctx context.Context) error {
		in = ctx
		assert.NoError(t, h.Release())
		assert.False(t, <-live, "the context inside Do outlives the hold")
		return nil
	})
	h = acquire(t, one)
	_ = lock.NewGroup([]*lock.Hold{h, acquire(t, two)}).Do(testbed.Context(t), func(ctx context.Context) error {
		in = ctx
		assert.NoError(t, h.Release())
		assert.False(t, <-live, "the context inside Do outlives one of the holds")
		return nil
	})
}

// TestDo_DoneBefore: f is called, and finds that its context is done.
func TestDo_DoneBefore(t *testing.T) {
	q := newQueue(t, testbed.InProcess(t).Client(t), "/lock")
	ctx, cancel := context.WithCancelCause(testbed.Context(t))
	cancel(assert.AnError)
	called := false
	require.ErrorIs(t, acquire(t, q).Do(ctx, func(ctx context.Context) error {
		called = true
		return context.Cause(ctx)
	}), assert.AnError)
	require.True(t, called)
}

// TestDo_NilFunction: nothing is sent.
func TestDo_NilFunction(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := newQueue(t, w.Client(), "/lock")
		require.NoError(t, acquire(t, q).Release())
		synctest.Wait()
		w.Server.ResetCounts()
		err := q.Do(testbed.Context(t), nil)
		require.ErrorIs(t, err, framework.ErrBadArgument)
		require.ErrorContains(t, err, "do /lock: ")
		require.Empty(t, w.Server.Requests().Requests)
	})
}

// TestDo_WithoutAContextReleases, as without a function.
func TestDo_WithoutAContextReleases(t *testing.T) {
	server := zktest.NewServer(t)
	q := newQueue(t, testbed.On(server).Client(t), "/lock")
	hold := acquire(t, q)
	var none context.Context
	err := hold.Do(none, func(context.Context) error { return nil })
	require.ErrorIs(t, err, framework.ErrBadArgument)
	require.ErrorIs(t, hold.Err(), lock.ErrReleased)
	length(t, server, q, 0)
}
