package kratosregistry_test

import (
	"context"
	"fmt"
	"log"

	"github.com/go-kratos/kratos/v2"
	kratoslog "github.com/go-kratos/kratos/v2/log"
	"github.com/go-kratos/kratos/v2/registry"
	"github.com/go-kratos/kratos/v2/transport/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/gocurator/curator/discovery/kratosregistry"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// A Kratos application registers, and a Kratos client calls it by the name of the service.
func Example() {
	kratoslog.SetLogger(kratoslog.NewFilter(kratoslog.DefaultLogger, kratoslog.FilterLevel(kratoslog.LevelFatal)))
	zookeeper, err := zktest.Start() // a ZooKeeper server in this process
	if err != nil {
		log.Fatal(err)
	}
	defer zookeeper.Close()
	client, err := framework.New(zookeeper.Servers())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	reg, err := kratosregistry.New(client)
	if err != nil {
		log.Fatal(err)
	}

	app := kratos.New(kratos.Name("orders"), kratos.Server(grpc.NewServer(grpc.Address("127.0.0.1:0"))), kratos.Registrar(reg))
	ended := make(chan error)
	go func() { ended <- app.Run() }() // ends with Stop

	ctx := context.Background()
	conn, err := grpc.DialInsecure(ctx, grpc.WithEndpoint("discovery:///orders"), grpc.WithDiscovery(reg), grpc.WithTimeout(0))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.GetStatus())

	if err := app.Stop(); err != nil {
		log.Fatal(err)
	}
	<-ended
	list, err := reg.GetService(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(list), "instances")
	// Output:
	// SERVING
	// 0 instances
}

// The services of a team have a separate parent, and broken nodes are counted.
func ExampleNew() {
	zookeeper, err := zktest.Start() // a ZooKeeper server in this process
	if err != nil {
		log.Fatal(err)
	}
	defer zookeeper.Close()
	client, err := framework.New(zookeeper.Servers())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	reg, err := kratosregistry.New(client,
		kratosregistry.WithRootPath("/billing/services"),
		kratosregistry.WithUnreadable(func(path string, err error) { fmt.Println("skipped", path) }))
	if err != nil {
		log.Fatal(err)
	}
	orders := &registry.ServiceInstance{ID: "1", Name: "orders", Endpoints: []string{"grpc://10.0.0.1:9000"}}
	if err := reg.Register(ctx, orders); err != nil {
		log.Fatal(err)
	}
	// Another program writes something else.
	if _, err := client.Create(ctx, "/billing/services/orders/2", []byte("10.0.0.2:9000")); err != nil {
		log.Fatal(err)
	}
	list, err := reg.GetService(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(list[0].Endpoints)
	if err := reg.Deregister(ctx, orders); err != nil {
		log.Fatal(err)
	}
	// Output:
	// skipped /billing/services/orders/2
	// [grpc://10.0.0.1:9000]
}
