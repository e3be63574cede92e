package multilock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/multilock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
)

// Money is moved while both accounts are locked. Everybody locks them in the same order.
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

	from, err := mutex.New(client, "/accounts/17")
	if err != nil {
		log.Fatal(err)
	}
	to, err := mutex.New(client, "/accounts/42")
	if err != nil {
		log.Fatal(err)
	}
	both, err := multilock.New(from, to)
	if err != nil {
		log.Fatal(err)
	}
	err = both.Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("move money")
		return ctx.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// move money
}
