package framework_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// TestAnAnswerToAnEarlierHandshake has a client go on with its session at a follower that is slow to hear of the leader, give
// up, and come back to the same follower. The leader's answer to the first handshake is taken for one to the second.
// Then the follower is cut off from the leader. The client must know of the end of its session before its node goes.
func TestAnAnswerToAnEarlierHandshake(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { comeBackTwice(t, seed) })
		})
	}
}

func comeBackTwice(t *testing.T, seed uint64) {
	cluster := zktest.NewCluster(t, 3, zktest.WithInMemory(), zktest.WithSeed(seed), zktest.WithTick(200*time.Millisecond),
		zktest.WithMemberLatency(5*time.Second), zktest.WithSyncTimeout(time.Hour), zktest.WithSessionTimeouts(time.Second, time.Minute))
	leader, err := cluster.WaitLeader(t.Context())
	require.NoError(t, err)
	follower := slices.DeleteFunc(slices.Clone(cluster.Members()), func(m *zktest.Server) bool { return m == leader })[0]
	client, err := framework.New(cluster.Servers()[:1], framework.WithDialer(follower.DialContext),
		framework.WithSessionTimeout(40*time.Second))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.WaitConnected(t.Context()))
	_, err = client.Create(t.Context(), "/held", nil, framework.As(framework.Ephemeral))
	require.NoError(t, err)
	session, err := client.Session(t.Context())
	require.NoError(t, err)
	_, err = session.Depend(connstate.Session, func(error) {})
	require.NoError(t, err)

	follower.CutConnections()
	time.Sleep(7 * time.Second) // virtual time: the first connect request is on its way to the leader, whose answer takes longer
	follower.CutConnections()
	synctest.Wait()
	require.NoError(t, client.WaitConnected(t.Context()))
	require.NoError(t, cluster.Partition(follower))
	for range 10_000 {
		time.Sleep(10 * time.Millisecond) // virtual time: to look, every 10 ms, whether the node or the session is gone first
		if !leader.Exists("/held") {
			require.Error(t, session.Err(), "the node is gone, and its owner does not know")
			return
		}
	}
	t.Fatal("the node is still there")
}
