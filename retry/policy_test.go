package retry_test

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
)

// pauses asks a fresh BackOff of p until it stops, but at most limit times.
func pauses(p retry.Policy, limit int) []time.Duration {
	var all []time.Duration
	b := p()
	for range limit {
		pause := b.NextBackOff()
		if pause == backoff.Stop {
			break
		}
		all = append(all, pause)
	}
	return all
}

func TestFixedPolicies(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, test := range []struct {
		name   string
		policy retry.Policy
		want   []time.Duration // of the first five
	}{
		{"NTimes", retry.NTimes(3, s), []time.Duration{s, s, s}},
		{"NTimes, no retries", retry.NTimes(0, s), nil},
		{"NTimes, negative", retry.NTimes(math.MinInt, s), nil},
		{"NTimes, most", retry.NTimes(math.MaxInt, s), []time.Duration{s, s, s, s, s}},
		{"NTimes, no pause", retry.NTimes(1, 0), []time.Duration{ms}},
		{"NTimes, negative pause", retry.NTimes(1, math.MinInt64), []time.Duration{ms}},
		{"NTimes, longest pause", retry.NTimes(1, math.MaxInt64), []time.Duration{math.MaxInt64}},
		{"Forever", retry.Forever(s), []time.Duration{s, s, s, s, s}},
		{"Forever, no pause", retry.Forever(-1), []time.Duration{ms, ms, ms, ms, ms}},
		{"Never", retry.Never(), nil},
		// The first pause of an exponential policy leaves chance no room.
		{"ExponentialBackoff", retry.ExponentialBackoff(s, 1), []time.Duration{s}},
		{"ExponentialBackoff, negative", retry.ExponentialBackoff(s, -1), nil},
		{"ExponentialBackoff, longest", retry.ExponentialBackoff(math.MaxInt64, 2), []time.Duration{math.MaxInt64, math.MaxInt64}},
		{"Bounded below its base", retry.BoundedExponentialBackoff(s, 10*ms, 2), []time.Duration{10 * ms, 10 * ms}},
		{"Bounded, both negative", retry.BoundedExponentialBackoff(-s, -s, 2), []time.Duration{ms, ms}},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, pauses(test.policy, 5))
		})
	}
}

// TestPoliciesHaveNoHiddenTimeLimit: backoff v4's own exponential policy gives up after 15 minutes
// without a word.
func TestPoliciesHaveNoHiddenTimeLimit(t *testing.T) { // CUR-RTY-03
	synctest.Test(t, func(t *testing.T) {
		for _, p := range []retry.Policy{retry.Forever(time.Hour), retry.ExponentialBackoff(time.Minute, 100)} {
			b := p()
			for range 100 {
				pause := b.NextBackOff()
				require.Positive(t, pause)
				time.Sleep(pause) // virtual time
			}
		}
	})
}

// CUR-RTY-11, CURATOR-262
func TestExponentialPausesAreMultiplesInDoublingRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Hour)).Draw(t, "base"))
		bound := time.Duration(rapid.Int64Range(int64(base), math.MaxInt64).Draw(t, "bound"))
		retries := rapid.IntRange(0, 100).Draw(t, "retries")

		got := pauses(retry.BoundedExponentialBackoff(base, bound, retries), 200)

		require.Len(t, got, retries)
		for i, pause := range got {
			require.GreaterOrEqual(t, pause, base)
			require.LessOrEqual(t, pause, bound)
			require.Less(t, float64(pause), math.Ldexp(float64(base), i+1), "retry %d", i)
			require.True(t, pause%base == 0 || pause == bound, "%v is no multiple of %v", pause, base)
		}
	})
}

func TestExponentialPausesUseTheWholeRange(t *testing.T) {
	p := retry.ExponentialBackoff(time.Second, 3)
	seen := map[time.Duration]int{}
	for range 2000 {
		seen[pauses(p, 3)[2]]++
	}
	// The third draws from 0 to 7, and takes 0 for 1.
	require.Len(t, seen, 7)
	require.Greater(t, seen[1*time.Second], seen[4*time.Second])
}

// The bound replaces only the pauses above it.
func TestOnlyPausesPastTheBoundAreCut(t *testing.T) {
	p := retry.BoundedExponentialBackoff(2*time.Second, 5*time.Second, 2)
	seen := map[time.Duration]bool{}
	for range 500 {
		seen[pauses(p, 2)[1]] = true
	}
	require.Equal(t, map[time.Duration]bool{2 * time.Second: true, 4 * time.Second: true, 5 * time.Second: true}, seen)
}

func TestExponentialBackoffEndsGrowing(t *testing.T) {
	const most = math.MaxInt32 * time.Millisecond
	p := retry.ExponentialBackoff(time.Second, 80)
	reached := 0
	for _, pause := range pauses(p, 80) {
		require.LessOrEqual(t, pause, most)
		if pause == most {
			reached++
		}
	}
	require.Greater(t, reached, 20, "from retry 40 on, a shorter pause is one in hundreds")

	// A custom bound alone ends the growth. The last range is 2^62 wide, so a shorter pause than
	// the bound is one in hundreds of thousands.
	widest := pauses(retry.BoundedExponentialBackoff(time.Millisecond, math.MaxInt64, 100), 100)
	require.EqualValues(t, math.MaxInt64, widest[99])
}

// checkBounds fails unless each pause that any policy grants is positive and no
// longer than its arguments say.
func checkBounds(t require.TestingT, base, bound time.Duration, retries int) {
	const ms = time.Millisecond
	n := min(max(retries, 0), 100)
	for name, test := range map[string]struct {
		policy retry.Policy
		most   time.Duration
		count  int
	}{
		"ExponentialBackoff":        {retry.ExponentialBackoff(base, retries), max(base, math.MaxInt32*ms), n},
		"BoundedExponentialBackoff": {retry.BoundedExponentialBackoff(base, bound, retries), max(bound, ms), n},
		"NTimes":                    {retry.NTimes(retries, base), max(base, ms), n},
		"Forever":                   {retry.Forever(base), max(base, ms), 100},
	} {
		got := pauses(test.policy, 100)
		require.Len(t, got, test.count, name)
		for _, pause := range got {
			require.GreaterOrEqual(t, pause, ms, name)
			require.LessOrEqual(t, pause, test.most, name)
		}
	}
	// Its last pause may be anything that is left.
	for _, pause := range pauses(retry.UntilElapsed(bound, base), 10) {
		require.Positive(t, pause)
		require.LessOrEqual(t, pause, min(max(base, ms), bound))
	}
}

// CURATOR-262
func FuzzPausesArePositiveAndBounded(f *testing.F) {
	extremes := []int64{math.MinInt64, -1, 0, 1, int64(time.Second), math.MaxInt64/2 + 1, math.MaxInt64}
	for _, base := range extremes {
		for _, bound := range extremes {
			f.Add(base, bound, 40)
		}
		f.Add(int64(time.Second), int64(time.Hour), int(base))
	}
	f.Fuzz(func(t *testing.T, base, bound int64, retries int) {
		checkBounds(t, time.Duration(base), time.Duration(bound), retries)
	})
}

// CUR-RTY-12
func TestUntilElapsedStopsAtItsLimit(t *testing.T) {
	const s = time.Second
	for _, test := range []struct {
		name         string
		limit, pause time.Duration
		want         []time.Duration
	}{
		{"the last pause is cut short", 10 * s, 4 * s, []time.Duration{4 * s, 4 * s, 2 * s}},
		{"the pause divides the limit", 8 * s, 4 * s, []time.Duration{4 * s, 4 * s}},
		{"a pause longer than the limit", s, math.MaxInt64, []time.Duration{s}},
		{"no limit", 0, s, nil},
		{"a negative limit", -1, s, nil},
		{"the most negative limit", math.MinInt64, s, nil},
		{"no pause", 2 * time.Millisecond, 0, []time.Duration{time.Millisecond, time.Millisecond}},
	} {
		testbed.RunVirtual(t, test.name, func(t *testing.T) {
			p := retry.UntilElapsed(test.limit, test.pause)
			time.Sleep(time.Minute) // what passes before the operation is not counted
			var got []time.Duration
			b := p()
			for pause := b.NextBackOff(); pause != backoff.Stop; pause = b.NextBackOff() {
				got = append(got, pause)
				time.Sleep(pause)
			}
			require.Equal(t, test.want, got)
		})
	}
}

func TestUntilElapsedCountsTheTimeThatCallsTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retry.UntilElapsed(10*time.Second, time.Second)()
		time.Sleep(9 * time.Second)
		require.Equal(t, time.Second, b.NextBackOff())
		time.Sleep(time.Second)
		require.Equal(t, backoff.Stop, b.NextBackOff())

		// Called as the func that it is, a policy starts the clock, too.
		require.Equal(t, time.Second, retry.UntilElapsed(10*time.Second, time.Second)().NextBackOff())
	})
}

func TestResetBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retry.ExponentialBackoff(time.Second, 20)()
		for range 20 {
			b.NextBackOff()
		}
		require.Equal(t, backoff.Stop, b.NextBackOff())
		b.Reset()
		require.Equal(t, time.Second, b.NextBackOff(), "the first range again")

		b = retry.UntilElapsed(time.Second, time.Second)()
		time.Sleep(time.Hour)
		require.Equal(t, backoff.Stop, b.NextBackOff())
		b.Reset()
		require.Equal(t, time.Second, b.NextBackOff())
	})
}

// Under -race this finds state that operations share.
func TestPoliciesMayBeShared(t *testing.T) {
	for _, p := range []retry.Policy{
		retry.ExponentialBackoff(time.Second, 50),
		retry.BoundedExponentialBackoff(time.Second, time.Minute, 50),
		retry.NTimes(50, time.Second),
		retry.UntilElapsed(time.Hour, time.Second),
		retry.Forever(time.Second),
	} {
		var wg sync.WaitGroup
		counts := make([]int, 4)
		for i := range counts {
			wg.Go(func() { counts[i] = len(pauses(p, 50)) })
		}
		wg.Wait()
		require.Equal(t, []int{50, 50, 50, 50}, counts)
	}
}
