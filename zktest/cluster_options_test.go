package zktest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// elections lists how long each of ten elections takes.
func elections(t *testing.T, opts ...zktest.Option) (took []time.Duration) {
	virtual(t, 3, func(t *testing.T, c *zktest.Cluster) {
		for range 10 {
			lost := testbed.Must(c.StopLeader())
			began := time.Now()
			elected(t, c)
			took = append(took, time.Since(began))
			require.NoError(t, lost.Restart())
			time.Sleep(10 * time.Second)
		}
	}, opts...)
	return took
}

func TestRandomChoicesComeFromTheSeed(t *testing.T) {
	one := elections(t, zktest.WithSeed(7))
	require.Equal(t, one, elections(t, zktest.WithSeed(7)))
	require.NotEqual(t, one, elections(t, zktest.WithSeed(8)))
	require.Equal(t, elections(t), elections(t), "the default is always the same")
}

func TestElectionTakesTheTimeThatIsSet(t *testing.T) {
	for _, took := range elections(t, zktest.WithElectionTime(8*time.Second)) {
		require.GreaterOrEqual(t, took, 4*time.Second)
		require.LessOrEqual(t, took, 8*time.Second)
	}
}

func TestSilentLeaderIsGivenUpAfterTheSyncTimeout(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *zktest.Cluster) {
		f := raw(t, follower(t, c), nil)
		began := time.Now()
		leader(t, c).Pause()
		over(t, f)
		require.Equal(t, 7*time.Second, time.Since(began))
	}, zktest.WithSyncTimeout(7*time.Second))
}

func TestShortPartitionIsNotNoticed(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *zktest.Cluster) {
		was := leader(t, c)
		a := raw(t, was, nil)
		mustCreate(t, a, "/n", 0)
		require.NoError(t, c.Partition(was))
		time.AfterFunc(3*time.Second, c.Heal)
		began := time.Now()
		set(t, a, "/n", "delayed")
		require.Equal(t, 3*time.Second, time.Since(began))
		require.Equal(t, was, leader(t, c))
	})
}

func TestFollowersLagAtRandomUpToTheLimit(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *zktest.Cluster) {
		a := raw(t, follower(t, c), nil)
		mustCreate(t, a, "/n", 0)
		longest, shortest := time.Duration(0), time.Hour
		for range 200 {
			began := time.Now()
			set(t, a, "/n", "x")
			longest, shortest = max(longest, time.Since(began)), min(shortest, time.Since(began))
		}
		require.LessOrEqual(t, longest, time.Second)
		require.Greater(t, longest, 800*time.Millisecond)
		require.Less(t, shortest, 200*time.Millisecond)
	}, zktest.WithLag(time.Second))
}
