// Package testbed runs one suite of tests on the in-process server and on a real
// ensemble in Docker.
package testbed

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// Case is one test of a suite, named by the promise that it checks.
type Case struct {
	Name string
	Test func(t *testing.T, bed *Bed)
}

// Run runs all cases on each backend, all backends at the same time:
//   - each case on a separate in-process server;
//   - all on one in-process cluster of three members;
//   - all on one ensemble of three real servers, which other packages' cases use as well.
func Run(t *testing.T, cases []Case) {
	t.Run("inprocess", func(t *testing.T) {
		t.Parallel()
		for _, c := range cases {
			t.Run(c.Name, func(t *testing.T) {
				c.Test(t, InProcess(t, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"})))
			})
		}
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		// Without a lag: the cases need clients that immediately see other clients' writes.
		// Simulations try stale reads.
		cluster := zktest.NewCluster(t, 3, zktest.WithTimeline(), zktest.WithLag(0), zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
		for _, c := range cases {
			t.Run(c.Name, func(t *testing.T) { c.Test(t, OnCluster(cluster)) })
		}
	})
	t.Run("ensemble", func(t *testing.T) {
		t.Parallel()
		ensemble := ensemble.New(t, ensemble.Shared())
		for _, c := range cases {
			t.Run(c.Name, func(t *testing.T) { c.Test(t, onEnsemble(t, ensemble)) })
		}
	})
}

// Bed has the servers of a test, and ways to expire a session.
type Bed struct {
	servers []string
	kill    func(id int64) error
}

// InProcess returns a bed on a new in-process server. If the test fails, its output has the last
// requests and the path of a timeline.
func InProcess(t *testing.T, opts ...zktest.Option) *Bed {
	return On(zktest.NewServer(t, append(opts, zktest.WithTimeline())...))
}

// On returns a bed on an in-process server.
func On(server *zktest.Server) *Bed {
	return &Bed{servers: []string{server.Addr()}, kill: server.ExpireSession}
}

// OnCluster returns a bed on an in-process cluster.
func OnCluster(cluster *zktest.Cluster) *Bed {
	return &Bed{servers: cluster.Servers(), kill: cluster.ExpireSession}
}

func onEnsemble(t *testing.T, e *ensemble.Ensemble) *Bed {
	return &Bed{servers: e.Servers(), kill: func(id int64) error {
		return e.ExpireSession(t.Context(), id)
	}}
}

// Client returns a client with its own session, which is closed when the test ends. It retries
// quickly, so that tests of failures are short.
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

// ExpireSession expires the client's session as after a crash.
func (b *Bed) ExpireSession(t *testing.T, client *framework.Client) {
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

// Patience is the environment variable that overrides testTimeout.
const Patience = "CURATOR_TEST_PATIENCE"

// testTimeout ends a test that hangs. It is so long that no verdict depends on the machine's speed:
// a passing test never waits for it.
var testTimeout = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(Patience)); err == nil {
		return d
	}
	return 10 * time.Minute
}()

// Context returns a context that ends with the test, or when the test hangs.
func Context(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// CatchUp waits until the client's server has applied all earlier writes.
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

// RefuseCredentials returns a Refusal for the credentials of every client that connects.
func RefuseCredentials(server *zktest.Server) Refusal { return Refusal{server} }

// Refusal is a server that refuses credentials at times.
type Refusal struct{ server *zktest.Server }

// Store lets the server refuse credentials, or accept them.
func (r Refusal) Store(refuses bool) { r.server.RefuseCredentials(refuses) }

// Busy lets a server refuse the requests of ops, or the reads of nodes, like an overloaded server,
// until stop is called. Each of these requests takes a millisecond.
func Busy(server *zktest.Server, ops ...string) (stop func()) {
	if len(ops) == 0 {
		ops = []string{"getData"}
	}
	undelay := server.Delay(time.Millisecond, zktest.OnOp(ops...))
	restore := Answer(server, proto.Throttled, nil, zktest.OnOp(ops...))
	return func() {
		restore()
		undelay()
	}
}

// Answer lets a server answer requests that all matches select with code and, if that is OK, with
// body, until stop is called. The requests are applied.
func Answer(server *zktest.Server, code proto.Code, body proto.Record, matches ...zktest.Match) (stop func()) {
	return server.Rewrite(func(_ zktest.Request, answer []byte) []byte {
		d := proto.NewDecoder(answer[4:])
		var h proto.ReplyHeader
		h.Decode(&d)
		h.Code = code
		b := h.Append(proto.Begin(64))
		if code == proto.OK {
			b = body.Append(b)
		}
		return proto.Seal(b)
	}, matches...)
}
