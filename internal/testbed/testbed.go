// Package testbed runs one suite of tests on the in-process server and on a real
// ensemble in Docker.
package testbed

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/testbed/ensemble"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// Case is one test of a suite. Its name is the promise it checks.
type Case struct {
	Name string
	Test func(t *testing.T, bed *Bed)
}

// Run runs all cases on each backend: each on an in-process server of its own, all on one in-process cluster of three
// members, and all on one ensemble of three real servers, where other packages' cases run as well. The backends run at the same
// time.
func Run(t *testing.T, cases []Case) {
	t.Run("inprocess", func(t *testing.T) {
		t.Parallel()
		for _, c := range cases {
			t.Run(c.Name, func(t *testing.T) { c.Test(t, InProcess(t, zktest.WithTTLNodes())) })
		}
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		// Without a lag: the cases need clients that see at once what others wrote. Simulations try old reads.
		cluster := zktest.NewCluster(t, 3, zktest.WithLag(0), zktest.WithTTLNodes())
		for _, c := range cases {
			t.Run(c.Name, func(t *testing.T) { c.Test(t, OnCluster(cluster)) })
		}
	})
	t.Run("ensemble", func(t *testing.T) {
		t.Parallel()
		ensemble := ensemble.Start(t, ensemble.Shared())
		for _, c := range cases {
			t.Run(c.Name, func(t *testing.T) { c.Test(t, onEnsemble(t, ensemble)) })
		}
	})
}

// Bed has the servers of a test, and ways to end a session.
type Bed struct {
	servers []string
	kill    func(id int64) error
}

// InProcess is a bed on a new in-process server.
func InProcess(t *testing.T, opts ...zktest.Option) *Bed {
	return On(zktest.NewServer(t, opts...))
}

// On is a bed on a given in-process server.
func On(server *zktest.Server) *Bed {
	return &Bed{servers: []string{server.Addr()}, kill: server.ExpireSession}
}

// OnCluster is a bed on a given in-process cluster.
func OnCluster(cluster *zktest.Cluster) *Bed {
	return &Bed{servers: cluster.Servers(), kill: cluster.ExpireSession}
}

func onEnsemble(t *testing.T, e *ensemble.Ensemble) *Bed {
	return &Bed{servers: e.Servers(), kill: func(id int64) error {
		return e.KillSession(t.Context(), id)
	}}
}

// Client makes a client with a session of its own, which is closed when the test ends. It retries quickly, so
// that tests of failures are short.
func (b *Bed) Client(t *testing.T, opts ...framework.Option) *framework.Client {
	t.Helper()
	client, err := framework.New(b.servers, append([]framework.Option{
		framework.WithSessionTimeout(10 * time.Second),
		framework.WithConnectionTimeout(5 * time.Second),
		framework.WithRetryPolicy(retry.NTimes(5, 10*time.Millisecond)),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	require.NoError(t, client.WaitConnected(Context(t)))
	return client
}

// KillSession ends the client's session as if it had crashed and its time had passed.
func (b *Bed) KillSession(t *testing.T, client *framework.Client) {
	t.Helper()
	session, err := client.Session(Context(t))
	require.NoError(t, err)
	require.NoError(t, b.kill(session.ID()))
}

var paths atomic.Int64

// Path is a path that no other test uses.
func Path(t *testing.T) string {
	return fmt.Sprintf("/%s-%d-%d/lock", "test", time.Now().UnixNano(), paths.Add(1))
}

// testTimeout is when a test gives up. A test that passes never waits for it.
const testTimeout = 30 * time.Second

// Context ends with the test, or when the test hangs.
func Context(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// CatchUp makes the client's server apply all earlier writes.
func CatchUp(t *testing.T, client *framework.Client) {
	t.Helper()
	require.NoError(t, client.Sync(Context(t)))
}

// Eventually waits until condition is true. Use it for events on a server that give no signal.
func Eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, testTimeout, 5*time.Millisecond, what)
}

// Receive waits for a value.
func Receive[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-Context(t).Done():
		require.FailNow(t, "waited in vain for "+what)
		panic("not reached")
	}
}

// RefuseCredentials returns what has a server refuse the credentials of every client that connects, and take them again.
func RefuseCredentials(server *zktest.Server) Refusal { return Refusal{server} }

// Refusal is a server that refuses credentials at times.
type Refusal struct{ server *zktest.Server }

// Store makes the server refuse credentials, or take them.
func (r Refusal) Store(refuses bool) { r.server.RefuseCredentials(refuses) }

// Busy has a server refuse to read nodes, since it has too much to do, until stop is called. Each request takes it a
// millisecond.
func Busy(server *zktest.Server) (stop func()) {
	undelay := server.Delay(time.Millisecond, zktest.OnOp(zktest.OpGetData))
	restore := server.Rewrite(func(_ zktest.Request, answer []byte) []byte {
		header := proto.ReplyHeader{Xid: int32(binary.BigEndian.Uint32(answer[4:])), Code: proto.Throttled}
		return proto.Seal(header.Append(proto.Begin(64)))
	}, zktest.OnOp(zktest.OpGetData))
	return func() {
		restore()
		undelay()
	}
}
