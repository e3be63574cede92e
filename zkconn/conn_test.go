package zkconn_test

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zkconn"
	"github.com/gocurator/curator/zktest"
)

// go-zookeeper's own Conn, which some tests compare with zkconn's, can block in flushRequests for
// ever.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/go-zookeeper/zk.(*Conn).flushRequests"))
}

// bench is a server in virtual time.
type bench struct {
	*zktest.Server
	t *testing.T
}

func virtual(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &bench{zktest.NewServer(t, zktest.WithInMemory()), t})
	})
}

// virtualRun is a subtest of virtual's kind.
func virtualRun(t *testing.T, name string, test func(t *testing.T, b *bench)) {
	testbed.RunVirtual(t, name, func(t *testing.T) { test(t, &bench{zktest.NewServer(t, zktest.WithInMemory()), t}) })
}

// connect returns a Conn that is closed when the test ends.
func (b *bench) connect(opts ...zkconn.Option) (*zkconn.Conn, <-chan zk.Event) {
	b.t.Helper()
	conn, events, err := zkconn.Connect(b.Servers(), 10*time.Second,
		append([]zkconn.Option{zkconn.WithDialer(b.Dial), zkconn.WithLogger(quiet{})}, opts...)...)
	require.NoError(b.t, err)
	b.t.Cleanup(conn.Close)
	return conn, events
}

// connector connects go-zookeeper's Conn, or this package's, which is closed when the test ends.
type connector func(t *testing.T, servers []string, dial zk.Dialer) (api, <-chan zk.Event)

func theirs(t *testing.T, servers []string, dial zk.Dialer) (api, <-chan zk.Event) {
	t.Helper()
	conn, events, err := zk.Connect(servers, 10*time.Second, zk.WithDialer(dial), zk.WithLogger(quiet{}))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn, events
}

func ours(t *testing.T, servers []string, dial zk.Dialer) (api, <-chan zk.Event) {
	t.Helper()
	conn, events, err := zkconn.Connect(servers, 10*time.Second, zkconn.WithDialer(dial), zkconn.WithLogger(quiet{}))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn, events
}

func (b *bench) create(conn api, path string) {
	b.t.Helper()
	require.NoError(b.t, testbed.Err(conn.Create(path, nil, 0, world)))
}

// steps are the states of session events up to one.
func steps(t *testing.T, events <-chan zk.Event, last zk.State) (list []string) {
	t.Helper()
	for {
		e := testbed.Receive(t, events, last.String())
		if e.Type == zk.EventSession {
			list = append(list, e.State.String()+" "+e.Server)
			if e.State == last {
				return list
			}
		}
	}
}

// go-zookeeper's Conn and this package's send the same events.
func TestSessionEventsAreGoZookeepers(t *testing.T) {
	record := func(connect connector) (list []string) {
		virtual(t, func(t *testing.T, b *bench) {
			conn, events := connect(t, b.Servers(), b.Dial)
			note := func(last zk.State) {
				for _, step := range steps(b.t, events, last) {
					list = append(list, step[:len(step)-len(b.Addr())])
					require.Contains(b.t, step, b.Addr())
				}
			}
			note(zk.StateHasSession)
			first := conn.SessionID()
			require.NotZero(b.t, first)
			require.Equal(b.t, zk.StateHasSession, conn.State())
			b.CutConnections()
			note(zk.StateHasSession)
			require.Equal(b.t, first, conn.SessionID())
			require.NoError(b.t, b.ExpireSession(first))
			note(zk.StateHasSession)
			require.NotEqual(b.t, first, conn.SessionID())
			require.Equal(b.t, b.Addr(), conn.Server())
			conn.Close()
			note(zk.StateDisconnected)
			_, open := <-events
			require.False(b.t, open)
			require.Equal(b.t, zk.StateDisconnected, conn.State())
		})
		return list
	}
	want := record(theirs)
	require.Contains(t, want, "StateExpired ")
	require.Equal(t, want, record(ours))
}

func TestTheSessionExpiresAlsoIfNoServerSaysSo(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		conn, events := b.connect(zkconn.WithEventCallback(func(zk.Event) {}))
		steps(t, events, zk.StateHasSession)
		b.RefuseConnections(true)
		b.CutConnections()
		began := time.Now()
		for e := range events {
			if e.State == zk.StateExpired {
				break
			}
		}
		require.InDelta(t, 10, time.Since(began).Seconds(), 1)
		require.Zero(t, conn.SessionID())
	})
}

func TestAnOperationThatWaitsMayBeSentInTheNextSession(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		conn, events := b.connect()
		steps(t, events, zk.StateHasSession)
		first := conn.SessionID()
		b.RefuseConnections(true)
		b.CutConnections()
		synctest.Wait()
		require.NoError(t, b.ExpireSession(first))
		created := testbed.Go(func() error { return testbed.Err(conn.Create("/a", nil, zk.FlagEphemeral, world)) })
		synctest.Wait()
		b.RefuseConnections(false)
		require.NoError(t, testbed.Receive(t, created, "the node"))
		owner := testbed.ServerStat(t, b.Server, "/a").EphemeralOwner
		require.Equal(t, conn.SessionID(), owner)
		require.NotEqual(t, first, owner)
	})
}

// slowToRead is a connection on which nothing is read before a moment.
type slowToRead struct {
	net.Conn
	until time.Time
}

func (c slowToRead) Read(p []byte) (int, error) {
	time.Sleep(time.Until(c.until)) // virtual time
	return c.Conn.Read(p)
}

// TestOperation_WaitsForAHandshake that is in progress when its time for a connection has passed,
// as in go-zookeeper. If the handshake fails, the operation fails.
func TestOperation_WaitsForAHandshake(t *testing.T) {
	for name, fails := range map[string]bool{"succeeds": false, "fails": true} {
		virtualRun(t, name, func(t *testing.T, b *bench) {
			var open net.Conn
			conn, _ := b.connect(zkconn.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
				nc, err := b.Dial(network, address, timeout)
				open = nc
				return slowToRead{nc, time.Now().Add(5 * time.Second)}, err
			}))
			if fails {
				time.AfterFunc(3*time.Second, func() {
					b.RefuseConnections(true)
					open.Close()
				})
			}
			began := time.Now()
			_, _, err := conn.Exists("/a")
			if fails {
				require.Equal(t, zkconn.ErrNoServer, err)
				require.Equal(t, 5*time.Second, time.Since(began), "the read of a closed connection")
			} else {
				require.NoError(t, err)
				require.Equal(t, 5*time.Second, time.Since(began).Truncate(time.Second))
			}
		})
	}
}

// TestRequestFail of go-zookeeper allows two seconds.
func TestAnOperationFailsSoonIfThereIsNoServer(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		b.RefuseConnections(true)
		conn, _ := b.connect()
		began := time.Now()
		require.Equal(t, zkconn.ErrNoServer, testbed.Err(conn.Get("/a")))
		require.Less(t, time.Since(began), 2*time.Second)
		began = time.Now()
		require.Equal(t, zkconn.ErrNoServer, conn.AddAuth("digest", []byte("user:secret")))
		require.Less(t, time.Since(began), 2*time.Second)
		b.RefuseConnections(false)
		b.create(conn, "/a")
	})
}

func TestAWriteIsSentOnce(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		conn, events := b.connect()
		steps(t, events, zk.StateHasSession)
		b.create(conn, "/a")
		for _, fault := range []zktest.Fault{zktest.FailBefore, zktest.LoseReply} {
			before := b.Requests().Requests["setData"]
			injected := b.Inject(fault, 0, zktest.OnOp("setData"))
			require.Equal(t, zkconn.ErrConnectionClosed, testbed.Err(conn.Set("/a", []byte("x"), -1)))
			require.True(t, injected.Met())
			steps(t, events, zk.StateHasSession)
			require.LessOrEqual(t, b.Requests().Requests["setData"]-before, 1)
		}
		require.EqualValues(t, 1, testbed.ServerStat(t, b.Server, "/a").Version)
	})
}

func TestAProtectedNodeIsCreatedOnceWhateverIsLost(t *testing.T) {
	for _, fault := range testbed.Faults {
		virtualRun(t, fault.String(), func(t *testing.T, b *bench) {
			conn, _ := b.connect()
			b.create(conn, "/a")
			injected := b.Inject(fault, 0, zktest.OnCreate())
			path, err := conn.CreateProtectedEphemeralSequential("/a/n-", nil, world)
			require.NoError(t, err)
			require.True(t, injected.Met())
			children := testbed.ServerChildren(t, b.Server, "/a")
			require.Len(t, children, 1)
			require.Equal(t, "/a/"+children[0], path)
			require.Equal(t, conn.SessionID(), testbed.ServerStat(t, b.Server, path).EphemeralOwner)
		})
	}
}

func TestCredentialsStayForLaterConnections(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		conn, events := b.connect()
		require.NoError(t, conn.AddAuth("digest", []byte("user:secret")))
		require.NoError(t, testbed.Err(conn.Create("/a", nil, 0, zkconn.DigestACL(zk.PermAll, "user", "secret"))))
		steps(t, events, zk.StateHasSession)
		b.CutConnections()
		steps(t, events, zk.StateHasSession)
		require.NoError(t, testbed.Err(conn.Get("/a")))
		require.Equal(t, zkconn.ErrAuthFailed, conn.AddAuth("unknown", nil))
	})
}

func TestACallbackGetsAllEventsAndMayUseTheConn(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		const n = 110 // more than the channel holds
		got := make(chan string, 3*n)
		connected := make(chan *zkconn.Conn, 1)
		var conn *zkconn.Conn // of the callback
		other, events := b.connect(zkconn.WithEventCallback(func(e zk.Event) {
			if conn == nil {
				conn = <-connected
			}
			if e.Type == zk.EventNodeDataChanged {
				assert.NoError(t, testbed.Err(conn.Get(e.Path)))
				got <- e.Path
			}
		}))
		connected <- other
		for i := range n {
			path := fmt.Sprintf("/%d", i)
			b.create(other, path)
			watches["get"](t, other, path)
			require.NoError(t, testbed.Err(other.Set(path, nil, -1)))
		}
		require.Len(t, events, cap(events))
		for i := range n {
			require.Equal(t, fmt.Sprintf("/%d", i), testbed.Receive(t, got, "an event"))
		}
	})
}

func TestACallbackMayCloseTheConn(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		connected := make(chan *zkconn.Conn, 1)
		conn, events := b.connect(zkconn.WithEventCallback(func(e zk.Event) {
			if e.State == zk.StateHasSession {
				(<-connected).Close()
			}
		}))
		connected <- conn
		steps(t, events, zk.StateDisconnected)
	})
}

func TestCloseEndsTheSessionAndEveryCall(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		conn, _ := b.connect()
		require.NoError(t, testbed.Err(conn.Create("/e", nil, zk.FlagEphemeral, world)))
		b.Block(zktest.OnPath("/slow"))
		failed := testbed.Go(func() error { return testbed.Err(conn.Get("/slow")) })
		synctest.Wait()
		conn.Close()
		require.Equal(t, zkconn.ErrConnectionClosed, <-failed)
		require.Eventually(t, func() bool { return !b.Exists("/e") }, time.Minute, time.Second)
	})
}

func TestCloseWithoutAServerTakesNoLongerThanASecond(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		b.RefuseConnections(true)
		conn, _ := b.connect()
		began := time.Now()
		conn.Close()
		require.LessOrEqual(t, time.Since(began), time.Second)
	})
}

// A dialer that does not keep its timeout holds up neither Close nor the next server.
func TestADialerThatHangsIsLeft(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		release := make(chan struct{})
		defer close(release)
		conn, _ := b.connect(zkconn.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
			assert.Equal(t, time.Second, timeout)
			<-release
			return b.Dial(network, address, timeout)
		}))
		conn.Close()
	})
}

func TestDialAndConnectWithDialerOpenRealConnections(t *testing.T) {
	server := zktest.NewServer(t)
	use := func(conn *zkconn.Conn, _ <-chan zk.Event, err error) {
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, testbed.Err(conn.Get("/")))
		require.NoError(t, conn.Client().WaitConnected(t.Context()))
	}
	use(zkconn.Connect(server.Servers(), 10*time.Second, zkconn.WithLogger(quiet{})))
	var dials atomic.Int32
	dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
		dials.Add(1)
		return net.DialTimeout(network, address, timeout)
	}
	use(zkconn.ConnectWithDialer(server.Servers(), 10*time.Second, dial))
	require.EqualValues(t, 1, dials.Load())
}

// hosts is a host provider of one server.
type hosts struct {
	server    string
	init      []string
	err       error
	connected atomic.Int32
}

func (h *hosts) Init(servers []string) error {
	h.init = servers
	return h.err
}
func (h *hosts) Len() int             { return 1 }
func (h *hosts) Next() (string, bool) { return h.server, false }
func (h *hosts) Connected()           { h.connected.Add(1) }

func TestAHostProviderNamesTheServers(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		h := &hosts{server: b.Addr()}
		conn, events, err := zkconn.Connect([]string{"zk1", "zk2:2182"}, 10*time.Second,
			zkconn.WithHostProvider(h), zkconn.WithDialer(b.Dial), zkconn.WithLogger(quiet{}))
		require.NoError(t, err)
		defer conn.Close()
		require.Equal(t, []string{"zk1:2181", "zk2:2182"}, h.init)
		steps(t, events, zk.StateHasSession)
		require.EqualValues(t, 1, h.connected.Load())
		require.Equal(t, b.Addr(), conn.Server())
	})
	h := &hosts{err: errors.New("no DNS")}
	_, _, err := zkconn.Connect([]string{"zk1"}, time.Second, zkconn.WithHostProvider(h))
	require.Equal(t, h.err, err)
}

func TestBadArgumentsOfConnect(t *testing.T) {
	for name, test := range map[string]struct {
		servers []string
		timeout time.Duration
		opts    []zkconn.Option
	}{
		"no servers": {nil, time.Second, nil},
		"no server":  {[]string{""}, time.Second, nil},
		"no name":    {[]string{"zk1!"}, time.Second, nil},
		"a list":     {[]string{"zk1:2181,zk2:2181"}, time.Second, nil},
		"a chroot":   {[]string{"zk1:2181/app"}, time.Second, nil},
		"timeout":    {[]string{"zk1"}, 0, nil},
		"buffer":     {[]string{"zk1"}, time.Second, []zkconn.Option{zkconn.WithMaxConnBufferSize(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			conn, events, err := zkconn.Connect(test.servers, test.timeout, test.opts...)
			require.Error(t, err)
			require.Nil(t, conn)
			require.Nil(t, events)
		})
	}
}

func TestARequestThatIsTooLongIsNotSent(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		conn, _ := b.connect(zkconn.WithMaxConnBufferSize(2048), zkconn.WithMaxBufferSize(1))
		require.Equal(t, zkconn.ErrShortBuffer, testbed.Err(conn.Create("/a", make([]byte, 2048), 0, world)))
		b.create(conn, "/a")
	})
}

func TestTheClientSharesTheSession(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		conn, _ := b.connect()
		session := testbed.Session(t, conn.Client())
		require.Equal(t, conn.SessionID(), session.ID())
	})
}

// TestNilDataAreNull, as in go-zookeeper. For the client they are empty data: Java's recipes fail
// on null.
func TestNilDataAreNull(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		conn, _ := b.connect()
		is := func(path string, want []byte) {
			t.Helper()
			data, _, err := conn.Get(path)
			require.NoError(t, err)
			require.Equal(t, want, data)
		}
		b.create(conn, "/ours")
		is("/ours", nil)
		require.NoError(t, testbed.Err(conn.Set("/ours", []byte("x"), 0)))
		require.ErrorIs(t, testbed.Err(conn.Set("/ours", nil, 0)), zk.ErrBadVersion)
		require.NoError(t, testbed.Err(conn.Set("/ours", nil, 1)))
		is("/ours", nil)
		create := &zk.CreateRequest{Path: "/multi", Acl: world}
		require.NoError(t, testbed.Err(conn.Multi(create, &zk.SetDataRequest{Path: "/ours", Version: -1})))
		is("/multi", nil)
		is("/ours", nil)
		testbed.Create(t, conn.Client(), "/theirs", nil)
		is("/theirs", []byte{})
	})
}
