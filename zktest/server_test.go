package zktest_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// raw connects without a library.
func raw(t *testing.T, s *zktest.Server, old *rawClient) *rawClient {
	t.Helper()
	conn, err := s.Dial("", "", 0)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	c, err := dialRaw(conn, old, 10*time.Second)
	require.NoError(t, err)
	return c
}

func create(path string, flags int32) buffer {
	var b buffer
	b.text(path).bytes(nil).int(1).int(31).text("world").text("anyone").int(flags)
	return b
}

// mustCreate creates a node and returns its path.
func mustCreate(t *testing.T, c *rawClient, path string, flags int32) string {
	t.Helper()
	r := ask(t, c, opCreate, create(path, flags))
	require.Zero(t, r.code)
	return (&cursor{b: r.body}).text()
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

func TestGoZookeeperConnectsUnchanged(t *testing.T) {
	s := zktest.NewServer(t)
	conn, events, err := zk.Connect([]string{s.Addr()}, 10*time.Second, zk.WithLogger(quiet{}))
	require.NoError(t, err)
	defer func() {
		conn.Close()
		for range events {
		}
	}()
	path, err := conn.Create("/node-", []byte("data"), zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	require.Equal(t, "/node-0000000000", path)
	data, stat, watch, err := conn.GetW(path)
	require.NoError(t, err)
	require.Equal(t, "data", string(data))
	require.Equal(t, conn.SessionID(), stat.EphemeralOwner)
	require.NoError(t, conn.Delete(path, 0))
	require.Equal(t, zk.EventNodeDeleted, (<-watch).Type)
	sessions := s.Sessions()
	require.Len(t, sessions, 1)
	require.Equal(t, conn.SessionID(), sessions[0].ID)
	require.True(t, sessions[0].Connected)
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
			s := zktest.NewServer(t)
			client := raw(t, s, nil)
			injected := s.Inject(c.fault, 1, zktest.OnOp("create"), zktest.OnPath("/n"), zktest.OnSession(client.id))
			ask(t, client, opPing, nil)
			mustCreate(t, client, "/x", 0)
			mustCreate(t, client, "/n0", 0)
			require.False(t, injected.Met())
			_, err := client.call(opCreate, create("/n1", 0))
			require.Error(t, err, "no answer")
			require.True(t, injected.Met())
			require.Equal(t, c.fault.String()+": create /n1", injected.String())
			_, err = s.Get("/n1")
			require.Equal(t, c.applied, err == nil)
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
	var exists buffer
	exists.text("/owned").bool(true)
	ask(t, other, opExists, exists)
	require.Equal(t, 1, s.WatchCount())
	require.NoError(t, s.ExpireSession(owner.id))
	over(t, owner)
	ask(t, other, opPing, nil)
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
		var b buffer
		ask(t, other, opExists, *b.text(path).bool(true))
	}
	list := func() (names []string) {
		var b buffer
		r := ask(t, other, opGetChildren, *b.text("/dir").bool(false))
		c := &cursor{b: r.body}
		for range c.int() {
			names = append(names, c.text())
		}
		return names
	}
	names := list()
	require.ElementsMatch(t, want, names)
	require.NotEqual(t, want, names)
	require.Equal(t, names, list(), "but it does not change by itself")
	sorted, err := s.Children("/dir")
	require.NoError(t, err)
	require.Equal(t, want, sorted, "a test sees them sorted")
	require.NoError(t, s.ExpireSession(owner.id))
	ask(t, other, opPing, nil)
	require.ElementsMatch(t, wanted, other.events)
	require.NotEqual(t, wanted, other.events)
}

func TestBlockedRequestIsAppliedWhenTheGateOpens(t *testing.T) {
	s := zktest.NewServer(t)
	client, other := raw(t, s, nil), raw(t, s, nil)
	gate := s.Block(zktest.OnPath("/late"))
	var b buffer
	b.int(1).int(opCreate)
	require.NoError(t, client.write(append(b, create("/late", 0)...)))
	<-gate.Arrived()
	mustCreate(t, other, "/meanwhile", 0)
	_, err := s.Get("/late")
	require.ErrorIs(t, err, zktest.ErrNoNode)
	gate.Open()
	_, err = client.read()
	require.NoError(t, err)
	_, err = s.Get("/late")
	require.NoError(t, err)
}

func TestWhatAnOldConnectionSentIsLostWhenTheSessionMoves(t *testing.T) {
	s := zktest.NewServer(t)
	client := raw(t, s, nil)
	gate := s.Block(zktest.OnPath("/late"))
	var b buffer
	b.int(1).int(opCreate)
	require.NoError(t, client.write(append(b, create("/late", 0)...)))
	<-gate.Arrived()
	moved := raw(t, s, client)
	require.Equal(t, client.id, moved.id)
	gate.Open()
	over(t, client)
	mustCreate(t, moved, "/next", 0)
	_, err := s.Get("/late")
	require.ErrorIs(t, err, zktest.ErrNoNode)
}

func TestBlockedReplyComesWhenTheGateOpens(t *testing.T) {
	s := zktest.NewServer(t)
	client := raw(t, s, nil)
	gate := s.BlockReplies(zktest.OnOp("create"))
	answered := testbed.Go(func() error {
		_, err := client.call(opCreate, create("/node", 0))
		return err
	})
	<-gate.Arrived()
	_, err := s.Get("/node")
	require.NoError(t, err, "applied")
	select {
	case <-answered:
		t.Fatal("answered")
	default:
	}
	gate.Open()
	require.NoError(t, <-answered)
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
	_, err := net.Dial("tcp", address)
	require.Error(t, err)
	_, err = s.Dial("", "", 0)
	require.Error(t, err)
	require.NoError(t, s.Restart())
	require.Equal(t, address, s.Addr())
	require.Equal(t, client.id, raw(t, s, client).id)
	require.Equal(t, fmt.Sprintf("/kept \"\"\n/owned \"\" ephemeral %#x\n", client.id), s.Tree())
	require.NoError(t, s.Restart(), "a running one")
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Restart(), zktest.ErrClosed)
}

func TestConnectionsAreCutAndRefused(t *testing.T) {
	s := zktest.NewServer(t)
	client := raw(t, s, nil)
	s.RefuseConnections(true)
	s.CutConnections()
	over(t, client)
	_, err := s.Dial("", "", 0)
	require.Error(t, err)
	s.RefuseConnections(false)
	require.Equal(t, client.id, raw(t, s, client).id)
}

func TestSessionEndsAtTheEndOfATick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithInMemory())
		began := time.Now()
		client := raw(t, s, nil)
		time.Sleep(500 * time.Millisecond)
		ask(t, client, opPing, nil)
		over(t, client)
		// Heard at 0.5 s, plus 10 s, rounded up to the next 2 s.
		require.Equal(t, 12*time.Second, time.Since(began))
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
			s := zktest.NewServer(t, zktest.WithInMemory())
			client := raw(t, s, nil)
			c.stop(s)
			time.Sleep(time.Minute) // virtual time: longer than the session timeout
			require.Equal(t, c.lives, len(s.Sessions()) == 1)
			c.goOn(s)
			if c.lives {
				ask(t, client, opPing, nil)
			} else {
				over(t, client)
			}
		})
	}
}

func TestADelayHoldsRequestsUpUntilItIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithInMemory())
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
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "1000"}))
		client := raw(t, s, nil)
		container := func(path string) {
			ask(t, client, opCreateContainer, create(path, 4))
		}
		container("/used")
		container("/used/deeper")
		container("/fresh")
		child := mustCreate(t, client, "/used/deeper/child-", 1)
		ask(t, client, opCreateTTL, *ptr(create("/ttl", 5)).long(5000))
		time.Sleep(3 * time.Second)
		require.Contains(t, s.Tree(), child)
		require.Contains(t, s.Tree(), "/ttl \"\" ttl 5s")
		var b buffer
		b.text(child).int(-1)
		ask(t, client, opDelete, b)
		time.Sleep(4 * time.Second)
		require.Equal(t, "/fresh \"\" container\n", s.Tree(), "one that never had a child is spared")
	})
}

func TestContainersThatWereNeverUsedAreReaped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithProperties(map[string]string{"znode.container.checkIntervalMs": "1000", "znode.container.maxNeverUsedIntervalMs": "10000"}))
		r := ask(t, raw(t, s, nil), opCreateContainer, create("/c", 4))
		require.Zero(t, r.code)
		time.Sleep(9 * time.Second)
		require.True(t, s.Exists("/c"))
		time.Sleep(3 * time.Second)
		require.False(t, s.Exists("/c"))
	})
}

func ptr(b buffer) *buffer { return &b }

func TestSequenceNumbersEnd(t *testing.T) {
	s := zktest.NewServer(t)
	client := raw(t, s, nil)
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
	s := zktest.NewServer(t)
	client := raw(t, s, nil)
	var lines []string
	stop := s.Trace(func(e zktest.Event) { lines = append(lines, e.String()) })
	s.ResetCounts()
	mustCreate(t, client, "/a-", 2)
	var b buffer
	b.text("/a-0000000000").bool(true)
	ask(t, client, opGetData, b)
	b = nil
	b.text("/a-0000000000").int(-1)
	ask(t, client, opDelete, b)
	ask(t, client, opDelete, b)
	stop()
	ask(t, client, opPing, nil)
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

func TestFourLetterWords(t *testing.T) {
	s := zktest.NewServer(t)
	raw(t, s, nil)
	for word, want := range map[string]string{
		"ruok": "imok", "srvr": "Mode: standalone", "stat": "Zxid: 0x", "mntr": "zk_server_state\tstandalone",
		"isro": "rw", "conf": "tickTime=2000", "cons": "sid=0x",
	} {
		conn, err := net.Dial("tcp", s.Addr())
		require.NoError(t, err)
		_, err = io.WriteString(conn, word)
		require.NoError(t, err)
		text, err := io.ReadAll(conn)
		require.NoError(t, err)
		assert.Contains(t, string(text), want, word)
		require.NoError(t, conn.Close())
	}
}

func TestTooLongARequestCutsTheConnection(t *testing.T) {
	s := zktest.NewServer(t, zktest.WithProperties(map[string]string{"jute.maxbuffer": "1000"}))
	client := raw(t, s, nil)
	var b buffer
	b.text("/big").bytes(make([]byte, 1000))
	_, err := client.call(opSetData, b)
	require.Error(t, err)
}

func TestOldServersDoNotKnowContainers(t *testing.T) {
	s := zktest.NewServer(t, zktest.WithoutContainers())
	r := ask(t, raw(t, s, nil), opCreateContainer, create("/c", 4))
	require.EqualValues(t, -6, r.code)
}

func TestBadOptionsAreRefused(t *testing.T) {
	for name, opt := range map[string]zktest.Option{
		"nil": nil, "address": zktest.WithAddr("nowhere"), "version": zktest.WithVersion("3.7"), "Keeper": zktest.LikeKeeper("young"),
		"latency": zktest.WithLatency(0),
	} {
		_, err := zktest.Start(opt)
		assert.Error(t, err, name)
	}
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
	multi.int(1).int(opMulti).int(opCreate).bool(false).int(-1)
	f.Add([]byte(multi), true)
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 101, 0xff, 0xff, 0xff, 0xff}, true)
	f.Add([]byte{0, 0, 0, 0}, false)
	f.Fuzz(func(t *testing.T, record []byte, inSession bool) {
		s, err := zktest.Start(zktest.WithInMemory())
		require.NoError(t, err)
		defer s.Close()
		conn, err := s.Dial("", "", 0)
		require.NoError(t, err)
		defer conn.Close()
		c := &rawClient{conn: conn}
		if inSession {
			c, err = dialRaw(conn, nil, time.Second)
			require.NoError(t, err)
		}
		if c.write(record) != nil {
			return // cut already
		}
		// Whatever it was, another client is served.
		other, err := s.Dial("", "", 0)
		require.NoError(t, err)
		defer other.Close()
		c, err = dialRaw(other, nil, time.Second)
		require.NoError(t, err)
		ask(t, c, opPing, nil)
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
			s := zktest.NewServer(t, zktest.WithInMemory())
			c := raw(t, s, nil)
			first := make(chan struct{}, 1)
			first <- struct{}{}
			gate := s.Block(zktest.OnOp("connect"), zktest.On(func(zktest.Request) bool {
				select {
				case <-first:
					return true
				default:
					return false
				}
			}))
			late, err := s.Dial("", "", 0)
			require.NoError(t, err)
			refused := testbed.Go(func() error {
				_, err := dialRaw(late, c, 10*time.Second)
				return err
			})
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
