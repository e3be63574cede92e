package framework_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestAnAbsurdGrantIsCapped has a server grant a session of 24 days, with a zxid that no server has
// reached. So all servers close the connections of that session from then on.
func TestAnAbsurdGrantIsCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		stop := server.Rewrite(func(r zktest.Request, answer []byte) []byte {
			if r.Op == "connect" {
				binary.BigEndian.PutUint32(answer[8:], 1<<31-1)
			} else {
				binary.BigEndian.PutUint64(answer[8:], 1<<62)
			}
			return answer
		}, zktest.OnOp("connect", "exists"))
		client := testbed.ClientOf(t, server, framework.WithSessionTimeout(10*time.Second))
		_, _, _ = client.Exists(t.Context(), "/a")
		stop()
		server.CutConnections()
		time.Sleep(time.Hour) // virtual time
		require.NoError(t, client.WaitConnected(testbed.Timeout(t, time.Minute)))
	})
}

// TestEachMemberBehindOneNameIsTried: a member without a quorum accepts and hangs up. It was the
// only one that was tried.
func TestEachMemberBehindOneNameIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		var dialed []string
		lookups := 0
		client := testbed.NewClient(t, []string{"zk.test:2181"}, framework.WithSessionTimeout(10*time.Second),
			framework.WithResolver(func(_ context.Context, host string) ([]string, error) {
				lookups++
				require.Equal(t, "zk.test", host)
				return []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, nil
			}),
			framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				dialed = append(dialed, address)
				if address == "10.0.0.2:2181" {
					return server.DialContext(ctx, network, server.Addr())
				}
				near, far := net.Pipe()
				return near, far.Close()
			}))
		for range 5 {
			require.NoError(t, client.WaitConnected(testbed.Timeout(t, time.Second)), "all are tried in one round")
			require.Equal(t, "10.0.0.2:2181", dialed[len(dialed)-1])
			time.Sleep(2 * time.Second) // virtual time
			server.CutConnections()
			synctest.Wait()
		}
		for _, bad := range []string{"10.0.0.1:2181", "10.0.0.3:2181"} {
			again := slices.DeleteFunc(slices.Clone(dialed), func(address string) bool { return address != bad })
			require.LessOrEqual(t, len(again), 1, "one that failed a moment ago is tried last")
		}
		require.GreaterOrEqual(t, lookups, 5, "names are resolved again in each round")
	})
}

// TestNamesThatDoNotResolveAreLeft: DNS does not know one member, and does not answer about
// another. A session outlasts that.
func TestNamesThatDoNotResolveAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		asked := map[string]bool{}
		client := testbed.NewClient(t, []string{"gone.test", "slow.test", "zk.test"}, framework.WithSessionTimeout(10*time.Second),
			framework.WithResolver(func(ctx context.Context, host string) ([]string, error) {
				asked[host] = true
				switch host {
				case "gone.test":
					return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
				case "slow.test":
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return []string{"10.0.0.1"}, nil
			}),
			framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				require.Equal(t, "10.0.0.1:2181", address)
				return server.DialContext(ctx, network, server.Addr())
			}))
		session := testbed.Session(t, client)
		for range 20 { // the order is random
			server.CutConnections()
			synctest.Wait()
			require.NoError(t, client.WaitConnected(testbed.Context(t)))
			require.NoError(t, session.Err())
			time.Sleep(time.Minute) // virtual time: a failed server is not tried last any more
		}
		require.Len(t, asked, 3)
	})
}

// TestAnAnswerToAnEarlierHandshake has a client resume its session at a follower with a slow link
// to the leader, give up, and reconnect to the same follower. The follower mistakes the leader's
// answer to the first handshake for an answer to the second. Then a partition separates the
// follower from the leader. The client must be notified of the end of its session before its node
// is deleted.
func TestAnAnswerToAnEarlierHandshake(t *testing.T) {
	for seed := range uint64(testlevel.Pick(100, 100, 400)) {
		testbed.RunVirtual(t, fmt.Sprint(seed), func(t *testing.T) { comeBackTwice(t, seed) })
	}
}

func comeBackTwice(t *testing.T, seed uint64) {
	cluster := zktest.NewCluster(t, 3, zktest.WithInMemory(), zktest.WithSeed(seed), zktest.WithProperties(map[string]string{"tickTime": "200"}),
		zktest.WithMemberLatency(5*time.Second), zktest.WithSyncTimeout(time.Hour), zktest.WithProperties(map[string]string{"minSessionTimeout": "1000", "maxSessionTimeout": "60000"}))
	leader, followers := testbed.Leader(t, cluster)
	follower := followers[0]
	client := testbed.NewClient(t, cluster.Servers()[:1], framework.WithDialer(follower.DialContext),
		framework.WithSessionTimeout(40*time.Second))
	require.NoError(t, client.WaitConnected(t.Context()))
	testbed.Create(t, client, "/held", nil, framework.As(framework.Ephemeral))
	session := testbed.Session(t, client)
	testbed.Depend(t, session, connstate.LostEndsHold, func(error) {})

	follower.CutConnections()
	// Virtual time: the first connect request is in flight to the leader, whose answer takes
	// longer.
	time.Sleep(7 * time.Second)
	follower.CutConnections()
	synctest.Wait()
	require.NoError(t, client.WaitConnected(t.Context()))
	require.NoError(t, cluster.Partition(follower))
	knowsItsEnd(t, leader, session)
}

// knowsItsEnd requires that a session has ended when a server deletes its node /held.
func knowsItsEnd(t *testing.T, server *zktest.Server, session *framework.Session) {
	t.Helper()
	for range 10_000 {
		// Virtual time: to look, every 10 ms, whether the node or the session ends first.
		time.Sleep(10 * time.Millisecond)
		if !server.Exists("/held") {
			require.Error(t, session.Err(), "the node is gone, and its owner does not know")
			return
		}
	}
	t.Fatal("the node is still there")
}

// TestWhatAnEventReportedIsReadOnTheNextConnection has a client hear of a change by an event, and
// then move to a server that lags behind, before anything else shows how new its first server was.
// The simulation found it: a holder read the counter as it was before its predecessor wrote, and
// wrote the same number.
func TestWhatAnEventReportedIsReadOnTheNextConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Later versions number the transactions of events.
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory(), zktest.WithVersion("3.8.0"))
		leader, followers := testbed.Leader(t, cluster)
		bed := testbed.OnCluster(cluster)
		var at atomic.Pointer[zktest.Server]
		at.Store(followers[0])
		client := bed.Client(t, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			return at.Load().DialContext(ctx, network, address)
		}))
		other := bed.Client(t, framework.WithDialer(leader.DialContext))
		testbed.Create(t, other, "/counter", []byte("3"))
		testbed.CatchUp(t, client)
		var notified zk.Event
		testbed.AddWatch(t, client, "/counter", framework.WatchPersistent, func(e zk.Event) {
			notified = e
			followers[0].CutConnections()
		})
		testbed.Eventually(t, func() bool { return followers[1].Exists("/counter") }, "the follower has the node")
		require.NoError(t, cluster.Lag(followers[0], 0))
		at.Store(followers[1])
		require.NoError(t, cluster.Lag(followers[1], time.Second))
		testbed.Set(t, other, "/counter", []byte("4"))
		synctest.Wait()
		require.Equal(t, zk.EventNodeDataChanged, notified.Type)
		require.Equal(t, "4", testbed.Get(t, client, "/counter"))
	})
}

// TestTheNextServerIsAskedToCatchUpOnlyAfterAnEvent: an answer says how new the server is, and so
// do events of ZooKeeper 3.9.
func TestTheNextServerIsAskedToCatchUpOnlyAfterAnEvent(t *testing.T) {
	for _, c := range []struct {
		name     string
		version  string
		answered bool
		asked    bool
	}{
		{"an event", "3.8.0", false, true},
		{"an event, then an answer", "3.8.0", true, false},
		{"an event with its zxid", "3.9.6", false, false},
	} {
		testbed.RunVirtual(t, c.name, func(t *testing.T) {
			server := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithVersion(c.version))
			client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext))
			testbed.AddWatch(t, client, "/", framework.WatchRecursive, func(zk.Event) {})
			require.NoError(t, server.Create("/a", nil))
			synctest.Wait()
			if c.answered {
				testbed.Get(t, client, "/")
			}
			server.ResetCounts()
			server.CutConnections()
			synctest.Wait()
			testbed.Get(t, client, "/")
			require.Equal(t, c.asked, server.Requests().Requests["multi"] == 1)
		})
	}
}

func TestWhatIsReadAfterSyncIsAsNewAsWhatWasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		leader, followers := testbed.Leader(t, cluster)
		follower := followers[0]
		bed := testbed.OnCluster(cluster)
		client := bed.Client(t, framework.WithDialer(follower.DialContext))
		other := bed.Client(t, framework.WithDialer(leader.DialContext))
		testbed.Create(t, other, "/a", []byte("old"))
		require.NoError(t, client.Sync(t.Context()))
		require.NoError(t, cluster.Lag(follower, time.Second))
		testbed.Set(t, other, "/a", []byte("new"))
		require.Equal(t, "old", testbed.Get(t, client, "/a"), "the follower is behind")
		require.NoError(t, client.Sync(t.Context()))
		require.Equal(t, "new", testbed.Get(t, client, "/a"))
	})
}

func TestSyncNeedsNoNode(t *testing.T) {
	bed := testbed.On(zktest.NewServer(t))
	client := bed.Client(t, framework.WithNamespace("ns"))
	require.NoError(t, client.Sync(testbed.Context(t)), "the node of the namespace does not exist")
	testbed.Create(t, bed.Client(t), "/ns", nil, framework.ACL(zk.DigestACL(zk.PermAll, "user", "password")))
	require.NoError(t, client.Sync(testbed.Context(t)), "the client is not permitted to read it")
	client.Close()
	err := client.Sync(context.Background())
	require.ErrorIs(t, err, framework.ErrClosed)
	testbed.OneOp(t, err, "sync", "/")
}

// watched is the answer to a request for a watch of /a, and an event of it.
func watched(h proto.RequestHeader) []byte {
	event := &proto.WatcherEvent{Type: int32(zk.EventNodeDataChanged), State: 3, Path: "/a"}
	return append(packet(&proto.ReplyHeader{Xid: h.Xid, Zxid: 5}), packet(&proto.ReplyHeader{Xid: proto.XidEvent, Zxid: -1}, event)...)
}

// TestAServerThatIsTooBusyToCatchUpIsLeft: its later answers may be old.
func TestAServerThatIsTooBusyToCatchUpIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conns atomic.Int32
		var caughtUp atomic.Bool
		l := &scripted{}
		l.welcome = func(r proto.ConnectRequest) []byte { conns.Add(1); return welcome(7, 10*time.Second)(r) }
		honest := fine(func(h proto.RequestHeader, body []byte) []byte {
			switch {
			case h.Op == proto.OpAddWatch:
				return watched(h)
			case conns.Load() == 1:
				return nil
			case caughtUp.Load():
				return packet(&proto.ReplyHeader{Xid: h.Xid, Zxid: 6}, &proto.DataResponse{Data: []byte("new")})
			}
			return packet(&proto.ReplyHeader{Xid: h.Xid, Zxid: 5}, &proto.DataResponse{Data: []byte("old")})
		})
		l.answer = func(h proto.RequestHeader, body []byte) []byte {
			switch {
			case h.Op == proto.OpMulti && conns.Load() < 4: // a follower says so by itself
				return packet(&proto.ReplyHeader{Xid: h.Xid, Zxid: 5, Code: proto.Throttled})
			case h.Op == proto.OpMulti:
				caughtUp.Store(true)
				return packet(&proto.ReplyHeader{Xid: h.Xid, Zxid: 6, Code: proto.NoNode})
			}
			return honest(h, body)
		}
		client := l.client(t, framework.WithRetryPolicy(retry.NTimes(5, time.Millisecond)))
		testbed.AddWatch(t, client, "/a", framework.WatchPersistent, func(zk.Event) {})
		require.Equal(t, "new", testbed.Get(t, client, "/a"))
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
				return watched(h)
			case proto.OpMulti:
				return packet(&proto.ReplyHeader{Xid: h.Xid, Zxid: 5, Code: proto.Throttled})
			}
			return nil
		})
		client := l.client(t)
		testbed.AddWatch(t, client, "/a", framework.WatchPersistent, func(zk.Event) {})
		_, _, err := client.Get(t.Context(), "/a") // the connection ends
		require.Error(t, err)
		// Virtual time: the test counts the connections of these seconds.
		time.Sleep(5 * time.Second)
		require.Less(t, l.accepted.Load(), int32(30))
	})
}
