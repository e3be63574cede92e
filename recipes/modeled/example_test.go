package modeled_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/modeled"
	"github.com/gocurator/curator/zktest"
)

// Account is a model: its fields have the names that Java uses.
type Account struct {
	Owner   string `json:"owner"`
	Balance int64  `json:"balance"`
}

func Example() {
	ctx := context.Background()
	client, stop := newClient()
	defer stop()

	accounts, err := modeled.New[Account](client, "/accounts")
	if err != nil {
		log.Fatal(err)
	}
	if err := accounts.Create(ctx, "42", Account{Owner: "ann", Balance: 100}); err != nil {
		log.Fatal(err)
	}
	updated, err := accounts.Update(ctx, "42", func(a Account) (Account, error) {
		a.Balance -= 10
		return a, nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(updated.Owner, updated.Balance)

	view, err := accounts.View(ctx) // a copy in memory that follows the servers
	if err != nil {
		log.Fatal(err)
	}
	defer view.Close()
	for entry := range view.All() {
		fmt.Println(entry.Name, entry.Value.Balance)
	}
	// Output:
	// ann 90
	// 42 90
}

// newClient returns a client of a ZooKeeper server in this process, and a function that closes
// both.
func newClient() (_ *framework.Client, stop func()) {
	server, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	client, err := framework.New(server.Servers())
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		client.Close()
		server.Close()
	}
}
