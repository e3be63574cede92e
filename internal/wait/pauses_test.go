package wait_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/wait"
)

func TestPausesDoubleUpToTheLast(t *testing.T) {
	for range 100 {
		p := wait.Pauses{First: 50 * time.Millisecond, Last: 300 * time.Millisecond}
		for range 2 {
			for _, full := range []time.Duration{50, 100, 200, 300, 300} {
				full *= time.Millisecond
				d := p.Next()
				require.LessOrEqual(t, d, full)
				require.GreaterOrEqual(t, d, full/2)
			}
			p.Reset()
		}
	}
}

func TestPausesAreNeverNegative(t *testing.T) {
	p := wait.Pauses{First: math.MaxInt64/2 + 1, Last: math.MaxInt64}
	for range 10 {
		require.Positive(t, p.Next())
	}
	short := wait.Pauses{First: time.Second, Last: time.Millisecond}
	require.LessOrEqual(t, short.Next(), time.Millisecond, "a First above Last")
}
