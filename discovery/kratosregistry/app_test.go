package kratosregistry_test

import (
	"io"
	"maps"
	nethttp "net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-kratos/kratos/v2"
	kratoslog "github.com/go-kratos/kratos/v2/log"
	"github.com/go-kratos/kratos/v2/registry"
	"github.com/go-kratos/kratos/v2/transport/http"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// run runs a Kratos application that answers with its id.
func run(t *testing.T, reg registry.Registrar, id string) (app *kratos.App, ended <-chan error) {
	t.Helper()
	server := http.NewServer(http.Address("127.0.0.1:0"))
	server.HandleFunc("/id", func(w nethttp.ResponseWriter, _ *nethttp.Request) { _, _ = io.WriteString(w, id) })
	app = kratos.New(kratos.ID(id), kratos.Name("orders"), kratos.Server(server), kratos.Registrar(reg))
	return app, testbed.Go(app.Run) // ends with Stop
}

// What a Kratos service does on its first day: two instances, a client that balances between them,
// one that stops.
func TestAKratosClientCallsTheApplicationsThatRun(t *testing.T) {
	kratoslog.SetLogger(kratoslog.NewFilter(kratoslog.DefaultLogger, kratoslog.FilterLevel(kratoslog.LevelFatal)))
	ctx := testbed.Context(t)
	server := zktest.NewServer(t)
	one, oneEnded := run(t, newRegistry(t, testbed.On(server).Client(t)), "1")
	two, twoEnded := run(t, newRegistry(t, testbed.On(server).Client(t)), "2")
	client, err := http.NewClient(ctx, http.WithEndpoint("discovery:///orders"), http.WithDiscovery(newRegistry(t, testbed.On(server).Client(t))), http.WithBlock())
	require.NoError(t, err)
	defer nethttp.DefaultClient.CloseIdleConnections()
	answers := func() (ids string) { // of ten calls, each one once, and "-" for what fails
		from := map[string]bool{}
		for range 10 {
			request := testbed.Must(nethttp.NewRequestWithContext(ctx, nethttp.MethodGet, "http://orders/id", nil))
			answer, err := client.Do(request)
			if err != nil {
				from["-"] = true
				continue
			}
			id, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			from[string(id)] = true
		}
		return strings.Join(slices.Sorted(maps.Keys(from)), "")
	}
	testbed.Eventually(t, func() bool { return answers() == "12" }, "both are called")
	require.NoError(t, server.Delete("/microservices/orders/1"))
	testbed.Eventually(t, func() bool { return server.Exists("/microservices/orders/1") }, "it is made again")
	testbed.Eventually(t, func() bool { return answers() == "12" }, "both are called")
	require.NoError(t, one.Stop())
	require.NoError(t, <-oneEnded)
	require.False(t, server.Exists("/microservices/orders/1"))
	testbed.Eventually(t, func() bool { return answers() == "2" }, "only the other one is called")
	require.NoError(t, client.Close())
	require.NoError(t, two.Stop())
	require.NoError(t, <-twoEnded)
	require.Empty(t, testbed.ServerChildren(t, server, "/microservices/orders"))
}
