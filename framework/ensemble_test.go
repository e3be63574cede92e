package framework_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/admin"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// configured is an ensemble whose configuration can be read, changed and watched.
type configured struct {
	*scripted
	mu    sync.Mutex
	path  string
	text  string
	dials []string
	down  map[string]bool
	conns []net.Conn
}

func newConfigured(path, text string) *configured {
	e := &configured{path: path, text: text, down: make(map[string]bool)}
	granted := welcome(7, 10*time.Second)
	if path == "/keeper/config" {
		granted = func(proto.ConnectRequest) []byte {
			return packet(&proto.ConnectResponse{Timeout: 10_000, Session: 7, Password: make([]byte, 16)})
		}
	}
	e.scripted = &scripted{welcome: granted, answer: fine(func(h proto.RequestHeader, body []byte) []byte {
		d := proto.NewDecoder(body)
		var r proto.ReadRequest
		r.Decode(&d)
		e.mu.Lock()
		defer e.mu.Unlock()
		if h.Op == proto.OpGetData && r.Path != e.path { // a Keeper may have its predecessor's
			return packet(&proto.ReplyHeader{Xid: h.Xid}, &proto.DataResponse{Data: []byte("server.1=old:2888:3888;2181\nversion=1")})
		}
		if h.Op != proto.OpGetData {
			return packet(&proto.ReplyHeader{Xid: h.Xid, Code: proto.NoNode})
		}
		return packet(&proto.ReplyHeader{Xid: h.Xid}, &proto.DataResponse{Data: []byte(e.text)})
	})}
	return e
}

func (e *configured) dial(ctx context.Context, network, address string) (net.Conn, error) {
	e.mu.Lock()
	down := e.down[address]
	e.dials = append(e.dials, address)
	e.mu.Unlock()
	if down {
		return nil, errors.New("connection refused")
	}
	nc, err := e.scripted.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.conns = append(e.conns, nc)
	e.mu.Unlock()
	return nc, nil
}

// client returns a client that follows the ensemble from its server a.
func (e *configured) client(t *testing.T) *framework.Client {
	t.Helper()
	t.Cleanup(e.wg.Wait)
	return testbed.NewClient(t, []string{"a:2181"}, framework.WithDialer(e.dial), framework.WithNamespace("ns"),
		framework.WithSessionTimeout(10*time.Second), framework.WithEnsembleTracking())
}

// follow waits until the client is connected and has read the configuration.
func (e *configured) follow(t *testing.T, client *framework.Client) {
	t.Helper()
	require.NoError(t, client.WaitConnected(t.Context()))
	synctest.Wait()
}

// fail closes all connections and refuses new ones to address. The client knows when it returns.
func (e *configured) fail(address string) {
	e.mu.Lock()
	e.down[address] = true
	for _, nc := range e.conns {
		nc.Close()
	}
	e.conns = nil
	e.mu.Unlock()
	synctest.Wait()
}

func (e *configured) up(address string) {
	e.mu.Lock()
	delete(e.down, address)
	e.mu.Unlock()
	synctest.Wait()
}

// TestTheEnsembleIsFollowed adds servers to the ensemble without a notification of the client, and
// stops the servers that it knows. Namespaces do not matter: CURATOR-593.
func TestTheEnsembleIsFollowed(t *testing.T) {
	for name, c := range map[string]struct{ path, text string }{
		"ZooKeeper": {"/zookeeper/config", "server.1=a:2888:3888:participant;0.0.0.0:2181\nserver.2=b:2888:3888:participant;2181\nversion=1"},
		"Keeper":    {"/keeper/config", "server.1=a:9234;participant;1\nserver.2=b:9234;participant;1"},
	} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			e := newConfigured(c.path, c.text)
			client := e.client(t)
			e.follow(t, client)
			e.fail("a:2181")
			require.NoError(t, client.WaitConnected(testbed.Context(t)))
			e.mu.Lock()
			require.Contains(t, e.dials, "b:2181")
			e.mu.Unlock()
			e.fail("b:2181")
			e.up("a:2181") // the configured servers are not forgotten
			require.NoError(t, client.WaitConnected(testbed.Context(t)))
		})
	}
}

// TestServersThatHaveLeftTheEnsembleAreTriedLast has connections end while the servers of the
// configuration can be used. A server that has left may belong to another ensemble by now.
func TestServersThatHaveLeftTheEnsembleAreTriedLast(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T) {
		e := newConfigured("/zookeeper/config", "server.1=b:2888:3888:participant;2181\nversion=1")
		client := e.client(t)
		for range 4 {
			e.follow(t, client)
			e.fail("nobody")
		}
		require.NoError(t, client.WaitConnected(t.Context()))
		e.mu.Lock()
		defer e.mu.Unlock()
		require.Equal(t, []string{"a:2181", "b:2181", "b:2181", "b:2181", "b:2181"}, e.dials)
	})
}

// TestAServerThatIsBehindBringsNoOlderConfiguration: it has to catch up before it is asked.
func TestAServerThatIsBehindBringsNoOlderConfiguration(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T) {
		e := newConfigured("/zookeeper/config", "server.1=a:2888:3888:participant;2181\nversion=2")
		answer, behind := e.answer, false
		e.answer = func(h proto.RequestHeader, body []byte) []byte {
			e.mu.Lock()
			behind = behind && !beats(h, body)
			old := behind
			e.mu.Unlock()
			if old && h.Op == proto.OpGetData {
				return packet(&proto.ReplyHeader{Xid: h.Xid}, &proto.DataResponse{Data: []byte("server.1=gone:2888:3888;2181\nversion=1")})
			}
			return answer(h, body)
		}
		client := e.client(t)
		for range 3 {
			e.follow(t, client)
			e.mu.Lock()
			behind = true
			e.mu.Unlock()
			e.fail("nobody")
		}
		require.NoError(t, client.WaitConnected(t.Context()))
		e.mu.Lock()
		defer e.mu.Unlock()
		require.Equal(t, []string{"a:2181", "a:2181", "a:2181", "a:2181"}, e.dials)
	})
}

// TestAChangeOfTheEnsembleIsReported adds a member while the client is connected, and stops the one
// that it knows. Without tracking the client keeps to its configured servers.
func TestAChangeOfTheEnsembleIsReported(t *testing.T) { // CUR-ENS-02, -03, -05
	for name, c := range map[string]struct {
		options []framework.Option
		want    []string
	}{
		"tracking":         {[]framework.Option{framework.WithEnsembleTracking()}, []string{"a:2181", "c:2181"}},
		"without tracking": {nil, []string{"a:2181", "a:2181"}},
	} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			server := zktest.NewServer(t, zktest.WithInMemory())
			var dials []string // by one goroutine of the client's
			client := testbed.NewClient(t, []string{"a:2181"}, append(c.options, framework.WithSessionTimeout(10*time.Second),
				framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
					dials = append(dials, address)
					return server.DialContext(ctx, network, address)
				}))...)
			require.NoError(t, client.WaitConnected(t.Context()))
			for _, text := range []string{
				"server.1=a:2888:3888:participant;2181\nserver.2=b:2888:3888:participant;2181\nversion=100000000",
				"server.3=c:2888:3888:participant;2181\nversion=200000000",
			} {
				require.NoError(t, server.Set("/zookeeper/config", []byte(text)))
				synctest.Wait() // the client was notified
			}
			server.CutConnections()
			synctest.Wait()
			require.NoError(t, client.WaitConnected(t.Context()))
			require.NoError(t, client.Sync(t.Context()))
			require.Equal(t, c.want, dials)
		})
	}
}

// TestAllServersAreReplacedOneByOne has a client whose session continues when none of its
// configured servers is left.
func TestAllServersAreReplacedOneByOne(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		client := testbed.ClientOf(t, cluster,
			framework.WithSessionTimeout(10*time.Second), framework.WithEnsembleTracking())
		session := testbed.Session(t, client)
		for _, old := range cluster.Members() {
			require.NoError(t, testbed.Err(cluster.Add(testbed.Context(t))))
			require.NoError(t, cluster.Remove(testbed.Context(t), old))
			require.NoError(t, testbed.Err(client.Get(testbed.Context(t), "/")))
			time.Sleep(time.Second) // virtual time: it has read the configuration
		}
		require.NoError(t, session.Err())
		config := testbed.Must(admin.Config(testbed.Context(t), client))
		require.Len(t, config.Members, 3)
	})
}

// TestAConfigurationThatCannotBeParsedIsNotTheLast: the next configuration counts at once.
func TestAConfigurationThatCannotBeParsedIsNotTheLast(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		var log logged
		client := testbed.NewClient(t, server.Servers(), framework.WithDialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return server.DialContext(ctx, network, server.Addr())
		}), framework.WithEnsembleTracking(), log.keep(slog.LevelInfo))
		require.NoError(t, client.WaitConnected(t.Context()))
		require.NoError(t, server.Set("/zookeeper/config", []byte("server.x=zk3:2888:3888;2181\nversion=1")))
		synctest.Wait()
		require.Len(t, log.lines("cannot be parsed"), 1)
		require.Empty(t, log.lines("cannot be read"))
		require.NoError(t, server.Set("/zookeeper/config", []byte("server.3=zk3:2888:3888;2181\nserver.1=0.0.0.0:2888:3888;0.0.0.0:2181\nversion=2")))
		synctest.Wait()
		lines := log.lines("ensemble configuration")
		require.Contains(t, lines[len(lines)-1], "[zk3:2181]", "and no machine of the client's own")
	})
}
