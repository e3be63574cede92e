package grpcresolver_test

import (
	"context"
	"maps"
	"net"
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
	client, err := framework.New(server.Servers())
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	d, err := discovery.New[zone](client, "/services")
	require.NoError(t, err)
	return d
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := newServer(id)
	ended := make(chan error)
	go func() { ended <- server.Serve(listener) }()
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
	t.Cleanup(func() { b.Close() })
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
	t.Cleanup(func() { b.Close() })
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
	resolver.ClientConn
	states chan resolver.State
	errors chan error
}

func (r *recorder) UpdateState(s resolver.State) error { r.states <- s; return nil }
func (r *recorder) ReportError(err error)              { r.errors <- err }

func build(t *testing.T, b resolver.Builder, target string) (*recorder, resolver.Resolver, error) {
	t.Helper()
	r := &recorder{states: make(chan resolver.State, 10), errors: make(chan error, 10)}
	// grpc.NewClient parses the target.
	var built resolver.Resolver
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithResolvers(parse{b, func(target resolver.Target) (resolver.Resolver, error) {
		var err error
		built, err = b.Build(target, r, resolver.BuildOptions{})
		return nothing{}, err
	}}))
	require.NoError(t, err)
	defer conn.Close()
	ctx := testbed.Cancelled(t)
	// makes gRPC call Build
	_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	return r, built, err
}

type parse struct {
	resolver.Builder
	f func(resolver.Target) (resolver.Resolver, error)
}

func (p parse) Build(target resolver.Target, _ resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	return p.f(target)
}

type nothing struct{}

func (nothing) ResolveNow(resolver.ResolveNowOptions) {}
func (nothing) Close()                                {}

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
	defer b.Close()
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

func TestBadTargetsAndAClosedBuilderAreErrors(t *testing.T) {
	b := builder(t, newDiscovery(t, zktest.NewServer(t)))
	for _, target := range []string{"curator:///", "curator://zk1/orders"} {
		_, built, err := build(t, b, target)
		require.ErrorContains(t, err, "bad argument", target)
		require.Nil(t, built)
	}
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	_, built, err := build(t, b, "curator:///orders")
	require.Error(t, err)
	require.Nil(t, built)
}

func TestAClientThatIsClosedIsReported(t *testing.T) {
	server := zktest.NewServer(t)
	require.NoError(t, server.Create("/services/orders/1", []byte(`{"address":"a","port":1}`)))
	for _, watched := range []bool{false, true} {
		client, err := framework.New(server.Servers())
		require.NoError(t, err)
		d, err := discovery.New[zone](client, "/services")
		require.NoError(t, err)
		b := builder(t, d)
		if watched {
			r, built, _ := build(t, b, "curator:///orders")
			<-r.states
			built.Close()
		}
		require.NoError(t, client.Close())
		r, built, _ := build(t, b, "curator:///orders")
		select {
		case err := <-r.errors:
			require.ErrorIs(t, err, framework.ErrClosed)
		case <-testbed.Context(t).Done():
			t.Fatal("a connection waits for ever for its first list")
		}
		built.Close()
		require.NoError(t, b.Close())
	}
}
