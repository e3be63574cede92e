package admin_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/admin"
	"github.com/gocurator/curator/zktest"
)

// A tool shows which rights it has, and reads several nodes with one request.
func Example() {
	server, err := zktest.Start() // a ZooKeeper server in this process
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New(server.Servers(), framework.WithAuth("digest", []byte("ada:secret")))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	for _, path := range []string{"/shop/currency", "/shop/rates/CHF", "/shop/rates/USD"} {
		if _, err := client.Create(ctx, path, []byte(path[len(path)-3:]), framework.PersistentParents()); err != nil {
			log.Fatal(err)
		}
	}
	who, err := admin.WhoAmI(ctx, client)
	if err != nil {
		log.Fatal(err)
	}
	for _, identity := range who {
		if identity.Scheme == "digest" {
			fmt.Println("user:", identity.User)
		}
	}
	results, err := admin.MultiRead(ctx, client, admin.Read{Path: "/shop/rates/CHF"}, admin.Read{Path: "/shop/rates", Children: true}, admin.Read{Path: "/none"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, %d rates, and an error: %t\n", results[0].Data, len(results[1].Children), results[2].Err != nil)
	n, err := admin.CountDescendants(ctx, client, "/shop")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("nodes below /shop:", n)
	// Output:
	// user: ada
	// CHF, 2 rates, and an error: true
	// nodes below /shop: 4
}
