package framework_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestCreateThatAFollowerCarriesOutAtTheEndOfItsSessionLeavesNoNode has a client ping a follower
// that does not answer, which reports that it has heard the session half a tick later. The leader
// ends the session at the end of a tick, and just before that the follower carries a create out.
func TestCreateThatAFollowerCarriesOutAtTheEndOfItsSessionLeavesNoNode(t *testing.T) {
	came := 0
	for phase := range 10 {
		for before := range 4 {
			testbed.RunVirtual(t, fmt.Sprintf("phase %d, before %d", phase, before), func(t *testing.T) {
				cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
				leader, _ := testbed.Leader(t, cluster)
				follower := cluster.Members()[0]
				if follower == leader {
					follower = cluster.Members()[1]
				}
				time.Sleep(time.Duration(phase) * 200 * time.Millisecond) // virtual time: the phase of the tick
				client := testbed.NewClient(t, []string{follower.Addr()}, framework.WithDialer(cluster.DialContext),
					framework.WithSessionTimeout(4*time.Second), framework.WithExpirationPercent(50), framework.WithRetryPolicy(retry.Never()))
				session := testbed.Session(t, client)
				time.Sleep(10*time.Second + time.Duration(before)*250*time.Millisecond) // virtual time: the phase between two pings
				gate := follower.Block(zktest.OnOp("create"))
				result := testbed.Go(func() error {
					return testbed.Err(client.Create(t.Context(), "/n", nil, framework.Protected()))
				})
				<-gate.Arrived()
				require.Error(t, <-result)
				<-session.Done()
				time.Sleep(6200 * time.Millisecond) // virtual time, in which the client looks for the node
				gate.Open()
				time.Sleep(10 * time.Millisecond) // virtual time: the create is applied
				if leader.Tree() != "" {
					came++
				}
				time.Sleep(time.Minute) // virtual time, in which it must go
				require.Empty(t, leader.Tree())
			})
		}
	}
	require.Positive(t, came, "in some of these the session has not ended yet")
}

// TestCloseRemovesWhatTheNextServerHasNotHeardOf has a client lose the answer to a create, and end
// its session on another server, which is behind.
func TestCloseRemovesWhatTheNextServerHasNotHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		leader, followers := testbed.Leader(t, cluster)
		lost := followers[0].Inject(zktest.LoseReply, 0, zktest.OnOp("create"))
		client := testbed.NewClient(t, []string{"cluster"}, framework.WithRetryPolicy(retry.Never()),
			framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				if lost.Met() {
					return followers[1].DialContext(ctx, network, address)
				}
				return followers[0].DialContext(ctx, network, address)
			}))
		require.NoError(t, client.Sync(t.Context()))
		time.Sleep(time.Second) // virtual time, in which all servers apply what there is
		require.NoError(t, cluster.Lag(followers[1], 200*time.Millisecond))
		_, err := client.Create(t.Context(), "/n-", nil, framework.As(framework.PersistentSequential), framework.Protected())
		require.True(t, retry.Unknown(err), err)
		require.NotEmpty(t, leader.Tree())
		require.NoError(t, client.Close())
		require.Empty(t, leader.Tree())
	})
}
