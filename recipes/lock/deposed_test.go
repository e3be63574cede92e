package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// TestHolderBehindAReplacedLeaderEndsFirst has the holder's connection break while its server is a
// leader that its followers have replaced, and that has not noticed yet. That leader grants the
// session again, and answers pings and syncs. The next leader gives the session its whole timeout
// from when it began.
func TestHolderBehindAReplacedLeaderEndsFirst(t *testing.T) {
	for _, timeout := range []time.Duration{4 * time.Second, 6 * time.Second, 10 * time.Second, 30 * time.Second} {
		for seed := range uint64(testlevel.Pick(3, 3, 12)) {
			for _, phase := range []time.Duration{1700, 1800, 1900} { // ms of a tick
				for _, offset := range []time.Duration{500, 700, 900} { // ms after its replacement
					testbed.RunVirtual(t, fmt.Sprintf("timeout %v, seed %d, phase %d, offset %d", timeout, seed, phase, offset), func(t *testing.T) {
						ended, next := replaceLeader(t, timeout, seed, phase*time.Millisecond, offset*time.Millisecond)
						require.LessOrEqual(t, ended, next, "two holders")
					})
				}
			}
		}
	}
}

// replaceLeader returns when the hold ended and when the next one began, both since the leader was
// cut off.
func replaceLeader(t *testing.T, timeout time.Duration, seed uint64, phase, offset time.Duration) (ended, next time.Duration) {
	const tick = 2 * time.Second
	start := time.Now()
	cluster := zktest.NewCluster(t, 3, zktest.WithInMemory(), zktest.WithSeed(seed))
	ctx := testbed.Timeout(t, 5*time.Minute)
	leader, followers := testbed.Leader(t, cluster)
	queue := func(servers ...string) *lock.Queue {
		return newQueue(t, patientClient(t, timeout, servers, framework.WithDialer(cluster.DialContext)), "/lock")
	}
	a, b := queue(leader.Addr()), queue(followers[0].Addr(), followers[1].Addr())
	hold := acquireIn(t, ctx, a)
	acquired := testbed.Go(func() time.Time { return untilAcquired(ctx, b) })
	// Virtual time: the phase of the leader's ticks varies.
	time.Sleep(2*tick - time.Since(start)%tick + phase)
	began := time.Now()
	require.NoError(t, cluster.Partition(leader))
	time.Sleep(2*tick + offset) // virtual time: the followers give it up after two ticks
	leader.CutConnections()
	<-hold.Done()
	ended = time.Since(began)
	return ended, (<-acquired).Sub(began)
}

// untilAcquired repeats an acquire until it succeeds, and returns when that was. It returns the zero
// time if ctx ends before.
func untilAcquired(ctx context.Context, q *lock.Queue) (acquired time.Time) {
	for ctx.Err() == nil {
		if hold, err := q.Acquire(ctx); err == nil {
			acquired = time.Now()
			_ = hold.Release()
			break
		}
	}
	return acquired
}

// TestHolderBehindAReplacedLeaderEndsFirstOnServers is the same on real servers, where the phase of
// the ticks is random.
func TestHolderBehindAReplacedLeaderEndsFirstOnServers(t *testing.T) {
	t.Parallel() // it waits most of the time

	// followers give the leader up after 4 s
	e := ensemble.New(t, ensemble.WithEnv("ZOO_SYNC_LIMIT", "2"))
	for run := range testlevel.Pick(2, 2, 20) {
		timeout := []time.Duration{4 * time.Second, 10 * time.Second}[run%2]
		t.Run(fmt.Sprintf("timeout %v, run %d", timeout, run), func(t *testing.T) {
			before := replaceRealLeader(t, e, timeout, fmt.Sprintf("/replaced-%d", run))
			t.Logf("it ended %v before the next one began", before)
			require.Positive(t, before, "two holders")
		})
	}
}

// replaceRealLeader returns how long before the next hold the hold behind the old leader ended.
func replaceRealLeader(t *testing.T, e *ensemble.Ensemble, timeout time.Duration, path string) time.Duration {
	ctx := testbed.Timeout(t, 20*time.Minute)
	require.NoError(t, e.WaitForQuorum(ctx))
	leader, err := e.Leader(ctx)
	require.NoError(t, err)
	servers := e.Servers()
	others := patientClient(t, timeout, []string{servers[(leader+1)%3], servers[(leader+2)%3]})
	hold := acquireIn(t, ctx, newQueue(t, patientClient(t, timeout, servers[leader:leader+1]), path))
	ended := make(chan time.Time, 1)
	defer context.AfterFunc(hold.Context(), func() { ended <- time.Now() })()
	queue := newQueue(t, others, path)
	acquired := testbed.Go(func() time.Time { return untilAcquired(ctx, queue) })
	require.NoError(t, e.Partition(leader))
	defer func() { require.NoError(t, e.Heal()) }()
	// Only the next leader commits this write.
	require.NoError(t, testbed.Err(others.Create(ctx, path+"-elected", nil)))
	// The old leader notices within a tick; the client reconnects at a random time before.
	time.Sleep(rand.N(time.Second))
	require.NoError(t, e.CutConnections(leader))
	next := <-acquired // an election takes its time on a busy machine
	require.False(t, next.IsZero(), "no client acquired")
	return next.Sub(testbed.Receive(t, ended, "the end of the hold"))
}
