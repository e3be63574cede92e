package grpcresolver_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/discovery/dubbo"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/jvm"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/zktest"
)

const javaTimeout = 5 * time.Minute // a JVM takes a while to start on a busy machine

// dubboPeer starts testdata/java/demo/Peer.java with Dubbo 3.3.5.
func dubboPeer(t *testing.T, server *zktest.Server, args ...string) *jvm.Process {
	t.Helper()
	testlevel.Need(t, testlevel.Nightly)
	classes := jvm.Resolve(t, "dubbo", "../../test/interop/peers/dubbo/pom.xml").
		Compile(t, []string{"testdata/java/demo/Peer.java", "testdata/java/demo/Greeter.java"}, "testdata/java")
	p := classes.Start(t, append([]string{
		// it registers 127.0.0.1
		"-Djava.net.preferIPv4Stack=true", "-Ddubbo.network.interface.ignored=.*",
		"demo.Peer", server.Servers()[0]}, args...)...)
	p.Await(t, "STARTED")
	return p
}

// greeter is the gRPC service demo.Greeter, as generated code describes it.
var greeter = grpc.ServiceDesc{
	ServiceName: "demo.Greeter", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "greet", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		name := new(wrapperspb.StringValue)
		if err := decode(name); err != nil {
			return nil, err
		}
		return wrapperspb.String("hello " + name.Value + " from go"), nil
	}}},
}

// A consumer of Dubbo in Java finds a gRPC service in Go by its interface, and calls it.
func TestDubbo_AConsumerInJavaCallsAServiceInGo(t *testing.T) {
	testlevel.Need(t, testlevel.Nightly)
	server := zktest.NewServer(t)
	client, err := framework.New(server.Servers())
	require.NoError(t, err)
	defer client.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	service := grpc.NewServer()
	service.RegisterService(&greeter, nil)
	ended := make(chan error)
	go func() { ended <- service.Serve(listener) }()
	defer func() {
		service.Stop()
		require.NoError(t, <-ended)
	}()
	app := dubbo.Application{Name: "go-provider", Host: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port}
	for name, info := range service.GetServiceInfo() {
		s := dubbo.Service{Name: name}
		for _, m := range info.Methods {
			s.Methods = append(s.Methods, m.Name)
		}
		app.Services = append(app.Services, s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), javaTimeout)
	defer cancel()
	reg, err := dubbo.Register(ctx, client, app)
	require.NoError(t, err)
	consumer := dubboPeer(t, server, "consume")
	call := func(name string) string {
		_, err := fmt.Fprintln(consumer.Stdin, name)
		require.NoError(t, err)
		return consumer.Await(t, "ANSWER")
	}
	require.Equal(t, "hello ann from go", call("ann"))
	for n := range 50 { // no call is lost while the servers restart
		if n%20 == 10 {
			require.NoError(t, server.Restart())
		}
		require.Equal(t, fmt.Sprintf("hello %d from go", n), call(fmt.Sprint(n)))
	}
	require.NoError(t, reg.Close())
	require.False(t, server.Exists("/dubbo/mapping/demo.Greeter"))
	for !strings.HasPrefix(call("bob"), "failed") { // the consumer hears of it
	}
}

// A client in Go calls a Dubbo provider in Java with two protocols, while ZooKeeper restarts: Java
// deletes and creates its node.
func TestDubbo_AClientInGoCallsAProviderInJava(t *testing.T) {
	testlevel.Need(t, testlevel.Nightly)
	server := zktest.NewServer(t)
	provider := dubboPeer(t, server, "provide", "java-provider", freePort(t), freePort(t))
	client, err := framework.New(server.Servers())
	require.NoError(t, err)
	defer client.Close()
	d, err := discovery.New[discovery.Metadata](client, "/services")
	require.NoError(t, err)
	b := builder(t, d)
	defer b.Close()
	conn, err := grpc.NewClient("curator:///java-provider", grpc.WithResolvers(b), grpc.WithDefaultServiceConfig(roundRobin),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), javaTimeout)
	defer cancel()
	call := func() error {
		answer := new(wrapperspb.StringValue)
		err := conn.Invoke(ctx, "/demo.Greeter/greet", wrapperspb.String("ann"), answer)
		if err == nil && answer.Value != "hello ann from java" {
			err = fmt.Errorf("answer %q", answer.Value)
		}
		return err
	}
	path := func() string {
		list, err := d.Lookup(ctx, "java-provider")
		require.NoError(t, err)
		require.Len(t, list, 1)
		return list[0].Path()
	}()
	for range 4 {
		before, err := server.Stat(path)
		require.NoError(t, err)
		require.NoError(t, server.Restart())
		for { // until Java has created its node again
			require.NoError(t, call())
			if now, err := server.Stat(path); err == nil && now.Czxid != before.Czxid {
				break
			}
		}
		for range 100 {
			require.NoError(t, call())
		}
	}
	provider.Kill()
	require.Error(t, call())
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}
