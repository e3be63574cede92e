package session

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTheTimeOfASuspendedMachineCounts has a machine be suspended for 3 s, of which Go's clock does
// not know.
func TestTheTimeOfASuspendedMachineCounts(t *testing.T) {
	var stood time.Duration
	Suspended = func() time.Duration { return stood }
	defer func() { Suspended = slept }()
	const timeout = 10 * time.Second
	whole := timeout - timeout/margin
	for _, strict := range []bool{false, true} {
		stood = 0
		began := time.Now()
		d := NewDeadline(timeout, began, 100)
		pending := time.Now() // a request is sent
		stood = 3 * time.Second
		require.Equal(t, began.Add(whole-3*time.Second), d.At(strict), "whatever Go's clock says")
		require.Equal(t, began.Add(whole-3*time.Second), d.At(strict), "once")
		d.Answered(pending, time.Now(), true)
		require.Equal(t, began.Add(whole-3*time.Second), d.At(strict), "what was sent before says nothing")
		again := time.Now()
		d.Attached(timeout, again)
		d.Answered(again, again, true)
		require.Equal(t, again.Add(whole), d.At(strict), "what is sent after counts")
		stood += tolerance
		require.Equal(t, again.Add(whole), d.At(strict), "the clocks are not read at one instant")
		stood += time.Second
		require.Equal(t, again.Add(whole-tolerance-time.Second), d.At(strict), "each call compares the clocks")
	}
	// An answer that is read before anybody has looked.
	stood = 0
	began := time.Now()
	d := NewDeadline(timeout, began, 100)
	pending := time.Now()
	stood = time.Hour
	d.Answered(pending, time.Now(), true)
	require.Equal(t, began.Add(whole-time.Hour), d.At(false))
}

func TestTheClocksOfThisMachineCanBeCompared(t *testing.T) {
	if runtime.GOOS != "linux" {
		require.Zero(t, slept())
		return
	}
	first := slept()
	require.GreaterOrEqual(t, first, -tolerance)
	for range 1000 {
		require.InDelta(t, int64(first), int64(slept()), float64(tolerance))
	}
}
