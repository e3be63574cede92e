package framework_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// What users of Curator and kazoo rely on, as far as it has no place elsewhere.

func TestAClientConnectsByItself(t *testing.T) { // CUR-CLI-03, CUR-CST-11, KZ-CST-03
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		server.RefuseConnections(true)
		client, err := framework.New([]string{server.Addr()}, framework.WithDialer(server.DialContext))
		require.NoError(t, err)
		defer client.Close()
		states := heard(t, client)
		connected := make(chan connstate.State, 1)
		_, err = client.Listen(func(s connstate.State) { connected <- s })
		require.NoError(t, err)
		server.RefuseConnections(false)
		require.Equal(t, connstate.Connected, testbed.Receive(t, connected, "a connection that nobody has asked for"))
		synctest.Wait() // the other listener is told, too
		began := time.Now()
		for range 2 {
			require.NoError(t, client.WaitConnected(t.Context()))
		}
		require.Zero(t, time.Since(began))
		require.Equal(t, []connstate.State{connstate.Connected}, states())
	})
}

// TestLosingTheQuorumIsAnOutage stops the members that the client is not connected to.
func TestLosingTheQuorumIsAnOutage(t *testing.T) { // CUR-CST-07
	synctest.Test(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		members := cluster.Members()
		client, err := framework.New(members[0].Servers(), framework.WithDialer(cluster.DialContext), framework.WithSessionTimeout(10*time.Second))
		require.NoError(t, err)
		defer client.Close()
		session, err := client.Session(t.Context())
		require.NoError(t, err)
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

func TestOperationFailsWhileLostAndWorksAfterwards(t *testing.T) { // CUR-CLI-11
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t, framework.WithConnectionTimeout(time.Second), framework.WithRetryPolicy(retry.NTimes(1, time.Second)))
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		server.Stop()
		testbed.Receive(t, session.Done(), "the end of the session")
		synctest.Wait()
		require.Equal(t, connstate.Lost, client.State())
		_, err = client.Create(t.Context(), "/a", nil)
		require.ErrorIs(t, err, zk.ErrNoServer)
		require.False(t, retry.Unknown(err), "nothing was sent")
		require.NoError(t, server.Restart())
		require.NoError(t, client.WaitConnected(t.Context()))
		_, err = client.Create(t.Context(), "/a", nil)
		require.NoError(t, err)
	})
}

func TestOperationWaitsWhileSuspended(t *testing.T) { // KZ-CST-13
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t, framework.WithRetryPolicy(retry.Forever(time.Second)))
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		server.Stop()
		synctest.Wait()
		require.Equal(t, connstate.Suspended, client.State())
		created := make(chan error, 1)
		go func() {
			_, err := client.Create(t.Context(), "/a", []byte{}, framework.As(framework.Ephemeral))
			created <- err
		}()
		time.Sleep(4 * time.Second) // virtual time: an outage shorter than the session timeout
		require.Empty(t, created)
		require.NoError(t, server.Restart())
		require.NoError(t, <-created)
		require.NoError(t, session.Err())
		_, stat, err := client.Get(t.Context(), "/a")
		require.NoError(t, err)
		require.Equal(t, session.ID(), stat.EphemeralOwner)
	})
}

// TestParentsWaitForTheServerWithinTheRetries has the server come late.
func TestParentsWaitForTheServerWithinTheRetries(t *testing.T) { // CUR-CLI-17
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		server.RefuseConnections(true)
		client, err := framework.New([]string{server.Addr()}, framework.WithDialer(server.DialContext),
			framework.WithConnectionTimeout(time.Second), framework.WithRetryPolicy(retry.NTimes(10, time.Second)))
		require.NoError(t, err)
		defer client.Close()
		time.AfterFunc(3*time.Second, func() { server.RefuseConnections(false) })
		_, err = client.Create(t.Context(), "/a/b/c", []byte{}, framework.ContainerParents())
		require.NoError(t, err)
		require.Equal(t, "/a \"\" container\n/a/b \"\" container\n/a/b/c \"\"\n", server.Tree())
	})
}

func TestRequestThatIsNotCarriedOutFailsAndHasNoEffect(t *testing.T) { // KZ-CST-07
	server := zktest.NewServer(t)
	client := newClient(t, server, framework.WithRetryPolicy(retry.Never()))
	server.Inject(zktest.FailBefore, 0, zktest.OnOp(zktest.OpCreate))
	_, err := client.Create(t.Context(), "/a", nil)
	require.ErrorIs(t, err, zk.ErrConnectionClosed)
	require.True(t, retry.Unknown(err), "only the server knows")
	require.NoError(t, client.WaitConnected(testbed.Context(t)))
	require.Empty(t, server.Tree())
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
	session, err := client.Session(ctx)
	require.NoError(t, err)
	_, err = client.Create(ctx, "/a", nil)
	require.NoError(t, err)
	large := bytes.Repeat([]byte("x"), 900_000)
	_, err = client.Set(ctx, "/a", large, -1)
	require.ErrorIs(t, err, zk.ErrConnectionClosed)
	require.True(t, retry.Unknown(err))
	require.NoError(t, client.WaitConnected(ctx))
	require.NoError(t, session.Err())
	whole.Store(true)
	server.CutConnections()
	testbed.Eventually(t, func() bool {
		_, err = client.Set(ctx, "/a", large, 0)
		return err == nil
	}, "the first did nothing, and another connection carries it")
}

// TestWatchHearsOfTheEndOfItsSession has a watch on a node that is there, and one on a node that is missing.
func TestWatchHearsOfTheEndOfItsSession(t *testing.T) { // CUR-CLI-14, -15, KZ-CST-15
	server := zktest.NewServer(t)
	client := newClient(t, server)
	ctx := testbed.Context(t)
	session, err := client.Session(ctx)
	require.NoError(t, err)
	_, err = client.Create(ctx, "/a", []byte("data"))
	require.NoError(t, err)
	_, _, there, err := client.GetW(ctx, "/a")
	require.NoError(t, err)
	_, _, missing, err := client.ExistsW(ctx, "/none")
	require.NoError(t, err)
	require.NoError(t, server.ExpireSession(session.ID()))
	for _, w := range []*framework.Watch{there, missing} {
		testbed.Receive(t, w.Done(), "the end of the watch")
		require.Equal(t, zk.EventNotWatching, w.Event().Type)
	}
	data, _, err := client.Get(ctx, "/a")
	require.NoError(t, err)
	require.Equal(t, "data", string(data))
	testbed.Receive(t, session.Done(), "the end of the session")
	require.ErrorIs(t, session.Err(), framework.ErrSessionLost)
}

func TestSequentialChildrenAllAppear(t *testing.T) { // CUR-CLI-09
	client := newClient(t, zktest.NewServer(t))
	ctx := testbed.Context(t)
	var want []string
	for i := range 10 {
		path, err := client.Create(ctx, "/head/child", nil, framework.As(framework.EphemeralSequential), framework.ContainerParents())
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("/head/child%010d", i), path)
		want = append(want, path[len("/head/"):])
	}
	children, _, err := client.Children(ctx, "/head")
	require.NoError(t, err)
	require.Equal(t, want, slices.Sorted(slices.Values(children)))
}

func TestACLCallsFindTheirNodeInANamespace(t *testing.T) { // CUR-CLI-54
	server := zktest.NewServer(t)
	client := newClient(t, server, framework.WithNamespace("ns"))
	ctx := testbed.Context(t)
	writeOnly := zk.WorldACL(zk.PermWrite)
	_, err := client.Create(ctx, "/a", nil, framework.ACL(writeOnly))
	require.NoError(t, err)
	_, err = client.SetACL(ctx, "/a", zk.WorldACL(zk.PermAll), -1)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	_, err = client.SetACL(ctx, "/none", zk.WorldACL(zk.PermAll), -1)
	require.ErrorIs(t, err, zk.ErrNoNode)
	_, err = client.Create(ctx, "/b", nil, framework.ACL(zk.WorldACL(zk.PermWrite|zk.PermRead|zk.PermAdmin)))
	require.NoError(t, err)
	stat, err := client.SetACL(ctx, "/b", zk.WorldACL(zk.PermAll), 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, stat.Aversion)
	acl, again, err := client.GetACL(ctx, "/b")
	require.NoError(t, err)
	require.Equal(t, zk.WorldACL(zk.PermAll), acl)
	require.Equal(t, stat, again)
}

func TestMakingParentsDoesNotGetRoundACLs(t *testing.T) { // KZ-CLI-09
	server := zktest.NewServer(t)
	owner := newClient(t, server, framework.WithAuth("digest", []byte("me:secret")))
	client := newClient(t, server)
	ctx := testbed.Context(t)
	_, err := owner.Create(ctx, "/mine", nil, framework.ACL(zk.AuthACL(zk.PermAll)))
	require.NoError(t, err)
	before := server.Tree()
	for _, parents := range []framework.CreateOption{framework.ContainerParents(), framework.PersistentParents()} {
		_, err = client.Create(ctx, "/mine/a/b", nil, parents)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		_, err = client.Create(ctx, "/mine/a/b", nil, parents, framework.As(framework.EphemeralSequential), framework.Protected())
		require.ErrorIs(t, err, zk.ErrNoAuth)
		_, err = client.CreateOrSet(ctx, "/mine/a/b", nil, parents)
		require.ErrorIs(t, err, zk.ErrNoAuth)
	}
	require.Equal(t, before, server.Tree())
	_, err = client.Create(ctx, "/ours/a/b", nil)
	require.ErrorIs(t, err, zk.ErrNoNode)
	_, err = client.Create(ctx, "/ours/a/b", nil, framework.ContainerParents())
	require.NoError(t, err)
	_, err = client.Create(ctx, "/ours/a/b", nil, framework.ContainerParents())
	require.ErrorIs(t, err, zk.ErrNodeExists)
	_, err = owner.Create(ctx, "/mine/a/b", nil, framework.ContainerParents())
	require.NoError(t, err)
}

// TestServerListCanGrow has the only server that was known stop.
func TestServerListCanGrow(t *testing.T) { // KZ-CLI-04
	synctest.Test(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		var mu sync.Mutex
		known := cluster.Servers()[:1]
		client, err := framework.New(nil, framework.WithDialer(cluster.DialContext), framework.WithSessionTimeout(10*time.Second),
			framework.WithServerList(func(context.Context) ([]string, error) {
				mu.Lock()
				defer mu.Unlock()
				return known, nil
			}))
		require.NoError(t, err)
		defer client.Close()
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		mu.Lock()
		known = cluster.Servers()
		mu.Unlock()
		cluster.Members()[0].Stop()
		synctest.Wait() // it has noticed
		require.NoError(t, client.WaitConnected(t.Context()))
		require.NoError(t, session.Err())
		require.NoError(t, client.Sync(t.Context(), "/"))
	})
}
