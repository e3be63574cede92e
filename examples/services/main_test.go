package main

import (
	"bytes"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/examples/internal/exampletest"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// check runs the program and checks its output.
func check(t *testing.T, servers []string) {
	t.Helper()
	var out bytes.Buffer
	p := program{log: log.New(&out, "", 0), path: "/services", session: 10 * time.Second, patience: 3 * time.Second, drain: 100 * time.Millisecond, every: time.Second}
	require.NoError(t, p.deploy(testbed.Context(t), servers), "%s", &out)
	for _, line := range []string{"orders-old: drained\n", "stock-old: drained\n", " requests, none failed\n"} {
		require.Contains(t, out.String(), line)
	}
}

func TestOnServers(t *testing.T) { exampletest.OnServers(t, check) }

func TestALostRequestIsAnError(t *testing.T) {
	ctx := testbed.Context(t)
	server := zktest.NewServer(t)
	// No client listens there.
	require.NoError(t, server.Create("/services/orders/1", []byte(`{"address":"127.0.0.1","port":1}`)))
	p := program{log: log.New(&bytes.Buffer{}, "", 0), path: "/services", session: 10 * time.Second, patience: time.Second, every: time.Second}
	require.ErrorContains(t, p.call(ctx, server.Servers(), "orders"), "request failed: ")
	failing := httptest.NewServer(http.NotFoundHandler())
	defer failing.Close()
	_, port, err := net.SplitHostPort(failing.Listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, server.Create("/services/stock/1", []byte(`{"address":"127.0.0.1","port":`+port+`}`)))
	require.ErrorContains(t, p.call(ctx, server.Servers(), "stock"), "request failed: 404 Not Found")
	require.Error(t, p.serve(ctx, server.Servers(), "others", "1"))
}
