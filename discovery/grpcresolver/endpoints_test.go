package grpcresolver_test

import (
	"net"
	"net/url"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/discovery/grpcresolver"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// conn is a gRPC connection that notes the addresses of its endpoints.
type conn struct {
	resolver.ClientConn // nil: no other method is called
	addresses           chan []string
}

func (c conn) UpdateState(s resolver.State) error {
	list := []string{}
	for _, e := range s.Endpoints {
		list = append(list, e.Addresses[0].Addr)
	}
	c.addresses <- list
	return nil
}

func (c conn) ReportError(err error) { c.addresses <- []string{err.Error()} }

// resolved returns the first list of addresses of a service.
func resolved(t *testing.T, server *zktest.Server, service string, opts ...grpcresolver.Option) []string {
	t.Helper()
	b := builder(t, newDiscovery(t, server), opts...)
	defer b.Close()
	target, err := url.Parse(grpcresolver.Target(service))
	require.NoError(t, err)
	c := conn{addresses: make(chan []string, 10)}
	r, err := b.Build(resolver.Target{URL: *target}, c, resolver.BuildOptions{})
	require.NoError(t, err)
	defer r.Close()
	select {
	case list := <-c.addresses:
		return list
	case <-testbed.Context(t).Done():
		require.FailNow(t, "no list")
	}
	return nil
}

func TestEndpoints(t *testing.T) {
	server := zktest.NewServer(t)
	dubbo := `{"address":"h","port":1,"payload":{"@class":"org.apache.dubbo.registry.zookeeper.ZookeeperInstance","metadata":` +
		`{"dubbo.endpoints":"[{\"port\":1,\"protocol\":\"dubbo\"},{\"port\":2,\"protocol\":\"tri\"}]"}}}`
	for n, c := range []struct {
		data string
		want []string
		opts []grpcresolver.Option
	}{
		{`{"address":"[::1]","port":80}`, []string{"[::1]:80"}, nil},
		{`{"address":"::1","port":80}`, []string{"[::1]:80"}, nil},
		{`{"address":"unix","port":80}`, []string{"[unix]:80"}, nil},
		{`{"address":"h","sslPort":443}`, []string{"h:443"}, nil},
		{`{"address":"h","port":80,"sslPort":443}`, []string{"h:80"}, nil},
		{dubbo, []string{"h:2"}, nil},
		{dubbo, []string{"h:1"}, []grpcresolver.Option{grpcresolver.WithProtocol("dubbo")}},
	} {
		name := "a%?#" + string(rune('0'+n)) // which mean something in a target
		require.NoError(t, server.Create("/services/"+name+"/1", []byte(c.data)))
		require.Equal(t, c.want, resolved(t, server, name, c.opts...), c.data)
	}
	require.NoError(t, server.Create("/services/shop/eu/1", []byte(`{"address":"h","port":80}`)))
	require.Equal(t, []string{"h:80"}, resolved(t, server, "shop/eu"))
	require.NoError(t, server.Create("/services/none/1", []byte(dubbo)))
	require.Contains(t, resolved(t, server, "none", grpcresolver.WithProtocol("rest"))[0], discovery.ErrNoInstance.Error())
}

// Data in ZooKeeper must not choose a socket in the file system of the caller.
func TestTheAddressUnixIsAHost(t *testing.T) {
	t.Chdir(t.TempDir())
	socket, err := net.Listen("unix", "4444")
	require.NoError(t, err)
	defer os.Remove("4444")
	accepted := make(chan struct{})
	go func() { // ends with the socket
		defer close(accepted)
		if c, err := socket.Accept(); err == nil {
			_ = c.Close()
			accepted <- struct{}{}
		}
	}()
	server := zktest.NewServer(t)
	require.NoError(t, server.Create("/services/orders/1", []byte(`{"address":"unix","port":4444}`)))
	b := builder(t, newDiscovery(t, server))
	defer b.Close()
	c, err := grpc.NewClient("curator:///orders", grpc.WithResolvers(b), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer c.Close()
	_, err = healthpb.NewHealthClient(c).Check(testbed.Context(t), &healthpb.HealthCheckRequest{})
	require.Error(t, err)
	require.NoError(t, socket.Close())
	_, dialed := <-accepted
	require.False(t, dialed)
}

func TestBuild_RefusesATargetThatIsNotEscaped(t *testing.T) {
	b := builder(t, newDiscovery(t, zktest.NewServer(t)))
	defer b.Close()
	for _, text := range []string{"curator:///", "curator://zk1/orders", "curator:///a?b", "curator:///a?", "curator:///a#b"} {
		target, err := url.Parse(text)
		require.NoError(t, err)
		_, err = b.Build(resolver.Target{URL: *target}, conn{}, resolver.BuildOptions{})
		require.ErrorIs(t, err, framework.ErrBadArgument, text)
	}
}

func TestNewBuilder_RefusesBadArguments(t *testing.T) {
	d := newDiscovery(t, zktest.NewServer(t))
	_, err := grpcresolver.NewBuilder(d, grpcresolver.WithProtocol(""))
	require.ErrorIs(t, err, framework.ErrBadArgument)
	_, err = grpcresolver.NewBuilder(d, nil)
	require.ErrorIs(t, err, framework.ErrBadArgument)
	_, err = grpcresolver.NewBuilder[string](nil)
	require.ErrorIs(t, err, framework.ErrBadArgument)
}

// The Java provider's node is deleted and created at every reconnect.
func TestNoEmptyListWhileTheOnlyInstanceIsCreatedAgain(t *testing.T) {
	server := zktest.NewServer(t)
	data := []byte(`{"address":"h","port":80}`)
	require.NoError(t, server.Create("/services/orders/1", data))
	b := builder(t, newDiscovery(t, server))
	defer b.Close()
	c := conn{addresses: make(chan []string, 1000)}
	r, err := b.Build(resolver.Target{URL: url.URL{Scheme: "curator", Path: "/orders"}}, c, resolver.BuildOptions{})
	require.NoError(t, err)
	defer r.Close()
	require.Equal(t, []string{"h:80"}, <-c.addresses)
	for range 50 {
		require.NoError(t, server.Delete("/services/orders/1"))
		require.NoError(t, server.Create("/services/orders/1", data))
	}
	require.NoError(t, server.Create("/services/orders/2", data))
	for {
		list := <-c.addresses
		require.NotEmpty(t, list)
		require.Equal(t, "h:80", list[0], "no error either")
		if len(list) == 2 {
			return
		}
	}
}

func builder[T any](t *testing.T, d *discovery.Discovery[T], opts ...grpcresolver.Option) *grpcresolver.Builder[T] {
	t.Helper()
	b, err := grpcresolver.NewBuilder(d, opts...)
	require.NoError(t, err)
	return b
}
