package grpcresolver_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/discovery/grpcresolver"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// A gRPC server registers, and a client calls it by the name of the service.
func Example() {
	server, err := zktest.Start() // a ZooKeeper server in this process
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New(server.Servers())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	d, err := discovery.New[string](client, "/services")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	service := grpc.NewServer()
	healthpb.RegisterHealthServer(service, health.NewServer())
	go service.Serve(listener) // ends with Stop
	defer service.Stop()
	port := listener.Addr().(*net.TCPAddr).Port
	reg, err := d.Register(ctx, discovery.Instance[string]{Name: "orders", Address: "127.0.0.1", Port: port})
	if err != nil {
		log.Fatal(err)
	}
	defer reg.Close()

	builder, err := grpcresolver.NewBuilder(d)
	if err != nil {
		log.Fatal(err)
	}
	defer builder.Close()
	conn, err := grpc.NewClient(grpcresolver.Target("orders"), grpc.WithResolvers(builder), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.GetStatus())
	// Output:
	// SERVING
}

// A balancer uses the endpoints in its own zone, if any.
func ExampleInstance() {
	_ = func(endpoints []resolver.Endpoint, zone string) []resolver.Endpoint { // in UpdateClientConnState
		var own []resolver.Endpoint
		for _, e := range endpoints {
			if i, found := grpcresolver.Instance[map[string]string](e); found && i.Payload["zone"] == zone {
				own = append(own, e)
			}
		}
		if len(own) == 0 {
			return endpoints
		}
		return own
	}
}

// Dubbo registers a port for each protocol of an instance.
func ExampleWithProtocol() {
	server, err := zktest.Start() // a ZooKeeper server in this process
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New(server.Servers())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	service := grpc.NewServer()
	healthpb.RegisterHealthServer(service, health.NewServer())
	go service.Serve(listener) // ends with Stop
	defer service.Stop()
	endpoints := fmt.Sprintf(`[{"port":20880,"protocol":"dubbo"},{"port":%d,"protocol":"grpc"}]`, listener.Addr().(*net.TCPAddr).Port)
	node := fmt.Sprintf(`{"name":"orders","address":"127.0.0.1","port":20880,"payload":{"@class":`+
		`"org.apache.dubbo.registry.zookeeper.ZookeeperInstance","metadata":{"dubbo.endpoints":%q}}}`, endpoints)
	if _, err := client.Create(ctx, "/services/orders/127.0.0.1:20880", []byte(node), framework.ContainerParents()); err != nil {
		log.Fatal(err)
	}

	d, err := discovery.New[map[string]any](client, "/services")
	if err != nil {
		log.Fatal(err)
	}
	builder, err := grpcresolver.NewBuilder(d, grpcresolver.WithProtocol("grpc"))
	if err != nil {
		log.Fatal(err)
	}
	defer builder.Close()
	conn, err := grpc.NewClient(grpcresolver.Target("orders"), grpc.WithResolvers(builder), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.GetStatus())
	// Output:
	// SERVING
}
