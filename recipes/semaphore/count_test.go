package semaphore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testbed"
)

// TestACountThatHasChangedSinceItWasReadIsNotAdopted has one goroutine read a count, and another one the next.
func TestACountThatHasChangedSinceItWasReadIsNotAdopted(t *testing.T) {
	ctx := testbed.Context(t)
	s, err := NewShared(testbed.InProcess(t).Client(t), "/pool", "/max")
	require.NoError(t, err)
	require.NoError(t, s.count.value.Set(ctx, 3))
	n, _, watch, err := s.count.value.GetW(ctx)
	require.NoError(t, err)
	require.NoError(t, s.count.value.Set(ctx, 1))
	max, err := s.Max(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, max)
	testbed.Receive(t, watch.Done(), "the watch")
	require.False(t, s.count.adopt(int(n), watch))
	require.Equal(t, 1, s.leases.MaxLeases())
}
