package leader_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/leader"
)

// TestALossIsReportedAlsoIfNobodyElseLed interrupts the connection of a leader for a moment. The
// term has ended, although its node still exists until the leader deletes it.
func TestALossIsReportedAlsoIfNobodyElseLed(t *testing.T) {
	virtualRun(t, "by Release", func(t *testing.T, w world) {
		term := campaign(t, w.election())
		w.server.CutConnections()
		testbed.Receive(t, term.Done(), "the end of the term")
		require.ErrorIs(t, term.Release(), framework.ErrSuspended)
		require.Empty(t, w.nodes())
	})
	virtualRun(t, "by Lead", func(t *testing.T, w world) {
		require.ErrorIs(t, w.election().Lead(t.Context(), func(ctx context.Context, _ *leader.Term) error {
			w.server.CutConnections()
			<-ctx.Done()
			return nil
		}), framework.ErrSuspended)
		require.Empty(t, w.nodes())
	})
}
