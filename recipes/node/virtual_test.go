package node_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// world is a server in virtual time.
type world struct {
	*zktest.Server
	t *testing.T
}

// virtual runs test in a synctest bubble with a server inside.
func virtual(t *testing.T, test func(t *testing.T, w world), opts ...zktest.Option) {
	testbed.Bubble(t, func(t *testing.T) { test(t, newWorld(t, opts...)) })
}

// virtualRun is a subtest of virtual's kind.
func virtualRun(t *testing.T, name string, test func(t *testing.T, w world), opts ...zktest.Option) {
	testbed.RunVirtual(t, name, func(t *testing.T) { test(t, newWorld(t, opts...)) })
}

func newWorld(t *testing.T, opts ...zktest.Option) world {
	return world{zktest.NewServer(t, append(opts, zktest.WithInMemory())...), t}
}

func (w world) client(opts ...framework.Option) *framework.Client {
	return testbed.On(w.Server).Client(w.t, append([]framework.Option{framework.WithDialer(w.DialContext)}, opts...)...)
}

// settle lets a minute pass, in which all requests in flight end.
func (w world) settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

// nodes is what there is below a path, with data.
func (w world) nodes(path string) map[string]string {
	w.t.Helper()
	nodes := map[string]string{}
	children, err := w.Children(path)
	if err != nil {
		return nodes
	}
	for _, child := range children {
		data, err := w.Get(framework.Join(path, child))
		require.NoError(w.t, err)
		nodes[child] = string(data)
	}
	return nodes
}

// one checks that a node exists, once, with these data.
func (w world) one(n *node.Node, data string) {
	w.t.Helper()
	dir, name := framework.Split(n.Path())
	assert.Equal(w.t, map[string]string{name: data}, w.nodes(dir))
}

// heartbeat reports whether a request is one that a client sends by itself as time passes: a write
// that changes nothing.
func heartbeat(r zktest.Request) bool {
	return r.Op == "multi" && r.Path == "/" && len(r.Parts) == 1
}

func name(n *node.Node) string {
	_, name := framework.Split(n.Path())
	return name
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keep creates a node that is kept, and closes it at the end of the test.
func keep(t *testing.T, client *framework.Client, path, data string, opts ...node.Option) *node.Node {
	t.Helper()
	n, err := node.Keep(testbed.Context(t), client, path, []byte(data), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	require.True(t, present(n))
	require.NoError(t, n.Problem())
	return n
}

// data reads a node with another client; "-" stands for no node.
func data(t *testing.T, client *framework.Client, path string) string {
	t.Helper()
	testbed.CatchUp(t, client)
	data, _, err := client.Get(testbed.Context(t), path)
	if errors.Is(err, zk.ErrNoNode) {
		return "-"
	}
	require.NoError(t, err)
	return string(data)
}

// kept is a node or a member.
type kept interface {
	Present() (bool, <-chan struct{})
	Problem() error
}

// await waits until the node exists, or does not, and Problem is as condition wants it.
func await(t *testing.T, n kept, condition func(there bool, err error) bool) {
	t.Helper()
	ctx := testbed.Context(t)
	for {
		there, changed := n.Present()
		if condition(there, n.Problem()) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			require.FailNow(t, "waited in vain", "there: %v, reason: %v", there, n.Problem())
		}
	}
}

func present(n kept) bool {
	there, _ := n.Present()
	return there
}

// freeze stops the server's answers to a client, and waits until the client has given up its
// session.
func (w world) freeze(client *framework.Client) {
	w.t.Helper()
	session := testbed.Session(w.t, client)
	w.Freeze(session.ID())
	testbed.Receive(w.t, session.Done(), "the end of the session")
}

// stat returns the stat of a node that the server has.
func (w world) stat(path string) zk.Stat {
	w.t.Helper()
	return testbed.ServerStat(w.t, w.Server, path)
}

func isThere(there bool, err error) bool { return there && err == nil }

func reason(want error) func(bool, error) bool {
	return func(there bool, err error) bool { return !there && errors.Is(err, want) }
}

// standsStill creates a client whose first look at /group/a, counted from when armed is true, does
// not return until goOn is closed. read is closed when it has been answered.
func (w world) standsStill(armed *atomic.Bool) (client *framework.Client, read, goOn chan struct{}) {
	return w.standsStillAfter("exists", armed)
}

// standsStillAfter is standsStill with the operation op at /group/a, and options of the client.
func (w world) standsStillAfter(
	op string, armed *atomic.Bool, opts ...framework.Option,
) (client *framework.Client, answered, goOn chan struct{}) {
	answered, goOn = make(chan struct{}), make(chan struct{})
	stop := func(_ context.Context, e framework.OperationEvent) {
		// Not a sync.Once: time stands still while a goroutine waits for one.
		if e.Op == op && e.Path == "/group/a" && armed.CompareAndSwap(true, false) {
			close(answered)
			<-goOn
		}
	}
	return w.client(append(opts, framework.WithObserver(framework.Observer{Operation: stop}))...), answered, goOn
}

// begin keeps /group/a in the background.
func begin(ctx context.Context, client *framework.Client, data string, opts ...node.Option) <-chan *node.Node {
	return beginAt(ctx, client, "/group/a", data, opts...)
}

func beginAt(ctx context.Context, client *framework.Client, path, data string, opts ...node.Option) <-chan *node.Node {
	kept := make(chan *node.Node, 1)
	go func() {
		if n, err := node.Keep(ctx, client, path, []byte(data), opts...); err == nil {
			kept <- n
		}
	}()
	return kept
}

func yes() *atomic.Bool {
	var b atomic.Bool
	b.Store(true)
	return &b
}

func minutes(t *testing.T) context.Context { return testbed.Timeout(t, 5*time.Minute) }

// counted returns a client and the number of connections that it has opened.
func (w world) counted(opts ...framework.Option) (client *framework.Client, connections *atomic.Int64) {
	connections = &atomic.Int64{}
	return w.client(append(opts, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		connections.Add(1)
		return w.DialContext(ctx, network, address)
	}))...), connections
}

// logTo lets a client log to out.
func logTo(out *testbed.Output) framework.Option {
	return framework.WithLogger(slog.New(slog.NewTextHandler(out, nil)))
}

// count returns the number of lines of a log that have all parts in them.
func count(log *testbed.Output, parts ...string) (lines int) {
	for line := range strings.Lines(log.String()) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			lines++
		}
	}
	return lines
}

// day ends in a day, when it is clear that a test hangs.
func day(t *testing.T) context.Context { return testbed.Timeout(t, 24*time.Hour) }

// perms returns an ACL for all users.
func perms(p int32) []zk.ACL { return zk.WorldACL(p) }

// TestCloseOfTheClientEndsAPause closes a client without a server at several instants. Some of them
// are in a pause between two tries.
func TestCloseOfTheClientEndsAPause(t *testing.T) {
	for at := time.Minute; at < time.Minute+5*time.Second; at += 250 * time.Millisecond {
		virtual(t, func(t *testing.T, w world) {
			client := w.client(framework.WithConnectionTimeout(time.Second))
			n := testbed.Must(node.Keep(t.Context(), client, "/n", nil))
			w.Stop()
			time.Sleep(at)
			synctest.Wait()
			require.NoError(t, client.Close())
			synctest.Wait() // no time passes
			require.ErrorIs(t, n.Problem(), framework.ErrClosed)
		})
	}
}
