package framework_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// endsWith is a context that has ended as soon as a fault was injected, but whose end is not
// noticed yet. That is the instant between the end of a connection and its consequences.
type endsWith struct {
	context.Context
	fault *zktest.Injection
}

func (c endsWith) Err() error {
	if c.fault.Met() {
		return context.Canceled
	}
	return nil
}

func TestProtectedCreateThatLosesReplyAndCallerAtOnceLeavesNoNode(t *testing.T) {
	server, client := start(t)
	testbed.Create(t, client, "/dir", nil)
	injected := server.Inject(zktest.LoseReply, 0, zktest.OnOp("create"))
	path, err := client.Create(endsWith{testbed.Context(t), injected}, "/dir/node", nil,
		framework.As(framework.EphemeralSequential), framework.Protected())
	require.True(t, injected.Met())
	if err == nil { // found again
		require.NoError(t, client.Delete(t.Context(), path))
	}
	testbed.Eventually(t, func() bool { return len(testbed.ServerChildren(t, server, "/dir")) == 0 }, "no node stays")
}

// A server that stands still can carry out a request long after its connection was lost, when the
// client has looked for the node in vain and created another node.
func TestCreateThatIsCarriedOutLateLeavesNoNode(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := newClient(t, server), newClient(t, server)
	lost := make(chan string, 1)
	server.Inject(zktest.FailBefore, 0, zktest.OnOp("create"), zktest.On(func(r zktest.Request) bool {
		select {
		case lost <- r.Path:
		default:
		}
		return true
	}))
	path := testbed.Create(t, client, "/n-", nil, framework.As(framework.EphemeralSequential), framework.Protected())
	late := testbed.Receive(t, lost, "the first create") + "0000000007"
	testbed.Create(t, other, late, nil)
	testbed.Eventually(t, func() bool { return !server.Exists(late) }, "it goes when it comes")
	require.True(t, server.Exists(path), "the one that was made instead stays")
}

// TestAProtectedNodeIsFoundAgainBehindAReplacedLeader has the connection end with the answer to a
// create, and the next connection go to a leader that has been replaced and has not noticed yet: it
// grants the session again, answers a sync, and does not have the node.
func TestAProtectedNodeIsFoundAgainBehindAReplacedLeader(t *testing.T) {
	var asked atomic.Int64
	for seed := range uint64(10) {
		testbed.RunVirtual(t, fmt.Sprint("seed ", seed), func(t *testing.T) {
			cluster := zktest.NewCluster(t, 3, zktest.WithInMemory(), zktest.WithSeed(seed))
			old, followers := testbed.Leader(t, cluster)
			follower := followers[0]
			lost := follower.Inject(zktest.LoseReply, 0, zktest.OnOp("create"), zktest.OnPath("/dir/"))
			var visited atomic.Bool
			client := testbed.OnCluster(cluster).Client(t, framework.WithSessionTimeout(30*time.Second), framework.WithRetryPolicy(retry.Forever(100*time.Millisecond)),
				framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
					if lost.Met() && !visited.Swap(true) {
						return old.DialContext(ctx, network, address)
					}
					return follower.DialContext(ctx, network, address)
				}))
			testbed.Create(t, client, "/dir", nil)
			testbed.CatchUp(t, client)
			old.ResetCounts()
			require.NoError(t, cluster.Partition(old))
			for leader := old; leader == old || leader == nil; leader, _ = cluster.Leader() {
				time.Sleep(10 * time.Millisecond) // virtual time between two looks for another leader
			}
			testbed.Create(t, client, "/dir/n-", nil, framework.As(framework.EphemeralSequential), framework.Protected())
			require.True(t, lost.Met())
			asked.Add(int64(old.Requests().Requests["multi"]))
			_, stat, err := client.Children(t.Context(), "/dir")
			require.NoError(t, err)
			require.EqualValues(t, 1, stat.Cversion, "nodes were created or deleted")
		})
	}
	require.NotZero(t, asked.Load(), "requests to the old leader")
}
