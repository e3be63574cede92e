package lock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// TestHolderBehindAServerThatStandsStillEndsFirst has a client acquire when its server resumes
// after a pause, and pauses the server again at once. The leader knows only the pings that the
// server has reported in between.
func TestHolderBehindAServerThatStandsStillEndsFirst(t *testing.T) {
	const tick = 2 * time.Second
	for _, timeout := range []time.Duration{4 * time.Second, 6 * time.Second, 10 * time.Second} {
		for _, pause := range []time.Duration{timeout * 10 / 32, timeout / 2} {
			for phase := time.Duration(0); phase < tick; phase += 100 * time.Millisecond {
				testbed.RunVirtual(t, fmt.Sprintf("timeout %v, paused for %v, phase %v", timeout, pause, phase), func(t *testing.T) {
					cluster := zktest.NewCluster(t, 3, zktest.WithInMemory(), zktest.WithSyncTimeout(20*time.Second))
					leader, followers := testbed.Leader(t, cluster)
					server := followers[0]
					s := stillServer{pause: server.Pause, resume: server.Resume}
					// Virtual time: the phase of the leader's ticks at the begin of the
					// session.
					time.Sleep(phase)
					a := waiterAt(t, timeout, server.Addr(), framework.WithDialer(cluster.DialContext))
					b := waiterAt(t, timeout, leader.Addr(), framework.WithDialer(cluster.DialContext))
					// directly after a ping
					before := s.holdBetweenPauses(t, a, b, timeout*2/3+50*time.Millisecond, pause)
					require.GreaterOrEqual(t, before, time.Duration(0), "two holders")
				})
			}
		}
	}
}

// TestHolderBehindAServerThatStandsStillEndsFirstOnServers is the same on real servers.
func TestHolderBehindAServerThatStandsStillEndsFirstOnServers(t *testing.T) {
	t.Parallel() // it waits most of the time

	e := ensemble.New(t)
	for run := range testlevel.Pick(2, 2, 20) {
		t.Run(fmt.Sprintf("run %d", run), func(t *testing.T) {
			require.NoError(t, e.WaitForQuorum(t.Context()))
			leader, err := e.Leader(t.Context())
			require.NoError(t, err)
			paused := (leader + 1) % 3
			s := stillServer{
				pause:  func() { require.NoError(t, e.PauseServer(paused)) },
				resume: func() { require.NoError(t, e.ResumeServer(paused)) },
			}
			a, b := waiterAt(t, 4*time.Second, e.Servers()[paused]), waiterAt(t, 4*time.Second, e.Servers()[leader])
			before := s.holdBetweenPauses(t, a, b, time.Duration(run*300)*time.Millisecond, 1500*time.Millisecond)
			t.Logf("it ended %v before the next one began", before)
			require.Positive(t, before, "two holders")
		})
	}
}

// waiterAt returns a queue at one server.
func waiterAt(t *testing.T, timeout time.Duration, server string, opts ...framework.Option) *lock.Queue {
	t.Helper()
	return newQueue(t, patientClient(t, timeout, []string{server}, opts...), "/lock")
}

// stillServer is a server that is paused.
type stillServer struct{ pause, resume func() }

// holdBetweenPauses returns how long before the hold of b the one of a ended, whose server is
// paused before and after a has acquired.
func (s stillServer) holdBetweenPauses(t *testing.T, a, b *lock.Queue, idle, pause time.Duration) time.Duration {
	t.Helper()
	ctx := testbed.Timeout(t, 20*time.Minute)
	acquireAndRelease(ctx, t, a)
	time.Sleep(idle) // virtual time, and real time on servers: the session has no dependent
	s.pause()
	time.Sleep(pause) // the same: the length of the pause varies
	s.resume()
	hold, err := a.Acquire(ctx)
	s.pause()
	defer s.resume()
	require.NoError(t, err)
	ended := make(chan time.Time, 1)
	defer context.AfterFunc(hold.Context(), func() { ended <- time.Now() })()
	next, err := b.Acquire(ctx)
	acquired := time.Now()
	require.NoError(t, err)
	require.Error(t, hold.Err(), "two holders")
	require.NoError(t, next.Release())
	return acquired.Sub(<-ended)
}
