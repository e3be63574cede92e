package dubbo_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gocurator/curator/discovery/dubbo"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// A gRPC server registers for consumers whose registry is zookeeper://host:2181?group=shop.
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
	ctx := context.Background()

	var reg *dubbo.Registration
	reg, err = dubbo.Register(ctx, client, dubbo.Application{
		Name: "orders", Host: "10.0.0.7", Port: 50051,
		Services: []dubbo.Service{{Name: "demo.Greeter", Methods: []string{"greet"}}},
	}, dubbo.WithGroup("shop"))
	if err != nil {
		log.Fatal(err)
	}
	defer reg.Close() // or reg.Drain(ctx, 5*time.Second) before the server stops

	apps, _, err := client.Get(ctx, "/shop/mapping/demo.Greeter")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s, revision of %d digits\n", apps, reg.Path(), len(reg.Revision()))
	// Output:
	// orders /shop/orders/10.0.0.7:50051, revision of 32 digits
}
