package zktest_test

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// alone runs a test in virtual time, with a server in memory.
func alone(t *testing.T, test func(t *testing.T, s *zktest.Server), opts ...zktest.Option) {
	testbed.Bubble(t, func(t *testing.T) { test(t, zktest.NewServer(t, append(opts, zktest.WithInMemory())...)) })
}

// serve returns a server, and a client of it.
func serve(t *testing.T, opts ...zktest.Option) (*zktest.Server, *rawClient) {
	t.Helper()
	s := zktest.NewServer(t, opts...)
	return s, raw(t, s, nil)
}

// raw connects without a library.
func raw(t *testing.T, s *zktest.Server, old *rawClient) *rawClient {
	t.Helper()
	return resume(t, s, old, 10*time.Second)
}

// resume is raw for a timeout.
func resume(t testing.TB, s *zktest.Server, old *rawClient, timeout time.Duration) *rawClient {
	t.Helper()
	conn, err := s.Dial("", "", 0)
	require.NoError(t, err)
	return begin(t, conn, old, timeout)
}

// tester is a test of any kind, also one of rapid.
type tester interface {
	require.TestingT
	Helper()
	Cleanup(func())
}

// begin begins or resumes a session over a connection, which is closed when the test ends.
func begin(t tester, conn net.Conn, old *rawClient, timeout time.Duration) *rawClient {
	t.Helper()
	t.Cleanup(func() { conn.Close() })
	c, err := dialRaw(conn, old, timeout)
	require.NoError(t, err)
	return c
}

// mustCreate creates a node and returns its path.
func mustCreate(t *testing.T, c *rawClient, path string, flags int32) string {
	t.Helper()
	r := ask(t, c, opCreate, create(path, flags))
	require.Zero(t, r.code)
	return (&cursor{b: r.body}).text()
}

// send sends a request, and returns its number.
func send(t *testing.T, c *rawClient, op int32, body buffer) (xid int32) {
	t.Helper()
	xid, request := c.request(op, body)
	require.NoError(t, c.write(request))
	return xid
}

// over waits for the end of a connection.
func over(t *testing.T, c *rawClient) {
	t.Helper()
	for {
		if _, err := c.read(); err != nil {
			return
		}
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		fault          zktest.Fault
		applied, lives bool
	}{
		{zktest.FailBefore, false, true}, {zktest.LoseReply, true, true},
		{zktest.ExpireBefore, false, false}, {zktest.ExpireAfter, true, false},
	} {
		t.Run(c.fault.String(), func(t *testing.T) {
			s, client := serve(t)
			injected := s.Inject(c.fault, 1, zktest.OnOp("create"), zktest.OnPath("/n"), zktest.OnSession(client.id))
			ping(t, client)
			mustCreate(t, client, "/x", 0)
			mustCreate(t, client, "/n0", 0)
			require.False(t, injected.Met())
			require.Error(t, testbed.Err(client.call(opCreate, create("/n1", 0))), "no answer")
			require.True(t, injected.Met())
			require.Equal(t, c.fault.String()+": create /n1", injected.String())
			require.Equal(t, c.applied, testbed.Err(s.Get("/n1")) == nil)
			again := raw(t, s, client)
			require.Equal(t, c.lives, again.id == client.id)
			if c.lives {
				mustCreate(t, again, "/n2", 0)
			}
		})
	}
}

func TestExpiredSessionTakesItsNodesAlong(t *testing.T) {
	s := zktest.NewServer(t)
	owner, other := raw(t, s, nil), raw(t, s, nil)
	mustCreate(t, owner, "/owned", 1)
	ask(t, other, opExists, watched("/owned", true))
	require.Equal(t, 1, s.WatchCount())
	require.NoError(t, s.ExpireSession(owner.id))
	over(t, owner)
	ping(t, other)
	require.Equal(t, []string{"event 2 /owned"}, other.events)
	require.Zero(t, s.WatchCount())
	require.Zero(t, raw(t, s, owner).id, "the client is notified when it comes back")
	require.ErrorIs(t, s.ExpireSession(owner.id), zktest.ErrNoSession)
}

// TestNothingComesInAnOrderToRelyOn: a real server keeps the names of children, and the ephemeral
// nodes of a session, in hash tables.
func TestNothingComesInAnOrderToRelyOn(t *testing.T) {
	s := zktest.NewServer(t)
	owner, other := raw(t, s, nil), raw(t, s, nil)
	mustCreate(t, owner, "/dir", 0)
	var want, wanted []string
	for range 20 {
		path := mustCreate(t, owner, "/dir/n-", 3)
		want, wanted = append(want, strings.TrimPrefix(path, "/dir/")), append(wanted, "event 2 "+path)
		ask(t, other, opExists, watched(path, true))
	}
	list := func() (names []string) {
		c := &cursor{b: ask(t, other, opGetChildren, watched("/dir", false)).body}
		for range c.int() {
			names = append(names, c.text())
		}
		return names
	}
	names := list()
	require.ElementsMatch(t, want, names)
	require.NotEqual(t, want, names)
	require.Equal(t, names, list(), "but it does not change by itself")
	require.Equal(t, want, testbed.ServerChildren(t, s, "/dir"), "a test sees them sorted")
	require.NoError(t, s.ExpireSession(owner.id))
	ping(t, other)
	require.ElementsMatch(t, wanted, other.events)
	require.NotEqual(t, wanted, other.events)
}

func TestWhatAnOldConnectionSentIsLostWhenTheSessionMoves(t *testing.T) {
	s, client := serve(t)
	gate := s.Block(zktest.OnPath("/late"))
	send(t, client, opCreate, create("/late", 0))
	<-gate.Arrived()
	moved := raw(t, s, client)
	require.Equal(t, client.id, moved.id)
	gate.Open()
	over(t, client)
	mustCreate(t, moved, "/next", 0)
	require.False(t, s.Exists("/late"))
}

func TestStoppedServerComesBackWithDataAddressAndSessions(t *testing.T) { // CUR-TST-01, -02
	s := zktest.NewServer(t)
	address := s.Addr()
	client := raw(t, s, nil)
	mustCreate(t, client, "/kept", 0)
	mustCreate(t, client, "/owned", 1)
	s.Stop()
	s.Stop()
	over(t, client)
	require.Error(t, testbed.Err(net.Dial("tcp", address)))
	require.Error(t, testbed.Err(s.Dial("", "", 0)))
	require.NoError(t, s.Restart())
	require.Equal(t, address, s.Addr())
	require.Equal(t, client.id, raw(t, s, client).id)
	require.Equal(t, fmt.Sprintf("/kept \"\"\n/owned \"\" ephemeral %#x\n", client.id), s.Tree())
	require.NoError(t, s.Restart(), "a running one")
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Restart(), zktest.ErrClosed)
}

func TestSessionEndsAtTheEndOfATick(t *testing.T) {
	test := func(t *testing.T, s *zktest.Server) {
		began := time.Now()
		client := raw(t, s, nil)
		time.Sleep(500 * time.Millisecond)
		ping(t, client)
		over(t, client)
		// Heard at 0.5 s, plus 10 s, rounded up to the next 2 s.
		require.Equal(t, 12*time.Second, time.Since(began))
	}
	t.Run("alone", func(t *testing.T) { alone(t, test) })
	t.Run("leader", func(t *testing.T) {
		virtual(t, 3, func(t *testing.T, c *zktest.Cluster) { test(t, leader(t, c)) }, zktest.WithLag(0))
	})
}

func TestFrozenServerGoesOnCountingAndAPausedOneDoesNot(t *testing.T) {
	for name, c := range map[string]struct {
		stop, goOn func(*zktest.Server)
		lives      bool
	}{
		"frozen": {func(s *zktest.Server) { s.Freeze() }, func(s *zktest.Server) { s.Thaw() }, false},
		"paused": {(*zktest.Server).Pause, (*zktest.Server).Resume, true},
	} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			s, client := serve(t, zktest.WithInMemory())
			c.stop(s)
			time.Sleep(time.Minute) // virtual time: longer than the session timeout
			require.Equal(t, c.lives, len(s.Sessions()) == 1)
			c.goOn(s)
			if c.lives {
				ping(t, client)
			} else {
				over(t, client)
			}
		})
	}
}

func TestADelayHoldsRequestsUpUntilItIsRemoved(t *testing.T) {
	alone(t, func(t *testing.T, s *zktest.Server) {
		client := raw(t, s, nil)
		remove := s.Delay(3*time.Second, zktest.OnOp("create"))
		began := time.Now()
		mustCreate(t, client, "/slow", 0)
		require.Equal(t, 3*time.Second, time.Since(began))
		remove()
		mustCreate(t, client, "/fast", 0)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

func TestContainersAndTTLNodesAreReaped(t *testing.T) {
	alone(t, func(t *testing.T, s *zktest.Server) {
		client := raw(t, s, nil)
		for _, path := range []string{"/used", "/used/deeper", "/fresh"} {
			ask(t, client, opCreateContainer, create(path, 4))
		}
		child := mustCreate(t, client, "/used/deeper/child-", 1)
		ask(t, client, opCreateTTL, createTTL("/ttl", 5000))
		time.Sleep(3 * time.Second)
		require.Contains(t, s.Tree(), child)
		require.Contains(t, s.Tree(), "/ttl \"\" ttl 5s")
		ask(t, client, opDelete, deletion(child))
		time.Sleep(4 * time.Second)
		require.Equal(t, "/fresh \"\" container\n", s.Tree(), "one that never had a child is spared")
	}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "1000"}))
}

func TestContainersThatWereNeverUsedAreReaped(t *testing.T) {
	alone(t, func(t *testing.T, s *zktest.Server) {
		require.Zero(t, ask(t, raw(t, s, nil), opCreateContainer, create("/c", 4)).code)
		time.Sleep(9 * time.Second)
		require.True(t, s.Exists("/c"))
		time.Sleep(3 * time.Second)
		require.False(t, s.Exists("/c"))
	}, zktest.WithProperties(map[string]string{"znode.container.checkIntervalMs": "1000", "znode.container.maxNeverUsedIntervalMs": "10000"}))
}

func ptr(b buffer) *buffer { return &b }

func TestSequenceNumbersEnd(t *testing.T) {
	s, client := serve(t)
	mustCreate(t, client, "/q", 0)
	require.NoError(t, s.SetSequence("/q", 2147483646))
	require.Equal(t, "/q/a-2147483646", mustCreate(t, client, "/q/a-", 2))
	require.Equal(t, "/q/b-2147483647", mustCreate(t, client, "/q/b-", 2))
	require.Equal(t, "/q/c-2147483647", mustCreate(t, client, "/q/c-", 2), "no order any more")
	require.NoError(t, s.SetSequence("/q", -5))
	require.Equal(t, "/q/d--000000005", mustCreate(t, client, "/q/d-", 2))
	require.ErrorIs(t, s.SetSequence("/none", 1), zktest.ErrNoNode)
}

func TestRequestsAreCountedAndTraced(t *testing.T) {
	s, client := serve(t)
	var lines []string
	stop := s.Trace(func(e zktest.Event) { lines = append(lines, e.String()) })
	s.ResetCounts()
	mustCreate(t, client, "/a-", 2)
	ask(t, client, opGetData, watched("/a-0000000000", true))
	ask(t, client, opDelete, deletion("/a-0000000000"))
	ask(t, client, opDelete, deletion("/a-0000000000"))
	stop()
	ping(t, client)
	require.Equal(t, []string{
		"create /a- sequential -> /a-0000000000", "getData+watch /a-0000000000 -> ok", "deleted /a-0000000000",
		"delete /a-0000000000 -> ok", "delete /a-0000000000 -> no node",
	}, lines)
	counts := s.Requests()
	require.Equal(t, map[string]int{"create": 1, "getData": 1, "delete": 2, "ping": 1}, counts.Requests)
	require.Equal(t, 1, counts.WatchEventsSent)
	require.Positive(t, counts.BytesIn)
	require.Positive(t, counts.BytesOut)
}

func TestBadOptionsAreRefused(t *testing.T) {
	for name, opt := range map[string]zktest.Option{
		"nil": nil, "address": zktest.WithAddr("nowhere"), "version": zktest.WithVersion("3.7"), "Keeper": zktest.LikeKeeper("young"),
		"latency": zktest.WithLatency(0),
	} {
		assert.Error(t, testbed.Err(zktest.Start(opt)), name)
	}
	both := testbed.Err(zktest.Start(zktest.LikeKeeper("new"), zktest.WithVersion("3.9.6")))
	assert.ErrorContains(t, both, "LikeKeeper", "a version of ZooKeeper")
	failing := &fakeT{}
	assert.Nil(t, zktest.NewServer(failing, nil))
	assert.True(t, strings.Contains(failing.failed, "nil option"))
}

type fakeT struct{ failed string }

func (f *fakeT) Helper()             {}
func (f *fakeT) Cleanup(func())      {}
func (f *fakeT) Logf(string, ...any) {}
func (f *fakeT) Fatalf(format string, args ...any) {
	f.failed = fmt.Sprintf(format, args...)
}

// FuzzFrames sends anything at all, in and out of a session.
func FuzzFrames(f *testing.F) {
	var multi buffer
	multi.int(1).int(opMulti)
	f.Add([]byte(append(multi, part(opCreate, nil)...)), true)
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 101, 0xff, 0xff, 0xff, 0xff}, true)
	f.Add([]byte{0, 0, 0, 0}, false)
	f.Fuzz(func(t *testing.T, record []byte, inSession bool) {
		s := testbed.Must(zktest.Start(zktest.WithInMemory()))
		defer s.Close()
		conn := testbed.Must(s.Dial("", "", 0))
		defer conn.Close()
		c := &rawClient{conn: conn}
		if inSession {
			c = raw(t, s, nil)
		}
		if c.write(record) != nil {
			return // cut already
		}
		ping(t, raw(t, s, nil)) // whatever it was, another client is served
	})
}

// TestAHandshakeIsLostWithTheProcess: a handshake that was unanswered when the process ended does
// not take the session from the client's next connection.
func TestAHandshakeIsLostWithTheProcess(t *testing.T) {
	for name, end := range map[string]func(s *zktest.Server){
		"stop":    (*zktest.Server).Stop,
		"restart": func(*zktest.Server) {},
	} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			s, c := serve(t, zktest.WithInMemory())
			var later atomic.Bool
			gate := s.Block(zktest.OnOp("connect"), zktest.On(func(zktest.Request) bool { return !later.Swap(true) }))
			late := testbed.Must(s.Dial("", "", 0))
			refused := testbed.Go(func() error { return testbed.Err(dialRaw(late, c, 10*time.Second)) })
			<-gate.Arrived()
			end(s)
			require.NoError(t, s.Restart())
			require.Error(t, <-refused)
			again := raw(t, s, c)
			gate.Open()
			synctest.Wait()
			require.Len(t, s.Sessions(), 1)
			require.True(t, s.Sessions()[0].Connected)
			mustCreate(t, again, "/a", 0)
			require.NoError(t, late.Close())
		})
	}
}

// TestTheExampleInVirtualTime runs it.
func TestTheExampleInVirtualTime(t *testing.T) { workAfterAnOutage(t) }
