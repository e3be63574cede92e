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
	"github.com/gocurator/curator/internal/test/jvm"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/zktest"
)

const javaTimeout = 5 * time.Minute // a JVM takes a while to start on a busy machine

// dubboPeer starts testdata/java/demo/Peer.java with Dubbo 3.3.5.
func dubboPeer(t *testing.T, server *zktest.Server, args ...string) *jvm.Process {
	t.Helper()
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

// Consumers of Dubbo in Java find a gRPC service in Go by its interface, and call it: one in a
// group, and one without.
func TestDubbo_ConsumersInJavaCallAServiceInGo(t *testing.T) {
	for _, group := range []string{"abc", ""} {
		t.Run("group "+group, func(t *testing.T) {
			testlevel.Need(t, testlevel.Test)
			if group == "" {
				testlevel.Need(t, testlevel.Nightly)
			}
			javaCallsGo(t, group)
		})
	}
}

func javaCallsGo(t *testing.T, group string) {
	server := zktest.NewServer(t)
	client := testbed.NewClient(t, server.Servers())
	listener := testbed.Must(net.Listen("tcp", "127.0.0.1:0"))
	service := grpc.NewServer()
	service.RegisterService(&greeter, nil)
	ended := testbed.Go(func() error { return service.Serve(listener) })
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
	ctx := testbed.Timeout(t, javaTimeout)
	var opts []dubbo.Option
	root := "/dubbo"
	if group != "" {
		opts, root = append(opts, dubbo.WithGroup(group)), "/"+group
	}
	reg := testbed.Must(dubbo.Register(ctx, client, app, opts...))
	consumer := dubboPeer(t, server, "consume", group)
	call := func(name string) string {
		require.NoError(t, testbed.Err(fmt.Fprintln(consumer.Stdin, name)))
		return consumer.Await(t, "ANSWER")
	}
	require.Equal(t, "hello ann from go", call("ann"))
	restarts := testlevel.Pick(0, 0, 2)
	for n := range 100 { // the provider's session expires after 20 calls, and the server restarts
		if n == 20 {
			require.NoError(t, server.ExpireSession(testbed.Session(t, client).ID()))
		}
		if n%20 == 10 && restarts > 0 {
			restarts--
			require.NoError(t, server.Restart())
		}
		answer := call(fmt.Sprint(n))
		for n >= 20 && strings.Contains(answer, "No provider available") { // no node: the client creates it again
			answer = call(fmt.Sprint(n))
		}
		require.Equal(t, fmt.Sprintf("hello %d from go", n), answer)
	}
	// A name below the application's harms no consumer: it is refused.
	base := "/services"
	if group != "" {
		base = root
	}
	d := testbed.Must(discovery.New[discovery.Metadata](client, base))
	_, err := d.Register(ctx, discovery.Dubbo("go-provider/v2", "127.0.0.1", app.Port, nil))
	require.ErrorIs(t, err, discovery.ErrNested)
	require.Equal(t, "hello ann from go", call("ann"))
	require.NoError(t, reg.Close())
	require.False(t, server.Exists(root+"/mapping/demo.Greeter"))
	for !strings.HasPrefix(call("bob"), "failed") { // the consumer hears of it
	}
}

// A client in Go calls a Dubbo provider in Java with two protocols, while its session ends and
// ZooKeeper restarts: Java deletes and creates its node.
func TestDubbo_AClientInGoCallsAProviderInJava(t *testing.T) {
	testlevel.Need(t, testlevel.Test)
	server := zktest.NewServer(t)
	provider := dubboPeer(t, server, "provide", "java-provider", freePort(t), freePort(t))
	d := testbed.Must(discovery.New[discovery.Metadata](testbed.NewClient(t, server.Servers()), "/services"))
	b := builder(t, d)
	conn, err := grpc.NewClient("curator:///java-provider", grpc.WithResolvers(b), grpc.WithDefaultServiceConfig(roundRobin),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	ctx := testbed.Timeout(t, javaTimeout)
	call := func() error {
		answer := new(wrapperspb.StringValue)
		err := conn.Invoke(ctx, "/demo.Greeter/greet", wrapperspb.String("ann"), answer)
		if err == nil && answer.Value != "hello ann from java" {
			err = fmt.Errorf("answer %q", answer.Value)
		}
		return err
	}
	path := func() string {
		list := testbed.Must(d.Lookup(ctx, "java-provider"))
		require.Len(t, list, 1)
		return list[0].Path()
	}()
	require.NoError(t, call()) // from now on the list is watched
	for n := range testlevel.Pick(1, 1, 5) {
		before := testbed.ServerStat(t, server, path)
		if n == 0 {
			require.NoError(t, server.ExpireSession(before.EphemeralOwner))
		} else {
			require.NoError(t, server.Restart())
		}
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
	l := testbed.Must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}
