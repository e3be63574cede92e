package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/retry"
)

func Example() {
	outage := 2 // requests that get no answer
	set := func() error {
		if outage > 0 {
			outage--
			return zk.ErrConnectionClosed
		}
		return nil
	}
	err := retry.Do(context.Background(), retry.NTimes(3, 10*time.Millisecond), set)
	fmt.Println("done:", err)
	// Output:
	// done: <nil>
}

func ExampleUnknown() {
	answers := []error{zk.ErrConnectionClosed, zk.ErrNodeExists}
	create := func() error {
		err := answers[0]
		answers = answers[1:]
		return err
	}
	err := retry.Do(context.Background(), retry.NTimes(1, time.Millisecond), create)
	fmt.Println(err)
	fmt.Println("perhaps it was us who made it:", retry.Unknown(err))
	// Output:
	// zk: node already exists
	// perhaps it was us who made it: true
}

// script fails with one error per call, and then succeeds.
type script struct {
	errs  []error
	calls int
}

func (s *script) call() error {
	s.calls++
	if s.calls > len(s.errs) {
		return nil
	}
	return s.errs[s.calls-1]
}

// failing fails with err on every call.
func failing(err error) *script {
	s := &script{}
	for range 1000 {
		s.errs = append(s.errs, err)
	}
	return s
}

// CUR-RTY-02
func TestSuccessNeedsOneCall(t *testing.T) {
	op := &script{}
	require.NoError(t, retry.Do(t.Context(), retry.Forever(time.Hour), op.call))
	require.Equal(t, 1, op.calls)
}

// CUR-RTY-01, CUR-RTY-07
func TestDoPausesBetweenCallsAsThePolicySays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		op := &script{errs: []error{zk.ErrConnectionClosed, zk.ErrNoServer}}
		var at []time.Duration
		err := retry.Do(t.Context(), retry.NTimes(2, time.Second), func() error {
			at = append(at, time.Since(start))
			return op.call()
		})
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, at)
	})
}

// KZ-RTY-02: Curator counts repetitions, not calls.
func TestExhaustedRetriesNameTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op := failing(zk.ErrNoServer)
		err := retry.Do(t.Context(), retry.NTimes(5, time.Second), op.call)
		require.Equal(t, 6, op.calls)
		require.ErrorIs(t, err, retry.ErrExhausted)
		require.ErrorIs(t, err, zk.ErrNoServer)
		require.EqualError(t, err, "retries exhausted after 6 calls: zk: could not connect to a server")
		require.True(t, retry.Retryable(err), "it may be tried again, later")

		err = retry.Do(t.Context(), retry.NTimes(1, time.Second), failing(zk.ErrNoServer).call)
		require.EqualError(t, err, "retries exhausted after 2 calls: zk: could not connect to a server")
	})
}

func TestWithoutRepetitionsTheErrorIsTheOperationsOwn(t *testing.T) {
	for name, p := range map[string]retry.Policy{
		"nil": nil, "Never": retry.Never(), "no retries": retry.NTimes(0, time.Second),
	} {
		op := failing(zk.ErrConnectionClosed)
		err := retry.Do(t.Context(), p, op.call)
		require.Equal(t, zk.ErrConnectionClosed, err, name)
		require.Equal(t, 1, op.calls, name)
	}
}

func TestAnswersAreNotRetried(t *testing.T) {
	op := failing(zk.ErrNoNode)
	require.Equal(t, zk.ErrNoNode, retry.Do(t.Context(), retry.Forever(time.Hour), op.call))
	require.Equal(t, 1, op.calls)
}

func TestAnyNegativePauseStops(t *testing.T) {
	op := failing(zk.ErrNoServer)
	p := retry.Policy(func() backoff.BackOff { return backoff.NewConstantBackOff(-time.Hour) })
	require.Equal(t, zk.ErrNoServer, retry.Do(t.Context(), p, op.call))
}

func TestUntilElapsedCallsNoLaterThanItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		op := failing(zk.ErrNoServer)
		err := retry.Do(t.Context(), retry.UntilElapsed(10*time.Second, 4*time.Second), op.call)
		require.ErrorIs(t, err, retry.ErrExhausted)
		require.Equal(t, 4, op.calls) // at 0, 4, 8 and 10 seconds
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}

func TestContextEndsAPauseAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		op := failing(zk.ErrConnectionClosed)
		err := retry.Do(ctx, retry.Forever(time.Hour), op.call)
		require.Equal(t, time.Second, time.Since(start))
		require.Equal(t, 1, op.calls)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrConnectionClosed)
		require.EqualError(t, err, "context deadline exceeded: zk: connection closed")
		require.False(t, retry.Retryable(err))
		require.True(t, retry.Unknown(err))
	})
}

func TestContextErrorNamesItsCause(t *testing.T) {
	closed := errors.New("client closed")
	for name, cancelWhen := range map[string]struct {
		before, during, pausing bool
	}{
		"before the first call": {before: true}, "during a call": {during: true}, "in a pause": {pausing: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if cancelWhen.before {
					cancel(closed)
				}
				if cancelWhen.pausing {
					time.AfterFunc(time.Second, func() { cancel(closed) })
				}
				calls := 0
				err := retry.Do(ctx, retry.Forever(time.Minute), func() error {
					calls++
					if cancelWhen.during {
						cancel(closed)
					}
					return zk.ErrConnectionClosed
				})
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, closed)
				require.Equal(t, !cancelWhen.before, errors.Is(err, zk.ErrConnectionClosed))
				require.Equal(t, !cancelWhen.before, calls == 1, "a done context calls nothing")
			})
		})
	}
}

func TestAnAnswerWinsOverADoneContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := retry.Do(ctx, retry.Forever(time.Hour), func() error {
		cancel()
		return zk.ErrNodeExists
	})
	require.Equal(t, zk.ErrNodeExists, err)
	require.NoError(t, retry.Do(t.Context(), nil, func() error { return nil }))
}

// CURATOR-559
func TestNestedRetriesDoNotMultiply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op := failing(zk.ErrConnectionClosed)
		p := retry.NTimes(3, time.Second)
		err := retry.Do(t.Context(), p, func() error {
			err := retry.Do(t.Context(), p, func() error {
				return retry.Do(t.Context(), p, op.call)
			})
			return fmt.Errorf("acquire /lock: %w", err)
		})
		require.Equal(t, 4, op.calls)
		require.EqualError(t, err, "acquire /lock: retries exhausted after 4 calls: zk: connection closed")
	})
}

func TestALoopOverNeverGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op := &script{errs: []error{zk.ErrNoServer, zk.ErrNoServer}}
		err := retry.Do(t.Context(), retry.Forever(time.Second), func() error {
			return retry.Do(t.Context(), retry.Never(), op.call)
		})
		require.NoError(t, err)
		require.Equal(t, 3, op.calls)
	})
}

func TestAnUnknownOutcomeStaysUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			name    string
			errs    []error
			unknown bool
		}{
			{"lost, then it exists", []error{zk.ErrConnectionClosed, zk.ErrNodeExists}, true},
			{"lost, then the version differs", []error{zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrBadVersion}, true},
			{"lost, then never sent", []error{zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrNoServer}, true},
			{"never sent, then lost", []error{zk.ErrNoServer, zk.ErrNoServer, zk.ErrConnectionClosed}, true},
			{"never sent", []error{zk.ErrNoServer, zk.ErrNoServer, zk.ErrNoServer}, false},
			{"never sent, then it exists", []error{zk.ErrNoServer, zk.ErrNodeExists}, false},
		} {
			op := &script{errs: test.errs}
			err := retry.Do(t.Context(), retry.NTimes(2, time.Second), op.call)
			last := test.errs[len(test.errs)-1]
			require.ErrorIs(t, err, last, test.name)
			require.Equal(t, test.unknown, retry.Unknown(err), test.name)
			require.Contains(t, err.Error(), last.Error(), test.name)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		op := &script{errs: []error{zk.ErrConnectionClosed, zk.ErrNoServer}}
		err := retry.Do(ctx, retry.Forever(time.Minute), op.call)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, retry.Unknown(err), "lost, then cancelled")

		ctx, cancel2 := context.WithCancel(t.Context())
		op = &script{errs: []error{zk.ErrConnectionClosed, zk.ErrNoServer}}
		err = retry.Do(ctx, retry.Forever(time.Minute), func() error {
			if op.calls == 1 {
				cancel2()
			}
			return op.call()
		})
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, retry.Unknown(err), "lost, then cancelled during a call")
	})
}

func TestMissingArgumentsAreErrors(t *testing.T) {
	require.Error(t, retry.Do(t.Context(), retry.Never(), nil))
	var none context.Context
	require.Error(t, retry.Do(none, retry.Never(), func() error { return nil }))
}

// The calls and the time that Do takes follow from the policy and the failures alone.
func TestDoFollowsItsModel(t *testing.T) {
	failures := []error{zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrSessionMoved, zk.ErrNoNode, context.Canceled}
	rapid.Check(t, func(rt *rapid.T) {
		errs := rapid.SliceOfN(rapid.SampledFrom(failures), 0, 8).Draw(rt, "failures")
		retries := rapid.IntRange(0, 8).Draw(rt, "retries")

		want, unknown := 0, false
		var last error
		for {
			want, last = want+1, nil
			if want <= len(errs) {
				last = errs[want-1]
			}
			unknown = unknown || last == zk.ErrConnectionClosed
			if last == nil || last == zk.ErrNoNode || last == context.Canceled || want > retries {
				break
			}
		}

		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			op := &script{errs: errs}
			err := retry.Do(t.Context(), retry.NTimes(retries, time.Second), op.call)
			require.Equal(rt, want, op.calls)
			require.Equal(rt, time.Duration(want-1)*time.Second, time.Since(start))
			if last == nil {
				require.NoError(rt, err)
				return
			}
			require.ErrorIs(rt, err, last)
			require.Equal(rt, unknown, retry.Unknown(err))
		})
	})
}
