// Package theirs is compiled by TestGoZookeepersOwnTests, together with tests from go-zookeeper.
// They start servers in Java. Here they use zktest.
package theirs

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/gocurator/curator/zkconn"
	"github.com/gocurator/curator/zktest"
)

type TestCluster struct {
	members []*zktest.Server
	dial    func(network, address string, timeout time.Duration) (net.Conn, error)
	expire  func(id int64) error
}

func StartTestCluster(t *testing.T, size int, _, _ io.Writer) (*TestCluster, error) {
	if size == 1 {
		server := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
		return &TestCluster{[]*zktest.Server{server}, server.Dial, server.ExpireSession}, nil
	}
	cluster := zktest.NewCluster(t, size, zktest.WithInMemory())
	dial := func(network, address string, _ time.Duration) (net.Conn, error) {
		return cluster.DialContext(t.Context(), network, address)
	}
	return &TestCluster{cluster.Members(), dial, cluster.ExpireSession}, nil
}

func (tc *TestCluster) connect(members []*zktest.Server, timeout time.Duration, options ...Option) (*Conn, <-chan Event, error) {
	var servers []string
	for _, m := range members {
		servers = append(servers, m.Addr())
	}
	return Connect(servers, timeout, append(options, WithDialer(tc.dial))...)
}

func (tc *TestCluster) Connect(i int) (*Conn, <-chan Event, error) {
	return tc.connect(tc.members[i:i+1], 15*time.Second)
}

func (tc *TestCluster) ConnectAll() (*Conn, <-chan Event, error) {
	return tc.ConnectWithOptions(15 * time.Second)
}

func (tc *TestCluster) ConnectWithOptions(timeout time.Duration, options ...Option) (*Conn, <-chan Event, error) {
	return tc.connect(tc.members, timeout, options...)
}

func (tc *TestCluster) Stop() {} // the servers end with the test

func (tc *TestCluster) StopServer(address string) {
	for _, m := range tc.members {
		if strings.HasSuffix(address, m.Addr()) {
			m.Stop()
			return
		}
	}
	panic("unknown server: " + address)
}

func (tc *TestCluster) StopAllServers() {
	for _, m := range tc.members {
		m.Stop()
	}
	synctest.Wait() // a server in Java takes so long that clients have noticed
}

func (tc *TestCluster) StartAllServers() {
	for _, m := range tc.members {
		if err := m.Restart(); err != nil {
			panic(err)
		}
	}
}

// cut stands for zk.conn.Close() in a test, and end for a session id that no server has.
func (tc *TestCluster) cut() {
	for _, m := range tc.members {
		m.CutConnections()
	}
}

func (tc *TestCluster) end(c *Conn) {
	if err := tc.expire(c.SessionID()); err != nil {
		panic(err)
	}
}

func requireNoErrorf(t *testing.T, err error, about ...any) {
	t.Helper()
	if err != nil {
		t.Fatal(append(about, err)...)
	}
}
