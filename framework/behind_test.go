package framework_test

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestWhatAnEventToldOfIsReadOnTheNextConnection has a client hear of a change by an event, and then move to a server that
// lags behind, before anything else tells it how new its first server was. The simulation found it: a holder
// read the counter as it was before its predecessor wrote, and wrote the same number.
func TestWhatAnEventToldOfIsReadOnTheNextConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		leader, err := cluster.WaitLeader(t.Context())
		require.NoError(t, err)
		followers := slices.DeleteFunc(slices.Clone(cluster.Members()), func(m *zktest.Server) bool { return m == leader })
		bed := testbed.OnCluster(cluster)
		var at atomic.Pointer[zktest.Server]
		at.Store(followers[0])
		client := bed.Client(t, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			return at.Load().DialContext(ctx, network, address)
		}))
		other := bed.Client(t, framework.WithDialer(leader.DialContext))
		_, err = other.Create(t.Context(), "/counter", []byte("3"))
		require.NoError(t, err)
		testbed.CatchUp(t, client)
		var told zk.Event
		_, err = client.AddWatch(t.Context(), "/counter", framework.WatchPersistent, func(e zk.Event) {
			told = e
			followers[0].CutConnections()
		})
		require.NoError(t, err)
		testbed.Eventually(t, func() bool { return followers[1].Exists("/counter") }, "the follower has the node")
		require.NoError(t, cluster.Lag(followers[0], 0))
		at.Store(followers[1])
		require.NoError(t, cluster.Lag(followers[1], time.Second))
		_, err = other.Set(t.Context(), "/counter", []byte("4"), -1)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, zk.EventNodeDataChanged, told.Type)
		data, _, err := client.Get(t.Context(), "/counter")
		require.NoError(t, err)
		require.Equal(t, "4", string(data))
	})
}

// TestTheNextServerIsAskedToCatchUpOnlyAfterAnEvent: an answer says how new the server is.
func TestTheNextServerIsAskedToCatchUpOnlyAfterAnEvent(t *testing.T) {
	for name, answered := range map[string]bool{"an event": false, "an event, then an answer": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zktest.WithInMemory())
				client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext))
				_, err := client.AddWatch(t.Context(), "/", framework.WatchRecursive, func(zk.Event) {})
				require.NoError(t, err)
				require.NoError(t, server.Create("/a", nil))
				synctest.Wait()
				if answered {
					_, _, err = client.Get(t.Context(), "/")
					require.NoError(t, err)
				}
				server.ResetCounts()
				server.CutConnections()
				synctest.Wait()
				_, _, err = client.Get(t.Context(), "/")
				require.NoError(t, err)
				require.Equal(t, !answered, server.Requests().Requests[zktest.OpMulti] == 1)
			})
		})
	}
}

func TestCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		leader, err := cluster.WaitLeader(t.Context())
		require.NoError(t, err)
		follower := cluster.Members()[slices.IndexFunc(cluster.Members(), func(m *zktest.Server) bool { return m != leader })]
		bed := testbed.OnCluster(cluster)
		client := bed.Client(t, framework.WithDialer(follower.DialContext))
		other := bed.Client(t, framework.WithDialer(leader.DialContext))
		_, err = other.Create(t.Context(), "/a", []byte("old"))
		require.NoError(t, err)
		require.NoError(t, client.CatchUp(t.Context()))
		require.NoError(t, cluster.Lag(follower, time.Second))
		_, err = other.Set(t.Context(), "/a", []byte("new"), -1)
		require.NoError(t, err)
		data, _, err := client.Get(t.Context(), "/a")
		require.NoError(t, err)
		require.Equal(t, "old", string(data), "the follower is behind")
		require.NoError(t, client.CatchUp(t.Context()))
		data, _, err = client.Get(t.Context(), "/a")
		require.NoError(t, err)
		require.Equal(t, "new", string(data))
	})
}

func TestCatchUpNeedsNoNode(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	client := bed.Client(t, framework.WithNamespace("ns"))
	require.NoError(t, client.CatchUp(testbed.Context(t)), "the node of the namespace does not exist")
	_, err := bed.Client(t).Create(testbed.Context(t), "/ns", nil, framework.ACL(zk.DigestACL(zk.PermAll, "user", "password")))
	require.NoError(t, err)
	require.NoError(t, client.CatchUp(testbed.Context(t)), "we may not read it")
	client.Close()
	err = client.CatchUp(context.Background())
	require.ErrorIs(t, err, framework.ErrClosed)
	var op *framework.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "catch up", op.Op)
}

// TestAServerThatIsTooBusyToCatchUpIsLeft: what it answers after that may be old.
func TestAServerThatIsTooBusyToCatchUpIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conns atomic.Int32
		var caughtUp atomic.Bool
		l := &scripted{}
		l.welcome = func(r proto.ConnectRequest) []byte { conns.Add(1); return welcome(7, 10*time.Second)(r) }
		l.answer = fine(func(h proto.RequestHeader, body []byte) []byte {
			switch {
			case h.Op == proto.OpAddWatch:
				return append(packet(&proto.ReplyHeader{Xid: h.Xid, Zxid: 5}),
					packet(&proto.ReplyHeader{Xid: proto.XidEvent, Zxid: -1}, &proto.WatcherEvent{Type: int32(zk.EventNodeDataChanged), State: 3, Path: "/a"})...)
			case h.Op == proto.OpMulti && conns.Load() < 4: // a follower says so by itself
				return packet(&proto.ReplyHeader{Xid: h.Xid, Zxid: 5, Code: proto.Throttled})
			case h.Op == proto.OpMulti:
				caughtUp.Store(true)
				return packet(&proto.ReplyHeader{Xid: h.Xid, Zxid: 6, Code: proto.NoNode})
			case conns.Load() == 1:
				return nil
			case caughtUp.Load():
				return packet(&proto.ReplyHeader{Xid: h.Xid, Zxid: 6}, &proto.DataResponse{Data: []byte("new")})
			}
			return packet(&proto.ReplyHeader{Xid: h.Xid, Zxid: 5}, &proto.DataResponse{Data: []byte("old")})
		})
		client := l.client(t, framework.WithRetryPolicy(retry.NTimes(5, time.Millisecond)))
		_, err := client.AddWatch(t.Context(), "/a", framework.WatchPersistent, func(zk.Event) {})
		require.NoError(t, err)
		data, _, err := client.Get(t.Context(), "/a")
		require.NoError(t, err)
		require.Equal(t, "new", string(data))
		require.EqualValues(t, 4, conns.Load())
	})
}

// TestAServerThatStaysTooBusyIsNotFlooded with connections that are left at once.
func TestAServerThatStaysTooBusyIsNotFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &scripted{welcome: welcome(7, 10*time.Second)}
		l.answer = fine(func(h proto.RequestHeader, _ []byte) []byte {
			switch h.Op {
			case proto.OpAddWatch:
				return append(packet(&proto.ReplyHeader{Xid: h.Xid, Zxid: 5}),
					packet(&proto.ReplyHeader{Xid: proto.XidEvent, Zxid: -1}, &proto.WatcherEvent{Type: int32(zk.EventNodeDataChanged), State: 3, Path: "/a"})...)
			case proto.OpMulti:
				return packet(&proto.ReplyHeader{Xid: h.Xid, Zxid: 5, Code: proto.Throttled})
			}
			return nil
		})
		client := l.client(t)
		_, err := client.AddWatch(t.Context(), "/a", framework.WatchPersistent, func(zk.Event) {})
		require.NoError(t, err)
		_, _, err = client.Get(t.Context(), "/a") // the connection ends
		require.Error(t, err)
		time.Sleep(5 * time.Second) // virtual time: what is counted is the connections of these seconds
		require.Less(t, l.accepted.Load(), int32(30))
	})
}
