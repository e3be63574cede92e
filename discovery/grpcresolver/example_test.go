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
