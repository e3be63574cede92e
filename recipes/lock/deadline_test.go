package lock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/internal/testbed/ensemble"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
)

// patientQueue is a queue of a new client that knows one server only, and holds on to its session
// as long as it may.
func patientQueue(t *testing.T, address, path string, timeout time.Duration) *lock.Queue {
	t.Helper()
	client, err := framework.New([]string{address},
		framework.WithSessionTimeout(timeout),
		framework.WithErrorPolicy(connstate.Session),
		framework.WithRetryPolicy(retry.Forever(100*time.Millisecond)))
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return newQueue(t, client, path)
}

// TestHolderThatHearsNothingIsToldFirst has the link of a holder freeze, in both directions and without
// a word, or the server behind it stand still. The holder's context must end before the next
// contender, which is connected elsewhere, can acquire.
func TestHolderThatHearsNothingIsToldFirst(t *testing.T) {
	t.Parallel() // it waits most of the time
	e := ensemble.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for _, fault := range []struct {
		name       string
		make, heal func(server int) error
	}{
		{"frozen link", e.Freeze, func(int) error { return e.Heal() }},
		{"server that stands still", e.PauseServer, e.ResumeServer},
	} {
		leader, err := e.Leader(ctx)
		require.NoError(t, err)
		silent, fine := e.Servers()[(leader+1)%e.Size()], e.Servers()[(leader+2)%e.Size()]
		silentServer := (leader + 1) % e.Size()
		// All meet the fault together: it is one server's.
		var pairs []pair
		for _, timeout := range []time.Duration{4 * time.Second, 6 * time.Second, 10 * time.Second} {
			name := fmt.Sprintf("%s, session of %v", fault.name, timeout)
			a, b := patientQueue(t, silent, "/"+name, timeout), patientQueue(t, fine, "/"+name, timeout)
			p := pair{name: name, told: make(chan time.Time, 1), next: make(chan time.Time, 1)}
			p.hold, err = a.Acquire(ctx)
			require.NoError(t, err)
			context.AfterFunc(p.hold.Context(), func() { p.told <- time.Now() })
			go func() { // ends with ctx at the latest
				defer close(p.next)
				h, err := b.Acquire(ctx)
				acquired := time.Now()
				if assert.NoError(t, err, name) {
					p.next <- acquired
					assert.NoError(t, h.Release(), name)
				}
			}()
			testbed.Eventually(t, func() bool {
				ps, err := b.Participants(ctx)
				return err == nil && len(ps) == 2
			}, name+": the next one waits")
			pairs = append(pairs, p)
		}
		began := time.Now()
		require.NoError(t, fault.make(silentServer))
		for _, p := range pairs {
			lost := testbed.Receive(t, p.told, p.name+": word of the loss")
			require.ErrorIs(t, p.hold.Err(), lock.ErrSessionLost, p.name)
			acquired := testbed.Receive(t, p.next, p.name+": the next holder")
			t.Logf("%s: told after %v, the next one held after %v", p.name, lost.Sub(began), acquired.Sub(began))
			require.True(t, lost.Before(acquired), "%s: two holders", p.name)
		}
		require.NoError(t, fault.heal(silentServer))
		require.NoError(t, e.WaitForQuorum(ctx))
	}
}

// pair is a holder and the one that waits for it.
type pair struct {
	name string
	hold *lock.Hold
	told chan time.Time // when the holder was
	next chan time.Time // when the other acquired; closed if it did not
}
