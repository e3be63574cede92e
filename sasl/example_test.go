package sasl_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/admin"
	"github.com/gocurator/curator/sasl"
	"github.com/gocurator/curator/zktest"
)

// A client logs in to a server that knows its user.
func Example() {
	server, err := zktest.Start(zktest.WithSASL(map[string]string{"orders": "secret"})) // a ZooKeeper server in this process
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New(server.Servers(), framework.WithSASL(sasl.DigestMD5("orders", "secret")))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	who, err := admin.WhoAmI(context.Background(), client)
	if err != nil {
		log.Fatal(err)
	}
	for _, identity := range who {
		if identity.Scheme == "sasl" {
			fmt.Println(identity.User)
		}
	}
	// Output: orders
}
