package modeled_test

import (
	"context"
	"errors"
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

// A list has an entry with an error for a value that cannot be decoded.
func ExampleNodes_List() {
	ctx := context.Background()
	client, stop := newClient()
	defer stop()

	accounts, err := modeled.New[Account](client, "/accounts")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := accounts.Set(ctx, "42", Account{Owner: "ann", Balance: 100}); err != nil {
		log.Fatal(err)
	}
	if _, err := client.Create(ctx, "/accounts/43", []byte("{")); err != nil {
		log.Fatal(err)
	}
	if err := report(ctx, accounts); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 42: 100
	// 43 is not an account
}

// report prints the balance of each account.
func report(ctx context.Context, accounts *modeled.Nodes[Account]) error {
	entries, err := accounts.List(ctx)
	for _, entry := range entries {
		if errors.Is(entry.Err, modeled.ErrBadValue) {
			fmt.Println(entry.Name, "is not an account")
			continue
		}
		fmt.Printf("%s: %d\n", entry.Name, entry.Value.Balance)
	}
	return err
}

// Set with a version does not overwrite a newer value.
func ExampleNodes_Set() {
	ctx := context.Background()
	client, stop := newClient()
	defer stop()

	accounts, err := modeled.New[Account](client, "/accounts",
		modeled.WithCodec(modeled.Compressed(modeled.JSON[Account]{})),
		modeled.WithCreate(framework.PersistentParents()))
	if err != nil {
		log.Fatal(err)
	}
	stat, err := accounts.Set(ctx, "42", Account{Owner: "ann", Balance: 100})
	if err != nil {
		log.Fatal(err)
	}
	for _, balance := range []int64{90, 80} {
		_, err = accounts.Set(ctx, "42", Account{Owner: "ann", Balance: balance}, framework.IfVersion(stat.Version))
		fmt.Println(balance, err)
	}
	// Output:
	// 90 <nil>
	// 80 set /accounts/42: zk: version conflict
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
