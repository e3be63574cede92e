package kratosregistry_test

import (
	"context"
	"fmt"
	"log"

	"github.com/go-kratos/kratos/v2"
	kratoslog "github.com/go-kratos/kratos/v2/log"
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
