package semaphore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/shared"
)

// TestACountThatHasChangedSinceItWasReadIsNotAdopted has one goroutine read a count, and another
// one the next.
func TestACountThatHasChangedSinceItWasReadIsNotAdopted(t *testing.T) {
	ctx := testbed.Context(t)
	client := testbed.InProcess(t).Client(t)
	s := testbed.Must(NewShared(client, "/pool", "/max"))
	value := testbed.Must(shared.Int32(client, "/max"))
	require.NoError(t, value.Set(ctx, 3))
	n, _, watch, err := value.GetW(ctx)
	require.NoError(t, err)
	require.NoError(t, value.Set(ctx, 1))
	require.Equal(t, 1, testbed.Must(s.Max(ctx)))
	testbed.Receive(t, watch.Done(), "the watch")
	require.False(t, s.count.adopt(int(n), false, watch))
	require.Equal(t, 1, inside.MaxLeases(s.leases))
}
