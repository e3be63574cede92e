package framework_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newClient connects to server.
func newClient(t *testing.T, server *zktest.Server, opts ...framework.Option) *framework.Client {
	t.Helper()
	return testbed.On(server).Client(t, opts...)
}

// start returns a new server, and a client that is connected to it.
func start(t *testing.T, opts ...framework.Option) (*zktest.Server, *framework.Client) {
	t.Helper()
	server := zktest.NewServer(t)
	return server, newClient(t, server, opts...)
}

func TestBadOptionsAreRefused(t *testing.T) {
	servers := []string{"127.0.0.1:1"}
	for name, opt := range map[string]framework.Option{
		"nil": nil, "session timeout": framework.WithSessionTimeout(0), "long session": framework.WithSessionTimeout(1 << 62),
		"connection timeout": framework.WithConnectionTimeout(-1), "policy": framework.WithRetryPolicy(nil),
		"acl": framework.WithACLProvider(nil), "auth": framework.WithAuth("", nil), "dialer": framework.WithDialer(nil),
		"tls": framework.WithTLS(nil), "list": framework.WithServerList(nil), "percent 49": framework.WithExpirationPercent(49),
		"percent 101": framework.WithExpirationPercent(101), "decompressed": framework.WithMaxDecompressed(1023),
		"logger":                 framework.WithLogger(nil),
		"error policy":           framework.WithErrorPolicy(connstate.LostEndsHold + 1),
		"namespace with a slash": framework.WithNamespace("/a"), // CUR-CLI-49
		"two lists":              framework.WithServerList(func(context.Context) ([]string, error) { return servers, nil }),
	} {
		assert.ErrorIs(t, testbed.Err(framework.New(servers, opt)), framework.ErrBadArgument, name)
	}
	assert.ErrorIs(t, testbed.Err(framework.New(servers, framework.WithNamespace("a//b"))), framework.ErrBadPath)
	// See KZ-CLI-03.
	for _, servers := range [][]string{nil, {""}, {":2181"}, {"host:port"}, {"host:0"}, {"host:99999"}} {
		assert.ErrorIs(t, testbed.Err(framework.New(servers)), framework.ErrBadArgument, "%q", servers)
	}
}

func TestPathsAreCheckedJoinedAndSplit(t *testing.T) { // KZ-CLI-05
	for _, path := range []string{"/", "/a", "/a/b", "/ä", "/a.b", "/..."} {
		assert.NoError(t, framework.ValidatePath(path), path)
	}
	for _, path := range []string{"", "a", "a/b", "/a/", "//a", "/a//b", "/.", "/a/..", "/a\x00", "/a\x1f", "/\xff", "/\uf000", "/\ufff0", "/\U0001f600"} {
		assert.ErrorIs(t, framework.ValidatePath(path), framework.ErrBadPath, "%q", path)
	}
	assert.Equal(t, "/a", framework.Join("/", "a"))
	assert.Equal(t, "/a/b", framework.Join("/a", "b"))
	for path, want := range map[string][2]string{"/": {"/", ""}, "/a": {"/", "a"}, "/a/b": {"/a", "b"}} {
		parent, child := framework.Split(path)
		assert.Equal(t, want, [2]string{parent, child})
	}
}

// TestAProtectedNameHasAnIDThatUnprotectedTakesAway, and a prefix without an id is none.
func TestAProtectedNameHasAnIDThatUnprotectedTakesAway(t *testing.T) { // CUR-CLI-22
	_, client := start(t)
	path := testbed.Create(t, client, "/lock-", nil, framework.As(framework.EphemeralSequential), framework.Protected())
	_, child := framework.Split(path)
	require.Regexp(t, `^_c_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-lock-0000000000$`, child)
	name, id := framework.Unprotected(child)
	require.Equal(t, "lock-0000000000", name)
	require.Len(t, id, 36)
	for _, foreign := range []string{
		"", "_c_", "_c_x", "lock-1", "_c_" + id, "_c_" + strings.Repeat("x", 36) + "-lock-1",
		"_c_" + strings.ReplaceAll(id, "-", "_") + "-lock-1", "_c_" + id + "_lock-1",
	} {
		name, id := framework.Unprotected(foreign)
		assert.Equal(t, foreign, name)
		assert.Empty(t, id)
	}
}

func TestClosedAtOnce(t *testing.T) { // CUR-CLI-01, -02, KZ-CLI-01, KZ-CST-06
	client := testbed.Must(framework.New([]string{"127.0.0.1:1"}))
	require.NoError(t, client.Close())
	require.ErrorIs(t, testbed.Err(client.Get(t.Context(), "/")), framework.ErrClosed)
	require.ErrorIs(t, testbed.Err(client.Create(t.Context(), "/a", nil, framework.Protected())), framework.ErrClosed)
	require.ErrorIs(t, client.WaitConnected(t.Context()), framework.ErrClosed)
	require.NoError(t, client.Close(), "again")
}

// TestWithoutAServerAnOperationFailsAfterItsRetries is CUR-CLI-13, CUR-CST-12 and CUR-CST-13.
func TestWithoutAServerAnOperationFailsAfterItsRetries(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T) {
		client := testbed.NewClient(t, []string{"127.0.0.1:1"},
			framework.WithDialer(func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody there") }),
			framework.WithConnectionTimeout(time.Second),
			framework.WithRetryPolicy(retry.NTimes(2, time.Second)))
		began := time.Now()
		_, _, err := client.Get(t.Context(), "/a")
		require.ErrorIs(t, err, zk.ErrNoServer)
		require.ErrorIs(t, err, retry.ErrExhausted)
		require.Equal(t, 5*time.Second, time.Since(began), "three tries, two pauses")
		testbed.OneOp(t, err, "get", "/a")

		require.ErrorIs(t, client.WaitConnected(testbed.Timeout(t, time.Minute)), context.DeadlineExceeded)
	})
}

func TestCloseUnblocksEverybody(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		gate := server.Block(zktest.OnPath("/stuck"))
		defer gate.Open()
		const n = 50 // more than go-zookeeper's queue holds
		results := make(chan error, n)
		for range n {
			go func() { results <- testbed.Err(client.Get(context.Background(), "/stuck")) }() // ends with the client
		}
		testbed.Receive(t, gate.Arrived(), "the first request")
		closed := testbed.Go(client.Close)
		for range n {
			require.ErrorIs(t, testbed.Receive(t, results, "an unblocked caller"), framework.ErrClosed)
		}
		require.NoError(t, testbed.Receive(t, closed, "the end of Close"))
	})
}

func TestANamespaceIsBeforeEachPathAndNotShown(t *testing.T) { // CUR-CLI-50, -51, -53, -55, -56
	server, client := start(t, framework.WithNamespace("billing"))
	other := testbed.Namespace(t, client, "a/b")
	root := testbed.Namespace(t, client, "")
	ctx := t.Context()
	for _, c := range []*framework.Client{client, other, root} {
		require.Equal(t, "/x/y", testbed.Create(t, c, "/x/y", []byte("d"), framework.PersistentParents()))
	}
	for _, path := range []string{"/billing/x/y", "/a/b/x/y", "/x/y"} {
		require.NoError(t, testbed.Err(server.Get(path)))
	}
	require.Equal(t, []string{"x"}, testbed.Children(t, client, "/"))
	watch := testbed.GetW(t, client, "/x/y")
	require.NoError(t, client.Delete(ctx, "/x/y"))
	testbed.Receive(t, watch.Done(), "the deletion")
	require.Equal(t, "/x/y", watch.Event().Path)
	require.ErrorContains(t, testbed.Err(client.Get(ctx, "/x/y")), "get /x/y: ")
	require.ErrorIs(t, testbed.Err(client.Namespace("/bad")), framework.ErrBadArgument)
	for _, c := range []*framework.Client{client, other, root} {
		require.Equal(t, connstate.Connected, c.State())
	}
	require.NoError(t, client.Close())
	for _, c := range []*framework.Client{client, other, root} {
		require.Zero(t, c.State())
	}
	require.ErrorIs(t, testbed.Err(client.Get(ctx, "/x")), framework.ErrClosed, "views share the life of their client")
}

func TestACLProviderIsAskedForEachLevelByItsRealPath(t *testing.T) { // CUR-CLI-43, CURATOR-221
	server := zktest.NewServer(t)
	var mu sync.Mutex
	var asked []string
	readOnly := zk.WorldACL(zk.PermRead)
	client := newClient(t, server, framework.WithNamespace("ns"), framework.WithACLProvider(func(path string) []zk.ACL {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, path)
		if path == "/ns/a/b" {
			return readOnly
		}
		return nil
	}))
	testbed.Create(t, client, "/a/b", nil, framework.ContainerParents())
	slices.Sort(asked)
	require.Equal(t, []string{"/ns", "/ns/a", "/ns/a/b"}, slices.Compact(asked))
	require.Equal(t, readOnly, testbed.ACL(t, client, "/a/b"))
	require.Equal(t, zk.WorldACL(zk.PermAll), testbed.ACL(t, client, "/a"))
}

func TestCredentialsArePresentedOnEveryConnection(t *testing.T) { // KZ-CLI-10
	server, user := start(t, framework.WithAuth("digest", []byte("user:password")))
	stranger := newClient(t, server)
	testbed.Create(t, user, "/mine", []byte("secret"), framework.ACL(zk.AuthACL(zk.PermAll)))
	require.ErrorIs(t, testbed.Err(stranger.Get(t.Context(), "/mine")), zk.ErrNoAuth)
	server.CutConnections()
	require.Equal(t, "secret", testbed.Get(t, user, "/mine"))

	refused := testbed.NewClient(t, []string{server.Addr()}, framework.WithAuth("kerberos", nil))
	require.ErrorIs(t, testbed.Err(refused.Get(testbed.Context(t), "/")), zk.ErrAuthFailed)
}

func TestTLS(t *testing.T) {
	server := zktest.NewServer(t)
	certificate, pool := selfSigned(t)
	secure := testbed.Must(server.Listen("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}}))
	client := testbed.NewClient(t, []string{secure.Addr()}, framework.WithTLS(&tls.Config{RootCAs: pool}))
	testbed.Create(t, client, "/secure", nil)

	plain := testbed.NewClient(t, []string{secure.Addr()}, framework.WithTLS(&tls.Config{RootCAs: x509.NewCertPool()}),
		framework.WithConnectionTimeout(100*time.Millisecond), framework.WithRetryPolicy(retry.Never()))
	_, err := plain.Create(testbed.Context(t), "/insecure", nil)
	require.ErrorIs(t, err, zk.ErrNoServer, "a server that cannot be trusted is none")

	_, port, _ := net.SplitHostPort(secure.Addr())
	name := make(chan string, 100)
	named := testbed.NewClient(t, []string{"zk.test:" + port}, framework.WithTLS(&tls.Config{
		InsecureSkipVerify: true,
		VerifyConnection:   func(s tls.ConnectionState) error { name <- s.ServerName; return nil },
	}), framework.WithResolver(func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }))
	require.NoError(t, named.WaitConnected(testbed.Context(t)))
	require.Equal(t, "zk.test", <-name, "the certificate must be for the name, not for its address")
}

// selfSigned returns a certificate for 127.0.0.1, and the pool that trusts it.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	certificate, pool, err := localCertificate()
	require.NoError(t, err)
	return certificate, pool
}

func TestServerListIsAskedAgain(t *testing.T) { // CUR-CST-10
	server := zktest.NewServer(t)
	var asked atomic.Int32
	client := testbed.NewClient(t, nil, framework.WithServerList(func(context.Context) ([]string, error) {
		switch asked.Add(1) {
		case 1:
			return nil, errors.New("the registry is down")
		case 2:
			return []string{"127.0.0.1:1"}, nil
		}
		return []string{server.Addr()}, nil
	}))
	require.NoError(t, client.WaitConnected(testbed.Context(t)))
	require.EqualValues(t, 3, asked.Load())
}

func TestWaitConnectedDoesNotReturnOnADeadLink(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		ctx := testbed.Context(t)
		for range 30 {
			require.NoError(t, client.Sync(ctx)) // so that the connection was of use
			session := testbed.Session(t, client)
			require.NoError(t, server.ExpireSession(session.ID()))
			<-session.Done()
			require.NoError(t, client.WaitConnected(ctx))
			require.NotSame(t, session, testbed.Session(t, client))
		}
	})
}

func TestAClientConnectsByItself(t *testing.T) { // CUR-CLI-03, CUR-CST-11, KZ-CST-03
	testbed.Bubble(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		server.RefuseConnections(true)
		client := testbed.ClientOf(t, server)
		states := heard(t, client)
		connected := make(chan connstate.State, 1)
		testbed.Listen(t, client, func(s connstate.State) { connected <- s })
		server.RefuseConnections(false)
		require.Equal(t, connstate.Connected, testbed.Receive(t, connected, "a connection that nobody has asked for"))
		synctest.Wait() // the other listener is notified, too
		began := time.Now()
		for range 2 {
			require.NoError(t, client.WaitConnected(t.Context()))
		}
		require.Zero(t, time.Since(began))
		require.Equal(t, []connstate.State{connstate.Connected}, states())
	})
}
