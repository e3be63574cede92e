package once

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
)

// TestAFastClientWaits has a process that believes that it is 20 minutes later. It finds that a
// firing is not due, and waits.
func TestAFastClientWaits(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		o := testbed.Must(New(w.Client(), "/job"))
		called := 0
		r := &runner{Once: o, next: Every(time.Hour), f: func(_ context.Context, firing time.Time) error {
			called++
			assert.False(t, firing.After(time.Now()), "early")
			return nil
		}}
		require.NoError(t, r.begin(testbed.Context(t)))
		time.Sleep(50 * time.Minute)
		r.clock.then = r.clock.then.Add(20 * time.Minute)
		require.False(t, testbed.Must(r.step(context.Background())))
		require.Zero(t, called)
		require.WithinDuration(t, time.Now(), r.clock.now(), time.Second, "it has learned the time")
		for called == 0 {
			require.NoError(t, testbed.Err(r.step(context.Background())))
		}
		require.Zero(t, time.Now().Minute())
	})
}

// TestLatest compares the firings that are found by halving and by counting.
func TestLatest(t *testing.T) {
	base := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	burst := func(t time.Time) time.Time { // each second of the first minute of a day
		n := t.Truncate(time.Second).Add(time.Second)
		if n.Hour() > 0 || n.Minute() > 0 {
			n = n.Truncate(24 * time.Hour).Add(24 * time.Hour)
		}
		return n
	}
	for _, next := range []func(time.Time) time.Time{Every(time.Hour), Every(7 * time.Second), burst} {
		for _, passed := range []time.Duration{0, time.Second, time.Minute, 59 * time.Minute, time.Hour, 25*time.Hour + time.Second, 1000 * time.Hour} {
			now := base.Add(passed)
			var want time.Time
			n := next(base)
			for ; !n.After(now); n = next(n) {
				want = n
			}
			calls := 0
			firing, upcoming, err := latest(func(t time.Time) time.Time { calls++; return next(t) }, base, now)
			require.NoError(t, err)
			require.True(t, want.Equal(firing), "%v: %v, want %v", passed, firing, want)
			require.True(t, n.Equal(upcoming), "%v: %v, want %v", passed, upcoming, n)
			require.Less(t, calls, 150)
		}
	}
}
