package testbed

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// The calls below are the steps of a test that must succeed: a failure ends the test at the line of
// the caller. A call whose error is the subject of the test is written out.

// step returns the context of one step. It leaves nothing until the end of the test.
func step(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), testTimeout)
}

// Must returns the value of a call that must succeed, such as a constructor. It panics with an
// error, so the test fails with the stack of the caller. In a [Bubble] the other tests go on.
func Must[V any](v V, err error) V {
	if err != nil {
		panic(failure{err})
	}
	return v
}

// failure is what [Must] panics with.
type failure struct{ error }

// NewClient returns a client of servers, which is closed when the test ends. Unlike the client of
// [Bed.Client] it has no other options, and need not be connected.
func NewClient(t *testing.T, servers []string, opts ...framework.Option) *framework.Client {
	t.Helper()
	client, err := framework.New(servers, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// Session returns the client's session.
func Session(t *testing.T, client *framework.Client) *framework.Session {
	t.Helper()
	ctx, cancel := step(t)
	defer cancel()
	session, err := client.Session(ctx)
	require.NoError(t, err)
	return session
}

// Create creates a node, and returns its path.
func Create(t *testing.T, client *framework.Client, path string, data []byte, opts ...framework.CreateOption) string {
	t.Helper()
	ctx, cancel := step(t)
	defer cancel()
	created, err := client.Create(ctx, path, data, opts...)
	require.NoError(t, err)
	return created
}

// Private creates a node that only the user with these credentials may use.
func Private(t *testing.T, server *zktest.Server, path, credentials string) {
	t.Helper()
	owner := On(server).Client(t, framework.WithAuth("digest", []byte(credentials)))
	Create(t, owner, path, nil, framework.ACL(zk.AuthACL(zk.PermAll)))
	require.NoError(t, owner.Close()) // its session no longer presents them
}

// Set sets the data of a node.
func Set(t *testing.T, client *framework.Client, path string, data []byte, opts ...framework.SetOption) {
	t.Helper()
	ctx, cancel := step(t)
	defer cancel()
	_, err := client.Set(ctx, path, data, opts...)
	require.NoError(t, err)
}

// Get returns the data of a node.
func Get(t *testing.T, client *framework.Client, path string) string {
	t.Helper()
	ctx, cancel := step(t)
	defer cancel()
	data, _, err := client.Get(ctx, path)
	require.NoError(t, err)
	return string(data)
}

// Children returns the names of a node's children.
func Children(t *testing.T, client *framework.Client, path string) []string {
	t.Helper()
	ctx, cancel := step(t)
	defer cancel()
	names, _, err := client.Children(ctx, path)
	require.NoError(t, err)
	return names
}

// Exists reports whether a node exists.
func Exists(t *testing.T, client *framework.Client, path string) bool {
	t.Helper()
	ctx, cancel := step(t)
	defer cancel()
	found, _, err := client.Exists(ctx, path)
	require.NoError(t, err)
	return found
}

// Acquire returns a hold of a lock of any kind.
func Acquire[H any](t *testing.T, lock interface {
	Acquire(context.Context) (H, error)
}) H {
	t.Helper()
	hold, err := lock.Acquire(Context(t))
	require.NoError(t, err)
	return hold
}

// Go runs f in a goroutine, and returns a channel that receives its result.
func Go[V any](f func() V) <-chan V {
	result := make(chan V, 1)
	go func() { result <- f() }() // ends with f
	return result
}

// Timeout returns a context that ends with the test, or after a time.
func Timeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Cancelled returns a context that has ended.
func Cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// Servers is an in-memory server or cluster.
type Servers interface {
	Servers() []string
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// ClientOf is [NewClient] for servers in memory.
func ClientOf(t *testing.T, servers Servers, opts ...framework.Option) *framework.Client {
	t.Helper()
	return NewClient(t, servers.Servers(), append([]framework.Option{framework.WithDialer(servers.DialContext)}, opts...)...)
}

// Namespace returns a view of the client.
func Namespace(t *testing.T, client *framework.Client, namespace string) *framework.Client {
	t.Helper()
	view, err := client.Namespace(namespace)
	require.NoError(t, err)
	return view
}

// Stat returns the stat of a node, or nil if it does not exist.
func Stat(t *testing.T, client *framework.Client, path string) *zk.Stat {
	t.Helper()
	ctx, cancel := step(t)
	defer cancel()
	_, stat, err := client.Exists(ctx, path)
	require.NoError(t, err)
	return stat
}

// Listen registers a listener of the connection's states.
func Listen(t *testing.T, client *framework.Client, listener func(connstate.State)) (stop func()) {
	t.Helper()
	stop, err := client.Listen(listener)
	require.NoError(t, err)
	return stop
}

// Depend registers a function that runs when the session ends.
func Depend(t *testing.T, session *framework.Session, at connstate.ErrorPolicy, notify func(error)) (stop func() bool) {
	t.Helper()
	stop, err := session.Depend(at, notify)
	require.NoError(t, err)
	return stop
}

// AddWatch adds a watch that stays.
func AddWatch(
	t *testing.T, client *framework.Client, path string, mode framework.WatchMode, on func(zk.Event),
) *framework.PersistentWatch {
	t.Helper()
	watch, err := client.AddWatch(t.Context(), path, mode, on)
	require.NoError(t, err)
	return watch
}

// Leader returns the leader of a cluster, and its other members.
func Leader(t *testing.T, cluster *zktest.Cluster) (leader *zktest.Server, followers []*zktest.Server) {
	t.Helper()
	leader, err := cluster.WaitLeader(Context(t))
	require.NoError(t, err)
	for _, m := range cluster.Members() {
		if m != leader {
			followers = append(followers, m)
		}
	}
	return leader, followers
}

// GetW returns a watch of a node's data.
func GetW(t *testing.T, client *framework.Client, path string) *framework.Watch {
	t.Helper()
	_, _, watch, err := client.GetW(t.Context(), path)
	require.NoError(t, err)
	return watch
}

// ExistsW returns a watch of a node that need not exist.
func ExistsW(t *testing.T, client *framework.Client, path string) *framework.Watch {
	t.Helper()
	_, _, watch, err := client.ExistsW(t.Context(), path)
	require.NoError(t, err)
	return watch
}

// ChildrenW returns a watch of the names of a node's children.
func ChildrenW(t *testing.T, client *framework.Client, path string) *framework.Watch {
	t.Helper()
	_, _, watch, err := client.ChildrenW(t.Context(), path)
	require.NoError(t, err)
	return watch
}

// ACL returns the access list of a node.
func ACL(t *testing.T, client *framework.Client, path string) []zk.ACL {
	t.Helper()
	ctx, cancel := step(t)
	defer cancel()
	acl, _, err := client.GetACL(ctx, path)
	require.NoError(t, err)
	return acl
}

// SetACL sets the access list of a node.
func SetACL(t *testing.T, client *framework.Client, path string, acl []zk.ACL) {
	t.Helper()
	ctx, cancel := step(t)
	defer cancel()
	_, err := client.SetACL(ctx, path, acl)
	require.NoError(t, err)
}

// ServerData returns the data of a node that a server has.
func ServerData(t *testing.T, server *zktest.Server, path string) string {
	t.Helper()
	data, err := server.Get(path)
	require.NoError(t, err)
	return string(data)
}

// ServerChildren returns the names of the children that a server has.
func ServerChildren(t *testing.T, server *zktest.Server, path string) []string {
	t.Helper()
	names, err := server.Children(path)
	require.NoError(t, err)
	return names
}

// ServerStat returns the stat of a node that a server has.
func ServerStat(t *testing.T, server *zktest.Server, path string) zk.Stat {
	t.Helper()
	stat, err := server.Stat(path)
	require.NoError(t, err)
	return stat
}
