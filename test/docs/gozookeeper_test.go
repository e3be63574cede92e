package docs_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
)

// TestLock_CutOffFromAllServers cuts off a holder while another client waits. go-zookeeper's
// zk.Lock has no report of a loss, and its connection reports none while another client holds for
// an hour. The context of this library's hold is cancelled before the other client acquires.
func TestLock_CutOffFromAllServers(t *testing.T) {
	const timeout = 10 * time.Second
	for name, hold := range map[string]func(t *testing.T, server *zktest.Server, between *network) (lost <-chan struct{}){
		"go-zookeeper": func(t *testing.T, server *zktest.Server, between *network) <-chan struct{} {
			lost, once := make(chan struct{}), sync.Once{}
			conn, _, err := zk.Connect(server.Servers(), timeout, zk.WithDialer(between.dial(server)), zk.WithLogger(quiet{}),
				zk.WithEventCallback(func(e zk.Event) {
					if e.State == zk.StateExpired {
						once.Do(func() { close(lost) })
					}
				}))
			require.NoError(t, err)
			t.Cleanup(conn.Close)
			require.NoError(t, zk.NewLock(conn, "/billing/nightly", zk.WorldACL(zk.PermAll)).Lock())
			return lost
		},
		"curator": func(t *testing.T, server *zktest.Server, between *network) <-chan struct{} {
			dial := between.dial(server)
			client := newClient(t, server, framework.WithSessionTimeout(timeout),
				framework.WithDialer(func(context.Context, string, string) (net.Conn, error) { return dial("", "", 0) }))
			m := testbed.Must(mutex.New(client, "/billing/nightly"))
			return testbed.Acquire(t, m).Done()
		},
	} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			server, between := zktest.NewServer(t, zktest.WithInMemory()), &network{}
			lost := hold(t, server, between)
			client := newClient(t, server, framework.WithDialer(server.DialContext))
			other := testbed.Must(mutex.New(client, "/billing/nightly"))
			between.cut(true)
			next := testbed.Must(other.Acquire(t.Context()))
			if name == "curator" {
				require.True(t, wait.Closed(lost), "two holders")
				return
			}
			time.Sleep(time.Hour) // virtual time, in which no event may arrive
			require.NoError(t, next.Err())
			require.False(t, wait.Closed(lost), "go-zookeeper reports the expiry without a server")
			between.cut(false)
			<-lost
			require.NoError(t, next.Release())
		})
	}
}

// network is the network between one client and the servers.
type network struct {
	mu    sync.Mutex // guards the fields below
	down  bool
	conns []net.Conn
}

// cut cuts the client off, or restores its network.
func (n *network) cut(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.conns = nil
}

// dial is a dialer of go-zookeeper's that fails while the client is cut off.
func (n *network) dial(server *zktest.Server) zk.Dialer {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.down {
			return nil, errors.New("no route to host")
		}
		c, err := server.Dial(network, address, timeout)
		if err == nil {
			n.conns = append(n.conns, c)
		}
		return c, err
	}
}

// quiet is a logger of go-zookeeper's.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
