package framework_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestADeadSessionIsNotRetriedIn is issue 10, B1: the call was repeated until its context ended.
func TestADeadSessionIsNotRetriedIn(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server, framework.WithRetryPolicy(retry.Forever(time.Millisecond)))
	ctx := testbed.Context(t)
	session, err := client.Session(ctx)
	require.NoError(t, err)
	_, err = client.Create(ctx, "/n", nil)
	require.NoError(t, err)
	injected := server.Inject(zktest.ExpireBefore, 0, zktest.OnOp(zktest.OpGetData))
	_, _, err = client.Get(framework.InSession(ctx, session), "/n")
	require.ErrorIs(t, err, framework.ErrSessionLost)
	require.ErrorIs(t, err, framework.ErrLost)
	require.True(t, injected.Met())
	require.False(t, retry.Retryable(err))
	require.False(t, retry.Retryable(session.Err()))
	_, err = client.DeleteGuaranteed(framework.InSession(ctx, session), "/n")
	require.ErrorIs(t, err, framework.ErrSessionLost)
	require.True(t, server.Exists("/n"), "issue 10, B5: it was deleted in the next session")
}

// TestWaitConnectedDoesNotReturnOnADeadLink is issue 10, B4.
func TestWaitConnectedDoesNotReturnOnADeadLink(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	ctx := testbed.Context(t)
	for range 30 {
		require.NoError(t, client.Sync(ctx, "/")) // so that the connection was of use
		session, err := client.Session(ctx)
		require.NoError(t, err)
		require.NoError(t, server.ExpireSession(session.ID()))
		<-session.Done()
		require.NoError(t, client.WaitConnected(ctx))
		next, err := client.Session(ctx)
		require.NoError(t, err)
		require.NotSame(t, session, next)
	}
}

func TestAClientThatIsClosedSaysSo(t *testing.T) { // issue 10, B4
	client := newClient(t, zktest.NewServer(t))
	require.Equal(t, connstate.Connected, client.State())
	require.NoError(t, client.Close())
	require.Zero(t, client.State())
	_, err := client.Listen(func(connstate.State) {})
	require.ErrorIs(t, err, framework.ErrClosed)
}

// TestAClientThatReachesNobodySaysSo has no server for a while, as Curator tells.
func TestAClientThatReachesNobodySaysSo(t *testing.T) { // issue 10, B4
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		server.RefuseConnections(true)
		client, err := framework.New([]string{server.Addr()}, framework.WithDialer(server.DialContext),
			framework.WithConnectionTimeout(5*time.Second), framework.WithSessionTimeout(10*time.Second))
		require.NoError(t, err)
		defer client.Close()
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
func TestAPauseEndsWhenTheConnectionIsBack(t *testing.T) { // issue 10, B4
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t, framework.WithRetryPolicy(retry.NTimes(3, time.Hour)))
		began := time.Now()
		server.Inject(zktest.FailBefore, 0, zktest.OnOp(zktest.OpGetData))
		_, _, err := client.Get(t.Context(), "/")
		require.NoError(t, err)
		require.Less(t, time.Since(began), time.Minute)
	})
}

// TestCloseRemovesWhatAPersistentProtectedCreateLeaves is issue 10, B5.
func TestCloseRemovesWhatAPersistentProtectedCreateLeaves(t *testing.T) {
	for name, outage := range map[string]func(*zktest.Server){
		"the answer is late":  func(*zktest.Server) {},
		"the answer was lost": (*zktest.Server).CutConnections,
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			client := newClient(t, server)
			gate := server.BlockReplies(zktest.OnOp(zktest.OpCreate))
			defer gate.Open()
			result := make(chan error, 1)
			go func() {
				_, err := client.Create(context.Background(), "/n-", nil, framework.As(framework.PersistentSequential), framework.Protected())
				result <- err
			}()
			testbed.Receive(t, gate.Arrived(), "the create")
			require.NotEmpty(t, server.Tree())
			outage(server)
			if name == "the answer was lost" {
				// The create is repeated, behind the gate.
				testbed.Eventually(t, func() bool {
					return strings.Count(server.Tree(), "_c_") >= 1 && client.State() == connstate.Reconnected
				}, "it is back")
			}
			time.AfterFunc(100*time.Millisecond, gate.Open) // while Close waits
			require.NoError(t, client.Close())
			err := testbed.Receive(t, result, "the create")
			if err == nil {
				require.Equal(t, 1, strings.Count(server.Tree(), "_c_"), "it was faster")
				return
			}
			require.ErrorIs(t, err, framework.ErrClosed)
			require.Empty(t, server.Tree())
		})
	}
}

// TestCloseRemovesWhatTheServerWouldNotDeleteYet has the caller of a persistent protected create give up, and the server be too busy to
// delete the node until the client is closed.
func TestCloseRemovesWhatTheServerWouldNotDeleteYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var node string
		var refused, deleted atomic.Int32
		given := make(chan struct{})
		l := &scripted{welcome: welcome(7, 10*time.Second), answer: fine(func(h proto.RequestHeader, body []byte) []byte {
			switch h.Op {
			case proto.OpCreate:
				d := proto.NewDecoder(body)
				node = d.String() + "0000000000"
				<-given
				return packet(&proto.ReplyHeader{Xid: h.Xid}, &proto.PathResponse{Path: node})
			case proto.OpGetChildren2:
				return packet(&proto.ReplyHeader{Xid: h.Xid}, &proto.ChildrenResponse{Names: []string{node[1:]}})
			case proto.OpDelete:
				if refused.Add(1) == 1 {
					return packet(&proto.ReplyHeader{Xid: h.Xid, Code: proto.Throttled})
				}
				deleted.Add(1)
			}
			return packet(&proto.ReplyHeader{Xid: h.Xid})
		})}
		client := l.client(t)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() {
			_, err := client.Create(ctx, "/n-", nil, framework.As(framework.PersistentSequential), framework.Protected())
			result <- err
		}()
		synctest.Wait() // it is sent
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
		close(given)
		synctest.Wait() // the deletion was refused, and will be repeated
		require.EqualValues(t, 1, refused.Load())
		require.NoError(t, client.Close())
		require.EqualValues(t, 1, deleted.Load())
	})
}

// TestManyLostRepliesAreOneSweeper is issue 10, B5: each kept a goroutine that listed the parent for 17 minutes.
func TestManyLostRepliesAreOneSweeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t, framework.WithRetryPolicy(retry.Never()))
		before := runtime.NumGoroutine()
		const n = 100
		for range n {
			require.NoError(t, client.WaitConnected(t.Context()))
			server.Inject(zktest.LoseReply, 0, zktest.OnOp(zktest.OpCreate))
			_, err := client.Create(t.Context(), "/n-", nil, framework.As(framework.EphemeralSequential), framework.Protected())
			require.Error(t, err)
		}
		require.NoError(t, client.WaitConnected(t.Context()))
		time.Sleep(2 * time.Second) // virtual time, in which all must be deleted
		require.Empty(t, server.Tree())
		require.LessOrEqual(t, runtime.NumGoroutine(), before+5)
		server.ResetCounts()
		time.Sleep(time.Hour) // virtual time: what is counted is the requests of an hour
		lists := server.Requests().Requests[zktest.OpGetChildren2]
		require.Positive(t, lists, "it looks again: a server that stands still may make the node yet")
		require.Less(t, lists, 60)
		server.ResetCounts()
		time.Sleep(time.Hour) // virtual time: the next hour, without any
		require.Zero(t, server.Requests().Requests[zktest.OpGetChildren2], "and comes to an end")
	})
}

// TestExistsWKeepsNothing is issue 10, B6: 186 bytes a call.
func TestExistsWKeepsNothing(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	ctx := t.Context()
	call := func(n int) {
		for range n {
			_, _, _, err := client.ExistsW(ctx, "/none")
			require.NoError(t, err)
			_, _, _, err = client.ExistsW(ctx, "/")
			require.NoError(t, err)
		}
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	call(1000)
	before := heap()
	call(5000)
	require.Less(t, int64(heap())-int64(before), int64(5000*2*40))
}

// TestSetAndMultiTakeWhatCreateTakes is issue 10, B6: above 1 MB they failed with "buffer too small".
func TestSetAndMultiTakeWhatCreateTakes(t *testing.T) {
	client := newClient(t, zktest.NewServer(t, zktest.WithMaxBuffer(16<<20)))
	ctx := testbed.Context(t)
	data := make([]byte, 4<<20)
	_, err := client.Create(ctx, "/n", data)
	require.NoError(t, err)
	_, err = client.Set(ctx, "/n", data, -1)
	require.NoError(t, err)
	_, err = client.Multi(ctx, &zk.SetDataRequest{Path: "/n", Data: data, Version: -1}, &zk.CreateRequest{Path: "/m", Data: data})
	require.NoError(t, err)
	got, _, err := client.Get(ctx, "/m")
	require.NoError(t, err)
	require.Equal(t, data, got)
}

// TestAnEmptyServerListSaysSo: a registry may have no servers yet. The client goes on asking it.
func TestAnEmptyServerListSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		var there atomic.Bool
		client, err := framework.New(nil, framework.WithConnectionTimeout(time.Second), framework.WithRetryPolicy(retry.Never()),
			framework.WithDialer(server.DialContext), framework.WithServerList(func(context.Context) ([]string, error) {
				if there.Load() {
					return []string{"", "a,b", server.Addr()}, nil
				}
				return nil, nil
			}))
		require.NoError(t, err)
		defer client.Close()
		require.EqualError(t, client.Sync(t.Context(), "/"), "sync /: zk: could not connect to a server: server list: it is empty")
		there.Store(true)
		require.NoError(t, client.WaitConnected(t.Context()))
	})
}

// TestNoServerSaysWhy is issue 10, B7: "context deadline exceeded" was all there was.
func TestNoServerSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := framework.New([]string{"zk1.example:1"}, framework.WithConnectionTimeout(time.Second), framework.WithRetryPolicy(retry.Never()),
			framework.WithDialer(func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no such host") }))
		require.NoError(t, err)
		defer client.Close()
		_, _, err = client.Get(t.Context(), "/a")
		require.ErrorIs(t, err, zk.ErrNoServer)
		require.EqualError(t, err, "get /a: zk: could not connect to a server: zk1.example:1: no such host")
		require.False(t, retry.Unknown(err))
		require.True(t, retry.Retryable(err))

		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		for _, call := range []func() error{
			func() error { _, _, err := client.Get(ctx, "/a"); return err },
		} {
			err := call()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, zk.ErrNoServer, "it is not the operation that was slow")
			require.ErrorContains(t, err, "no such host")
			require.False(t, retry.Unknown(err))
		}
		long, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = client.WaitConnected(long)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrNoServer)
		require.ErrorContains(t, err, "no such host")
	})
}

func TestWaitConnectedSaysThatCredentialsAreRefused(t *testing.T) { // issue 10, B4
	client, err := framework.New(zktest.NewServer(t).Servers(), framework.WithAuth("kerberos", nil))
	require.NoError(t, err)
	defer client.Close()
	require.ErrorIs(t, client.WaitConnected(testbed.Context(t)), zk.ErrAuthFailed)
}

// TestMultiNamesWhatFailed is issue 10, B7 and B8.
func TestMultiNamesWhatFailed(t *testing.T) {
	client := newClient(t, zktest.NewServer(t), framework.WithNamespace("ns"))
	ctx := testbed.Context(t)
	_, err := client.Create(ctx, "/a", nil, framework.PersistentParents())
	require.NoError(t, err)
	responses, err := client.Multi(ctx,
		&zk.CheckVersionRequest{Path: "/a", Version: -1},
		&zk.CreateRequest{Path: "/b"}, &zk.CreateRequest{Path: "/a"}, &zk.DeleteRequest{Path: "/c", Version: -1})
	require.ErrorIs(t, err, zk.ErrNodeExists)
	require.EqualError(t, err, "multi /a: operation 2, create /a: zk: node already exists")
	var failed *framework.MultiError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 2, failed.Index)
	require.Equal(t, "/a", failed.Path)
	require.Len(t, responses, 4)
	assert.NoError(t, responses[1].Error)
	assert.EqualError(t, responses[2].Error, "create /a: zk: node already exists")
	assert.Error(t, responses[3].Error, "rolled back")
	for i, path := range []string{"/a", "/b", "/a", "/c"} {
		assert.Equal(t, path, responses[i].String)
	}
	_, err = client.Multi(ctx)
	require.EqualError(t, err, "multi: bad argument: no operations")
}

func TestANilCreateOptionIsRefused(t *testing.T) { // issue 10, B7
	client := newClient(t, zktest.NewServer(t))
	_, err := client.Create(t.Context(), "/a", nil, nil)
	require.ErrorIs(t, err, framework.ErrBadArgument)
}

func TestAPrefixIsNoProtectionUnlessItsIDIsOne(t *testing.T) { // issue 10, B7
	const id = "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d"
	name, got := framework.Unprotected("_c_" + id + "-lock-1")
	require.Equal(t, []string{"lock-1", id}, []string{name, got})
	for _, foreign := range []string{
		"_c_" + strings.Repeat("x", 36) + "-lock-1",
		"_c_" + strings.ReplaceAll(id, "-", "_") + "-lock-1",
		"_c_" + id + "_lock-1",
	} {
		name, got := framework.Unprotected(foreign)
		require.Equal(t, []string{foreign, ""}, []string{name, got})
	}
}

func TestConnectStrings(t *testing.T) { // issues 10, B7, and 11
	for s, want := range map[string]struct {
		servers []string
		chroot  string
	}{
		"zk1":                      {[]string{"zk1:2181"}, ""},
		"zk1:2182,zk2:2181":        {[]string{"zk1:2182", "zk2:2181"}, ""},
		" zk1 , zk2:2181/app/a ":   {[]string{"zk1:2181", "zk2:2181"}, "app/a"},
		"[::1]:2181,10.0.0.1,/":    {[]string{"[::1]:2181", "10.0.0.1:2181"}, ""},
		"zk1:2181,zk2:2181/app/a/": {[]string{"zk1:2181", "zk2:2181"}, "app/a"},
	} {
		servers, chroot, err := framework.ParseConnectString(s)
		require.NoError(t, err, s)
		require.Equal(t, want.servers, servers, s)
		require.Equal(t, want.chroot, chroot, s)
	}
	for _, s := range []string{"", "/app", ",", "zk1:port", "zk1:0"} {
		_, _, err := framework.ParseConnectString(s)
		require.ErrorIs(t, err, framework.ErrBadArgument, s)
	}
	_, _, err := framework.ParseConnectString("zk1/a//b")
	require.ErrorIs(t, err, framework.ErrBadPath)
	for _, server := range []string{"zk1,zk2", "zk1:2181,zk2:2181", "zk1/app"} {
		_, err := framework.New([]string{server})
		require.ErrorIs(t, err, framework.ErrBadArgument)
		require.ErrorContains(t, err, "ParseConnectString")
	}
}
