package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/internal/testbed/ensemble"
	"github.com/gocurator/curator/recipes/lock"
)

// TestHolderBehindACutOffServerIsToldFirst is about a server that still answers its clients while its
// peers have given it up: a follower answers pings and reads for several ticks then, and the leader,
// which hears nothing of the session, ends it.
func TestHolderBehindACutOffServerIsToldFirst(t *testing.T) {
	t.Parallel() // it waits most of the time
	e := ensemble.Start(t)
	ctx := testbed.Context(t)
	leader, err := e.Leader(ctx)
	require.NoError(t, err)
	for name, cut := range map[string]int{"follower": (leader + 1) % e.Size(), "leader": leader} {
		t.Run(name, func(t *testing.T) {
			ctx := testbed.Context(t)
			queue := func(server int) *lock.Queue {
				return patientQueue(t, e.Servers()[server], "/"+name, 4*time.Second)
			}
			a, b := queue(cut), queue((leader+2)%e.Size())
			hold, err := a.Acquire(ctx)
			require.NoError(t, err)
			next := make(chan time.Time, 1)
			go func() {
				h, err := b.Acquire(ctx)
				acquired := time.Now()
				if assert.NoError(t, err) {
					assert.NoError(t, h.Release())
				}
				next <- acquired
			}()
			testbed.Eventually(t, func() bool {
				ps, err := b.Participants(ctx)
				return err == nil && len(ps) == 2
			}, "b waits")
			require.NoError(t, e.Partition(cut))
			began := time.Now()
			testbed.Receive(t, hold.Done(), "word of the loss")
			lost := time.Now()
			acquired := testbed.Receive(t, next, "the next holder")
			t.Logf("told after %v, the next one held after %v", lost.Sub(began), acquired.Sub(began))
			require.True(t, lost.Before(acquired), "two holders")
			require.NoError(t, e.Heal())
			require.NoError(t, e.WaitForQuorum(ctx))
		})
	}
}
