package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/zktest"
)

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

	catalogue, err := rwlock.New(client, "/shop/catalogue")
	if err != nil {
		log.Fatal(err)
	}
	reading, err := catalogue.Read().Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer reading.Release()
	err = catalogue.Read().Do(ctx, func(context.Context) error {
		fmt.Println("another reader is let in")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := catalogue.Write().TryAcquire(ctx); errors.Is(err, lock.ErrNotAcquired) {
		fmt.Println("a writer is not")
	}
	if _, err := catalogue.Write().Acquire(reading.Context()); errors.Is(err, rwlock.ErrUpgrade) {
		fmt.Println("nor does a reader become one")
	}
	// Output:
	// another reader is let in
	// a writer is not
	// nor does a reader become one
}

// A writer becomes a reader, and no other writer holds in between.
func ExampleLock_Downgrade() {
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

	catalogue, err := rwlock.New(client, "/shop/catalogue")
	if err != nil {
		log.Fatal(err)
	}
	writing, err := catalogue.Write().Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	reading, err := catalogue.Downgrade(writing.Context())
	if err != nil {
		log.Fatal(err)
	}
	if err := writing.Release(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("still reading:", reading.Err() == nil)
	_, err = catalogue.Write().TryAcquire(ctx)
	fmt.Println("others may write:", !errors.Is(err, lock.ErrNotAcquired))
	if err := reading.Release(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// still reading: true
	// others may write: false
}
