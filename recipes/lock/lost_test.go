package lock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
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
		t.Run(name, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
				client := w.Client(framework.WithErrorPolicy(connstate.LostEndsHold))
				q, err := lock.New(client, "/lock", "lock-", nil, append(opts, lock.WithReentry())...)
				require.NoError(t, err)
				hold, other := acquire(t, q), acquire(t, newQueue(t, client, "/other"))
				group := lock.NewGroup([]*lock.Hold{other, hold})
				again, err := q.Acquire(hold.Context()) // the lease has two holds
				require.NoError(t, err)
				loseSession(t, w.Server, client, hold)
				require.ErrorIs(t, group.Err(), framework.ErrSessionLost)
				length(t, w.Server, q, 1)
				require.ErrorIs(t, again.Release(), framework.ErrSessionLost)
				settle()
				length(t, w.Server, q, 1)

				require.ErrorIs(t, group.Release(), framework.ErrSessionLost)
				settle()
				length(t, w.Server, q, 0)
				names, err := w.Server.Children("/other")
				require.NoError(t, err)
				require.Empty(t, names)
				require.True(t, lives(w.Server, hold), "the servers have not ended the session yet")
				require.ErrorIs(t, hold.Release(), framework.ErrSessionLost)
			})
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
	session, err := client.Session(testbed.Context(t))
	require.NoError(t, err)
	require.NotEqual(t, hold.Session().ID(), session.ID())
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

// patientQueue is a queue of a new client that knows one server only, and holds on to its session
// as long as it may.
func patientQueue(t *testing.T, address, path string, timeout time.Duration) *lock.Queue {
	t.Helper()
	client, err := framework.New([]string{address},
		framework.WithSessionTimeout(timeout),
		framework.WithErrorPolicy(connstate.LostEndsHold),
		framework.WithRetryPolicy(retry.Forever(100*time.Millisecond)))
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return newQueue(t, client, path)
}

// TestHolderThatHearsNothingIsNotifiedFirst has the link of a holder freeze, in both directions and
// without a word, or the server behind it stand still. The holder's context must end before the
// next contender, which is connected elsewhere, can acquire.
func TestHolderThatHearsNothingIsNotifiedFirst(t *testing.T) {
	t.Parallel() // it waits most of the time
	e := ensemble.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
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
			p := pair{name: name, lost: make(chan time.Time, 1), next: make(chan time.Time, 1)}
			p.hold, err = a.Acquire(ctx)
			require.NoError(t, err)
			context.AfterFunc(p.hold.Context(), func() { p.lost <- time.Now() })
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
			lost := testbed.Receive(t, p.lost, p.name+": word of the loss")
			require.ErrorIs(t, p.hold.Err(), framework.ErrSessionLost, p.name)
			acquired := testbed.Receive(t, p.next, p.name+": the next holder")
			t.Logf("%s: lost after %v, the next one held after %v", p.name, lost.Sub(began), acquired.Sub(began))
			require.True(t, lost.Before(acquired), "%s: two holders", p.name)
		}
		require.NoError(t, fault.heal(silentServer))
		quorum(t, e)
	}
}

// quorum waits until a majority of real servers serves, which can take long on a busy machine.
func quorum(t *testing.T, e *ensemble.Ensemble) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	require.NoError(t, e.WaitForQuorum(ctx))
}

// pair is a holder and the one that waits for it.
type pair struct {
	name string
	hold *lock.Hold
	lost chan time.Time // when the context of the hold ended
	next chan time.Time // when the other acquired; closed if it did not
}

// TestHolderBehindACutOffServerIsNotifiedFirst is about a server that still answers its clients
// while its peers have given it up: a follower answers pings and reads for several ticks then, and
// the leader, which hears nothing of the session, ends it.
func TestHolderBehindACutOffServerIsNotifiedFirst(t *testing.T) {
	t.Parallel() // it waits most of the time
	e := ensemble.New(t)
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
			t.Logf("lost after %v, the next one held after %v", lost.Sub(began), acquired.Sub(began))
			require.True(t, lost.Before(acquired), "two holders")
			require.NoError(t, e.Heal())
			quorum(t, e)
		})
	}
}
