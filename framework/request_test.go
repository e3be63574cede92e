package framework_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

func TestCancelledWhileTheServerDoesNotRead(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		require.NoError(t, client.WaitConnected(t.Context()))
		w.Server.Freeze()
		defer w.Server.Thaw()
		ctx := testbed.Cancelled(t)
		began := time.Now()
		for range 1000 {
			require.ErrorIs(t, testbed.Err(client.Get(ctx, "/a")), context.Canceled)
		}
		require.Zero(t, time.Since(began))
	})
}

// unread is a connection whose writes wait while stop is held, as with a peer that does not read.
type unread struct {
	net.Conn
	stop *sync.RWMutex
}

func (s unread) Write(b []byte) (int, error) {
	s.stop.RLock()
	defer s.stop.RUnlock()
	return s.Conn.Write(b)
}

// TestARequestThatWasGivenUpBeforeItWasWrittenIsNotSent: it was carried out when the peer read
// again, after its caller had given up.
func TestARequestThatWasGivenUpBeforeItWasWrittenIsNotSent(t *testing.T) {
	server := zktest.NewServer(t)
	var stop sync.RWMutex
	client := newClient(t, server, framework.WithSessionTimeout(40*time.Second), framework.WithDialer(
		func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, network, address)
			return unread{nc, &stop}, err
		}))
	testbed.Create(t, client, "/a", nil)
	stop.Lock()
	goOn := sync.OnceFunc(stop.Unlock)
	defer goOn() // Close waits for the write
	surely := 0
	const requests = 100
	for range requests {
		_, err := client.Set(testbed.Timeout(t, time.Millisecond), "/a", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, zk.ErrNoServer, "there is a connection")
		if !retry.Unknown(err) {
			surely++
		}
	}
	goOn()
	stat := testbed.Stat(t, client, "/a")
	require.GreaterOrEqual(t, surely, requests-1, "the first may be in the hands of the goroutine that writes")
	require.LessOrEqual(t, int(stat.Version), requests-surely, "what the errors call not sent was not carried out")
}

// TestARequestThatIsTooLongCostsNobodyTheConnection: each of six tries suspended all holders of the
// process.
func TestARequestThatIsTooLongCostsNobodyTheConnection(t *testing.T) {
	_, client := start(t)
	ctx := testbed.Context(t)
	require.NoError(t, client.WaitConnected(ctx))
	states := heard(t, client)
	long, data := "/"+strings.Repeat("x", 1<<20), make([]byte, 1<<20)
	for name, op := range map[string]func() error{
		"create":           func() error { return testbed.Err(client.Create(ctx, "/a", data)) },
		"protected create": func() error { return testbed.Err(client.Create(ctx, "/a", data, framework.Protected())) },
		"container": func() error {
			return testbed.Err(client.Create(ctx, "/a", data, framework.As(framework.Container)))
		},
		"set":       func() error { return testbed.Err(client.Set(ctx, "/a", data)) },
		"multi":     func() error { return testbed.Err(client.Multi(ctx, &zk.SetDataRequest{Path: "/a", Data: data})) },
		"delete":    func() error { return client.Delete(ctx, long) },
		"guarantee": func() error { return client.Delete(ctx, long, framework.IfExists(), framework.Guaranteed()) },
		"get":       func() error { return testbed.Err(client.Get(ctx, long)) },
		"watch":     func() error { return testbed.Err(client.ChildrenW(ctx, long)) },
		"exists":    func() error { return testbed.Err(client.ExistsW(ctx, long)) },
		"set acl":   func() error { return testbed.Err(client.SetACL(ctx, long, zk.WorldACL(zk.PermAll))) },
		"add watch": func() error {
			return testbed.Err(client.AddWatch(ctx, long, framework.WatchRecursive, func(zk.Event) {}))
		},
	} {
		err := op()
		require.ErrorIs(t, err, framework.ErrTooLong, name)
		require.False(t, retry.Unknown(err) || verdict.Retryable(err), name)
	}
	require.Empty(t, states())
}

// TestMaxRequestIsThatOfTheServers: without the length prefix, which they do not count either.
func TestMaxRequestIsThatOfTheServers(t *testing.T) {
	server := zktest.NewServer(t)
	client, over := newClient(t, server), newClient(t, server, framework.WithMaxRequest(2<<20), framework.WithRetryPolicy(retry.Never()))
	ctx := testbed.Context(t)
	testbed.Create(t, client, "/a", nil)
	const longest = 1<<20 - 1 - 8 - 4 - len("/a") - 4 - 4 // header, path, data, version
	testbed.Set(t, client, "/a", make([]byte, longest))
	require.ErrorIs(t, testbed.Err(client.Set(ctx, "/a", make([]byte, longest+1))), framework.ErrTooLong)
	require.ErrorIs(t, testbed.Err(over.Set(ctx, "/a", make([]byte, longest+1))), zk.ErrConnectionClosed)
	for _, bytes := range []int{-1, 0, 1023} {
		_, err := framework.New(server.Servers(), framework.WithMaxRequest(bytes))
		require.ErrorIs(t, err, framework.ErrBadArgument)
	}
}
