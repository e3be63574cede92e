package lock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// TestNodeOfALostSessionStaysUntilRelease has a client give up its session and open another one
// before the servers expire the first. The holder's work may still run: its node stays until
// Release deletes it.
func TestNodeOfALostSessionStaysUntilRelease(t *testing.T) {
	for name, opts := range map[string][]lock.Option{
		"alone":     nil,
		"retention": {lock.WithRetention(time.Minute)},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			client := w.Client(framework.WithErrorPolicy(connstate.LostEndsHold))
			q := newQueue(t, client, "/lock", append(opts, lock.WithReentry())...)
			hold, other := acquire(t, q), acquire(t, newQueue(t, client, "/other"))
			group := lock.NewGroup([]*lock.Hold{other, hold})
			again := acquireIn(t, hold.Context(), q) // the lease has two holds
			loseSession(t, w.Server, client, hold)
			require.ErrorIs(t, group.Err(), framework.ErrSessionLost)
			length(t, w.Server, q, 1)
			require.ErrorIs(t, again.Release(), framework.ErrSessionLost)
			settle()
			length(t, w.Server, q, 1)

			require.ErrorIs(t, group.Release(), framework.ErrSessionLost)
			settle()
			length(t, w.Server, q, 0)
			require.Empty(t, testbed.ServerChildren(t, w.Server, "/other"))
			require.True(t, lives(w.Server, hold), "the servers have not ended the session yet")
			require.ErrorIs(t, hold.Release(), framework.ErrSessionLost)
		})
	}
}

// loseSession has a client give up the session of a hold and open another one, while the server
// keeps the first.
func loseSession(t *testing.T, server *zktest.Server, client *framework.Client, hold *lock.Hold) {
	t.Helper()
	server.Freeze(hold.Session().ID())
	testbed.Receive(t, hold.Done(), "word of the loss")
	require.ErrorIs(t, hold.Err(), framework.ErrSessionLost)
	require.NotEqual(t, hold.Session().ID(), testbed.Session(t, client).ID())
	settle()
	require.True(t, lives(server, hold), "the servers have not ended the session yet")
}

// settle waits, in virtual time, until all requests in flight have ended.
func settle() {
	time.Sleep(10 * time.Millisecond) // virtual time
	synctest.Wait()
}

// lives reports whether the session of a hold is known to the server.
func lives(server *zktest.Server, hold *lock.Hold) bool {
	return slices.ContainsFunc(server.Sessions(), func(s zktest.Session) bool { return s.ID == hold.Session().ID() })
}

// TestHolderThatHearsNothingIsNotifiedFirst has the link of a holder freeze, in both directions and
// without a word, or the server behind it stand still. The holder's context must end before the
// next contender, which is connected elsewhere, can acquire.
func TestHolderThatHearsNothingIsNotifiedFirst(t *testing.T) {
	t.Parallel() // it waits most of the time
	e := ensemble.New(t)
	ctx := testbed.Timeout(t, 20*time.Minute)
	for _, fault := range []struct {
		name       string
		make, heal func(server int) error
	}{
		{"frozen link", e.Freeze, func(int) error { return e.Heal() }},
		{"server that stands still", e.PauseServer, e.ResumeServer},
	} {
		leader, err := e.Leader(ctx)
		require.NoError(t, err)
		silent, fine := (leader+1)%e.Size(), (leader+2)%e.Size()
		// All meet the fault together: it is one server's.
		var pairs []pair
		for _, timeout := range []time.Duration{4 * time.Second, 6 * time.Second, 10 * time.Second} {
			name := fmt.Sprintf("%s, session of %v", fault.name, timeout)
			hold, next := pairAt(t, ctx, e, silent, fine, name, timeout)
			p := pair{name, hold, make(chan time.Time, 1), next}
			context.AfterFunc(hold.Context(), func() { p.lost <- time.Now() })
			pairs = append(pairs, p)
		}
		began := time.Now()
		require.NoError(t, fault.make(silent))
		for _, p := range pairs {
			lost := testbed.Receive(t, p.lost, p.name+": word of the loss")
			require.ErrorIs(t, p.hold.Err(), framework.ErrSessionLost, p.name)
			acquired := testbed.Receive(t, p.next, p.name+": the next holder")
			t.Logf("%s: lost after %v, the next one held after %v", p.name, lost.Sub(began), acquired.Sub(began))
			require.True(t, lost.Before(acquired), "%s: two holders", p.name)
		}
		require.NoError(t, fault.heal(silent))
		quorum(t, e)
	}
}

// quorum waits until a majority of real servers serves, which can take long on a busy machine.
func quorum(t *testing.T, e *ensemble.Ensemble) {
	t.Helper()
	require.NoError(t, e.WaitForQuorum(testbed.Timeout(t, 20*time.Minute)))
}

// pair is a holder and the one that waits for it.
type pair struct {
	name string
	hold *lock.Hold
	lost chan time.Time   // when the context of the hold ended
	next <-chan time.Time // when the other acquired
}

// pairAt has a client of one server hold, and a client of another one wait.
func pairAt(
	t *testing.T, ctx context.Context, e *ensemble.Ensemble, holder, waiter int, name string, timeout time.Duration,
) (*lock.Hold, <-chan time.Time) {
	t.Helper()
	a := newQueue(t, patientClient(t, timeout, e.Servers()[holder:holder+1]), "/"+name)
	b := newQueue(t, patientClient(t, timeout, e.Servers()[waiter:waiter+1]), "/"+name)
	hold := acquireIn(t, ctx, a)
	next := acquiredAt(t, ctx, b)
	testbed.Eventually(t, func() bool {
		ps, err := b.Participants(ctx)
		return err == nil && len(ps) == 2
	}, name+": the next one waits")
	return hold, next
}

// TestHolderBehindACutOffServerIsNotifiedFirst is about a server that still answers its clients
// while its peers have given it up: a follower answers pings and reads for several ticks then, and
// the leader, which hears nothing of the session, ends it.
func TestHolderBehindACutOffServerIsNotifiedFirst(t *testing.T) {
	t.Parallel() // it waits most of the time
	e := ensemble.New(t)
	leader, err := e.Leader(testbed.Context(t))
	require.NoError(t, err)
	for name, cut := range map[string]int{"follower": (leader + 1) % e.Size(), "leader": leader} {
		t.Run(name, func(t *testing.T) {
			hold, next := pairAt(t, testbed.Context(t), e, cut, (leader+2)%e.Size(), name, 4*time.Second)
			require.NoError(t, e.Partition(cut))
			began := time.Now()
			testbed.Receive(t, hold.Done(), "word of the loss")
			lost := time.Now()
			acquired := testbed.Receive(t, next, "the next holder")
			t.Logf("lost after %v, the next one held after %v", lost.Sub(began), acquired.Sub(began))
			require.True(t, lost.Before(acquired), "two holders")
			require.NoError(t, e.Heal())
			quorum(t, e)
		})
	}
}
