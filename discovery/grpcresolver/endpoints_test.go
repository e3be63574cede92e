package grpcresolver_test

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/discovery/grpcresolver"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// resolved returns the first list of addresses of a service.
func resolved(t *testing.T, server *zktest.Server, service string, opts ...grpcresolver.Option) []string {
	t.Helper()
	r, built, err := build(t, builder(t, newDiscovery(t, server), opts...), grpcresolver.Target(service))
	require.NoError(t, err)
	defer built.Close()
	return r.addresses(t)
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
	socket := testbed.Must(net.Listen("unix", "4444"))
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
	_, err := call(testbed.Context(t), connect(t, builder(t, newDiscovery(t, server))))
	require.Error(t, err)
	require.NoError(t, socket.Close())
	_, dialed := <-accepted
	require.False(t, dialed)
}

func TestBuild_RefusesBadTargetsAndAfterClose(t *testing.T) {
	b := builder(t, newDiscovery(t, zktest.NewServer(t)))
	for _, target := range []string{"curator:///", "curator://zk1/orders", "curator:///a?b", "curator:///a?", "curator:///a#b"} {
		_, built, err := build(t, b, target)
		require.ErrorIs(t, err, framework.ErrBadArgument, target)
		require.Nil(t, built)
	}
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	_, built, err := build(t, b, "curator:///orders")
	require.Error(t, err)
	require.Nil(t, built)
}

func TestNewBuilder_RefusesBadArguments(t *testing.T) {
	d := newDiscovery(t, zktest.NewServer(t))
	_, err := grpcresolver.NewBuilder(d, grpcresolver.WithProtocol(""))
	require.ErrorIs(t, err, framework.ErrBadArgument)
	require.ErrorIs(t, testbed.Err(grpcresolver.NewBuilder(d, nil)), framework.ErrBadArgument)
	require.ErrorIs(t, testbed.Err(grpcresolver.NewBuilder[string](nil)), framework.ErrBadArgument)
}

// The Java provider's node is deleted and created at every reconnect.
func TestNoEmptyListWhileTheOnlyInstanceIsCreatedAgain(t *testing.T) {
	server := zktest.NewServer(t)
	data := []byte(`{"address":"h","port":80}`)
	require.NoError(t, server.Create("/services/orders/1", data))
	r, built, err := build(t, builder(t, newDiscovery(t, server)), "curator:///orders")
	require.NoError(t, err)
	defer built.Close()
	require.Equal(t, []string{"h:80"}, r.addresses(t))
	for range 50 {
		require.NoError(t, server.Delete("/services/orders/1"))
		require.NoError(t, server.Create("/services/orders/1", data))
	}
	require.NoError(t, server.Create("/services/orders/2", data))
	for {
		list := r.addresses(t)
		require.NotEmpty(t, list)
		require.Equal(t, "h:80", list[0], "no error either")
		if len(list) == 2 {
			require.Empty(t, r.errors)
			return
		}
	}
}
