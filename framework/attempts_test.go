package framework_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestADeadSessionIsNotRetriedIn: the calls return before their context ends.
func TestADeadSessionIsNotRetriedIn(t *testing.T) {
	server, client := start(t, framework.WithRetryPolicy(retry.Forever(time.Millisecond)))
	ctx := testbed.Context(t)
	session := testbed.Session(t, client)
	testbed.Create(t, client, "/n", nil)
	injected := server.Inject(zktest.ExpireBefore, 0, zktest.OnOp("getData"))
	_, _, err := client.In(session).Get(ctx, "/n")
	require.ErrorIs(t, err, framework.ErrSessionLost)
	require.ErrorIs(t, err, framework.ErrLost)
	require.True(t, injected.Met())
	require.False(t, verdict.Retryable(err))
	require.False(t, verdict.Retryable(session.Err()))
	err = client.In(session).Delete(ctx, "/n", framework.IfExists(), framework.Guaranteed())
	require.ErrorIs(t, err, framework.ErrSessionLost)
	require.True(t, server.Exists("/n"), "it was deleted in the next session")
}

// TestAClientThatReachesNobodySaysSo has no server for a while, as Curator reports it.
func TestAClientThatReachesNobodySaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		server.RefuseConnections(true)
		client := testbed.ClientOf(t, server,
			framework.WithConnectionTimeout(5*time.Second), framework.WithSessionTimeout(10*time.Second))
		states := heard(t, client)
		time.Sleep(4 * time.Second) // virtual time, until just before the connection timeout of 5 s
		require.Empty(t, states())
		time.Sleep(2 * time.Second) // virtual time, until just after it
		require.Equal(t, connstate.Suspended, client.State())
		time.Sleep(5 * time.Second) // virtual time, until just after the session timeout of 10 s
		require.Equal(t, connstate.Lost, client.State())
		server.RefuseConnections(false)
		require.NoError(t, client.WaitConnected(t.Context()))
		synctest.Wait()
		require.Equal(t, []connstate.State{connstate.Suspended, connstate.Lost, connstate.Connected}, states())
		server.CutConnections()
		synctest.Wait() // it has noticed
		require.NoError(t, client.WaitConnected(t.Context()))
		synctest.Wait()
		require.Equal(t, connstate.Reconnected, client.State())
	})
}

// TestAPauseEndsWhenTheConnectionIsBack has a policy with pauses of an hour.
func TestAPauseEndsWhenTheConnectionIsBack(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		began := time.Now()
		server.Inject(zktest.FailBefore, 0, zktest.OnOp("getData"))
		testbed.Get(t, client, "/")
		require.Less(t, time.Since(began), time.Minute)
	}, framework.WithRetryPolicy(retry.NTimes(3, time.Hour)))
}

// TestNoServerSaysWhy: the error names more than the end of the context.
func TestNoServerSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := testbed.NewClient(t, []string{"zk1.example:1"}, framework.WithConnectionTimeout(time.Second), framework.WithRetryPolicy(retry.Never()),
			framework.WithDialer(func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no such host") }))
		_, _, err := client.Get(t.Context(), "/a")
		require.ErrorIs(t, err, zk.ErrNoServer)
		require.EqualError(t, err, "get /a: zk: could not connect to a server: zk1.example:1: no such host")
		require.False(t, retry.Unknown(err))
		require.True(t, verdict.Retryable(err))

		_, _, err = client.Get(testbed.Timeout(t, 100*time.Millisecond), "/a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrNoServer, "it is not the operation that was slow")
		require.ErrorContains(t, err, "no such host")
		require.False(t, retry.Unknown(err))
		err = client.WaitConnected(testbed.Timeout(t, time.Minute))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrNoServer)
		require.ErrorContains(t, err, "no such host")
	})
}

// TestLosingTheQuorumIsAnOutage stops the members that the client is not connected to.
func TestLosingTheQuorumIsAnOutage(t *testing.T) { // CUR-CST-07
	synctest.Test(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		members := cluster.Members()
		client := testbed.NewClient(t, members[0].Servers(), framework.WithDialer(cluster.DialContext), framework.WithSessionTimeout(10*time.Second))
		session := testbed.Session(t, client)
		states := heard(t, client)
		for _, m := range members[1:] {
			m.Stop()
		}
		testbed.Receive(t, session.Done(), "the end of the session")
		synctest.Wait()
		require.Equal(t, []connstate.State{connstate.Suspended, connstate.Lost}, states())
		require.NoError(t, members[1].Restart())
		require.NoError(t, client.WaitConnected(t.Context()))
		synctest.Wait()
		require.Equal(t, []connstate.State{connstate.Suspended, connstate.Lost, connstate.Reconnected}, states())
	})
}

func TestOperationWaitsWhileSuspended(t *testing.T) { // KZ-CST-13
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		session := testbed.Session(t, client)
		server.Stop()
		synctest.Wait()
		require.Equal(t, connstate.Suspended, client.State())
		created := testbed.Go(func() error {
			return testbed.Err(client.Create(t.Context(), "/a", []byte{}, framework.As(framework.Ephemeral)))
		})
		time.Sleep(4 * time.Second) // virtual time: an outage shorter than the session timeout
		require.Empty(t, created)
		require.NoError(t, server.Restart())
		require.NoError(t, <-created)
		require.NoError(t, session.Err())
		require.Equal(t, session.ID(), testbed.Stat(t, client, "/a").EphemeralOwner)
	}, framework.WithRetryPolicy(retry.Forever(time.Second)))
}

// cutting is a connection that is cut in the middle of a long write.
type cutting struct{ net.Conn }

func (c cutting) Write(p []byte) (int, error) {
	if len(p) < 100_000 {
		return c.Conn.Write(p)
	}
	n, err := c.Conn.Write(p[:len(p)/2])
	return n, errors.Join(err, c.Close(), errors.New("cut"))
}

func TestConnectionThatIsCutInTheMiddleOfALargeWrite(t *testing.T) { // KZ-CST-10
	server := zktest.NewServer(t)
	var whole atomic.Bool
	client := newClient(t, server, framework.WithRetryPolicy(retry.Never()), framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil || whole.Load() {
			return nc, err
		}
		return cutting{nc}, nil
	}))
	ctx := testbed.Context(t)
	session := testbed.Session(t, client)
	testbed.Create(t, client, "/a", nil)
	large := bytes.Repeat([]byte("x"), 900_000)
	_, err := client.Set(ctx, "/a", large)
	require.ErrorIs(t, err, zk.ErrConnectionClosed)
	require.True(t, retry.Unknown(err))
	require.NoError(t, client.WaitConnected(ctx))
	require.NoError(t, session.Err())
	whole.Store(true)
	server.CutConnections()
	testbed.Eventually(t, func() bool { return testbed.Err(client.Set(ctx, "/a", large, framework.IfVersion(0))) == nil },
		"the first did nothing, and another connection carries it")
}
