package barrier_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/barrier"
	"github.com/gocurator/curator/zktest"
)

// A batch whose three workers start together, and end together.
func ExampleDouble() {
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

	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			if err := work(context.Background(), client, "/batches/2026-11-22"); err != nil {
				log.Print(err)
			}
		})
	}
	workers.Wait()
	// Output:
	// all have started
	// all have started
	// all have started
}

func work(ctx context.Context, client *framework.Client, path string) error {
	batch, err := barrier.NewDouble(client, path, 3)
	if err != nil {
		return err
	}
	entry, err := batch.Enter(ctx) // waits for the others
	if err != nil {
		return err
	}
	fmt.Println("all have started") // the work, until entry.Context() ends
	return entry.Leave(ctx)         // waits for the others
}

func ExampleBarrier() {
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

	maintenance, err := barrier.New(client, "/maintenance")
	if err != nil {
		log.Fatal(err)
	}
	if err := maintenance.Set(ctx); err != nil {
		log.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- maintenance.Wait(ctx) }() // a worker
	found, err := maintenance.Remove(ctx)
	fmt.Println("removed:", found, err)
	fmt.Println("the worker goes on:", <-done)
	// Output:
	// removed: true <nil>
	// the worker goes on: <nil>
}
