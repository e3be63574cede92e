package zktest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// TestANodeWhoseLeaderIsLost stops the leader while a transaction of the test is on its way.
func TestANodeWhoseLeaderIsLost(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *zktest.Cluster) {
		l, f := leader(t, c), follower(t, c)
		outcome := testbed.Go(func() error { return f.Create("/lost", nil) })
		time.Sleep(time.Millisecond) // on its way between members for up to a second
		l.Stop()
		require.ErrorIs(t, <-outcome, zktest.ErrNoLeader)
	}, zktest.WithMemberLatency(time.Second), zktest.WithSeed(3))
}

func TestAClustersClockCountsWhatWasHeard(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *zktest.Cluster) {
		f := follower(t, c)
		client := raw(t, f, nil) // a session of 10 s
		mustCreate(t, client, "/owned", 1)
		ask(t, client, opCreateTTL, createTTL("/ttl", 60_000))
		time.Sleep(2 * time.Second) // the leader has heard of it by now
		f.Advance(6 * time.Second)
		time.Sleep(time.Second)
		ping(t, client) // which the follower has not reported when the clock moves
		f.Advance(7 * time.Second)
		time.Sleep(time.Second)
		require.True(t, f.Exists("/owned"))
		f.Advance(14 * time.Second)
		time.Sleep(time.Second)
		require.False(t, f.Exists("/owned"))
		require.True(t, f.Exists("/ttl"))
		over(t, client)
		f.Advance(time.Minute)
		time.Sleep(time.Second)
		for _, m := range c.Members() {
			require.Empty(t, m.Tree())
			require.Empty(t, m.Sessions())
		}
		mustCreate(t, raw(t, f, nil), "/later", 0)
		require.Greater(t, testbed.ServerStat(t, leader(t, c), "/later").Ctime, time.Now().Add(time.Minute).UnixMilli())
	}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "86400000"}))
}

func TestWordsOfAClustersMembers(t *testing.T) {
	c := zktest.NewCluster(t, 3)
	f := follower(t, c)
	client := raw(t, f, nil)
	mustCreate(t, client, "/owned", 1)
	require.Regexp(t, `Global Sessions\(1\):\n0x[0-9a-f]+\t10000ms\nephemeral nodes dump:\nSessions with Ephemerals \(1\):\n`, word(t, f, "dump"))
	require.Eventually(t, func() bool { return leader(t, c).Exists("/owned") }, 10*time.Minute, time.Millisecond)
	require.Regexp(t, `Session Sets \(1\)/\(1\):\n1 expire at `, word(t, leader(t, c), "dump"))
}
