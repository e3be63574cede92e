package grpcresolver_test

import (
	"context"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/discovery/grpcresolver"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const roundRobin = `{"loadBalancingConfig":[{"round_robin":{}}]}`

type zone struct {
	Zone map[string]string `json:"zone"` // cannot be compared with ==
}

func newDiscovery(t *testing.T, server *zktest.Server) *discovery.Discovery[zone] {
	t.Helper()
	return testbed.Must(discovery.New[zone](testbed.NewClient(t, server.Servers()), "/services"))
}

// newServer creates a gRPC server whose answers have its id in their header.
func newServer(id string) *grpc.Server {
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if err := grpc.SetHeader(ctx, metadata.Pairs("id", id)); err != nil {
			return nil, err
		}
		return handle(ctx, req)
	}))
	healthpb.RegisterHealthServer(server, health.NewServer())
	return server
}

// registered registers the server of a listener.
func registered(ctx context.Context, d *discovery.Discovery[zone], id string, listener net.Listener) (*discovery.Registration[zone], error) {
	return d.Register(ctx, discovery.Instance[zone]{
		Name: "orders", ID: id, Address: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port, Payload: zone{map[string]string{"name": id}},
	})
}

// serve starts a gRPC server and registers it.
func serve(t *testing.T, d *discovery.Discovery[zone], id string) (*discovery.Registration[zone], *grpc.Server) {
	t.Helper()
	listener := testbed.Must(net.Listen("tcp", "127.0.0.1:0"))
	server := newServer(id)
	ended := testbed.Go(func() error { return server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-ended)
	})
	r, err := registered(testbed.Context(t), d, id, listener)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	return r, server
}

func connect(t *testing.T, b resolver.Builder, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("curator:///orders", append([]grpc.DialOption{grpc.WithResolvers(b),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(roundRobin)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// call returns the id of the server that was called.
func call(ctx context.Context, conn *grpc.ClientConn) (id string, err error) {
	var header metadata.MD
	_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Header(&header))
	return strings.Join(header.Get("id"), " "), err
}

// until calls until only these servers are called.
func until(t *testing.T, conn *grpc.ClientConn, want ...string) {
	t.Helper()
	slices.Sort(want)
	testbed.Eventually(t, func() bool {
		called := map[string]bool{}
		for range 10 {
			id, err := call(testbed.Context(t), conn)
			require.NoError(t, err)
			called[id] = true
		}
		return slices.Equal(slices.Sorted(maps.Keys(called)), want)
	}, "only these servers are called")
}

func TestCallsGoToTheInstancesThatAreThere(t *testing.T) {
	server := zktest.NewServer(t)
	d := newDiscovery(t, server)
	b := builder(t, d)
	conn := connect(t, b)
	_, err := call(testbed.Context(t), conn)
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "curator:///orders: no instance")

	one, _ := serve(t, d, "one")
	testbed.Eventually(t, func() bool { _, err := call(testbed.Context(t), conn); return err == nil }, "a call succeeds")
	until(t, conn, "one")
	serve(t, d, "two")
	until(t, conn, "one", "two")
	require.NoError(t, one.Close())
	until(t, conn, "two")
	server.RefuseConnections(true)
	server.CutConnections()
	until(t, conn, "two") // without ZooKeeper
	server.RefuseConnections(false)
	serve(t, d, "three")
	until(t, conn, "two", "three")

	const watches = 3 // of the nodes of two and three, and of the service
	testbed.Eventually(t, func() bool { return server.WatchCount() == watches }, "no watch is left")
	again := connect(t, b)
	until(t, again, "two", "three")
	require.Equal(t, watches, server.WatchCount(), "connections share a watch")
}

// TestAListOutlivesAnIdleConnection has gRPC close the resolver of an idle connection, as it does
// after 30 minutes, and build another one while there is no ZooKeeper.
func TestAListOutlivesAnIdleConnection(t *testing.T) {
	server := zktest.NewServer(t)
	d := newDiscovery(t, server)
	b := builder(t, d)
	serve(t, d, "one")
	conn := connect(t, b, grpc.WithIdleTimeout(100*time.Millisecond))
	until(t, conn, "one")
	idle := func() bool { return conn.GetState() == connectivity.Idle }
	testbed.Eventually(t, idle, "the connection is idle")
	watches := server.WatchCount()
	serve(t, d, "two")
	until(t, conn, "one", "two")
	require.Equal(t, watches+1, server.WatchCount(), "of the node of two: the resolvers share one")
	server.RefuseConnections(true)
	server.CutConnections()
	testbed.Eventually(t, idle, "the connection is idle again")
	until(t, conn, "one", "two")
	server.RefuseConnections(false)
}

// recorder is a connection that keeps what a resolver reports.
type recorder struct {
	resolver.ClientConn // nil: no other method is called
	states              chan resolver.State
	errors              chan error
}

func (r *recorder) UpdateState(s resolver.State) error { r.states <- s; return nil }
func (r *recorder) ReportError(err error)              { r.errors <- err }

// addresses returns the next list of addresses, or an error as text.
func (r *recorder) addresses(t *testing.T) []string {
	t.Helper()
	list := []string{}
	select {
	case state := <-r.states:
		for _, e := range state.Endpoints {
			list = append(list, e.Addresses[0].Addr)
		}
	case err := <-r.errors:
		list = append(list, err.Error())
	case <-testbed.Context(t).Done():
		require.FailNow(t, "waited in vain", "for a list")
	}
	return list
}

func builder[T any](t *testing.T, d *discovery.Discovery[T], opts ...grpcresolver.Option) *grpcresolver.Builder[T] {
	t.Helper()
	b, err := grpcresolver.NewBuilder(d, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// build builds a resolver, as gRPC does.
func build(t *testing.T, b resolver.Builder, target string) (*recorder, resolver.Resolver, error) {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	r := &recorder{states: make(chan resolver.State, 1000), errors: make(chan error, 1000)}
	built, err := b.Build(resolver.Target{URL: *u}, r, resolver.BuildOptions{})
	return r, built, err
}

func TestEndpointsHaveTheirInstances(t *testing.T) {
	server := zktest.NewServer(t)
	d := newDiscovery(t, server)
	serve(t, d, "one")
	for path, data := range map[string]string{
		"tls":      `{"address":"::1","sslPort":443}`,
		"disabled": `{"address":"a","port":1,"enabled":false}`,
		"nowhere":  `{"port":1}`,
		"noport":   `{"address":"a"}`,
	} {
		require.NoError(t, server.Create("/services/orders/"+path, []byte(data)))
	}
	b := builder(t, d)
	r, built, _ := build(t, b, "curator:///orders")
	defer built.Close()
	state := <-r.states
	require.Len(t, state.Endpoints, 2)
	i, found := grpcresolver.Instance[zone](state.Endpoints[0])
	require.True(t, found)
	require.Equal(t, zone{map[string]string{"name": "one"}}, i.Payload)
	require.Equal(t, "[::1]:443", state.Endpoints[1].Addresses[0].Addr)
	require.Empty(t, state.Endpoints[1].Addresses[0].ServerName)
	require.True(t, state.Endpoints[0].Attributes.Equal(state.Endpoints[0].Attributes))
	require.False(t, state.Endpoints[0].Attributes.Equal(state.Endpoints[1].Attributes))
	_, found = grpcresolver.Instance[string](state.Endpoints[0])
	require.False(t, found)
}

func TestAClientThatIsClosedIsReported(t *testing.T) {
	server := zktest.NewServer(t)
	require.NoError(t, server.Create("/services/orders/1", []byte(`{"address":"a","port":1}`)))
	for _, watched := range []bool{false, true} {
		client := testbed.NewClient(t, server.Servers())
		d := testbed.Must(discovery.New[zone](client, "/services"))
		b := builder(t, d)
		if watched {
			r, built, _ := build(t, b, "curator:///orders")
			<-r.states
			built.Close()
		}
		require.NoError(t, client.Close())
		r, built, _ := build(t, b, "curator:///orders")
		require.ErrorIs(t, testbed.Receive(t, r.errors, "the first report to a connection"), framework.ErrClosed)
		built.Close()
	}
}
