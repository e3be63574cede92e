package barrier_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/barrier"
	"github.com/gocurator/curator/zktest"
)

// Three workers start together and finish together.
func ExampleDouble() {
	client, stop := newClient()
	defer stop()

	work := func(ctx context.Context) error {
		batch, err := barrier.NewDouble(client, "/batches/2026-11-22", 3)
		if err != nil {
			return err
		}
		entry, err := batch.Enter(ctx) // waits for the others
		if errors.Is(err, barrier.ErrMissed) {
			return fmt.Errorf("the others have started without this one: %w", err)
		}
		if err != nil {
			return err
		}
		fmt.Println("all have started") // the work, until entry.Context() ends
		return finish(ctx, entry)
	}
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			if err := work(context.Background()); err != nil {
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

// finish waits until all have finished.
func finish(ctx context.Context, entry *barrier.Entry) error {
	defer context.AfterFunc(entry.Context(), func() {
		if cause := context.Cause(entry.Context()); !errors.Is(cause, barrier.ErrLeft) {
			log.Print("the others may not wait for this one: ", cause)
		}
	})()
	return entry.Leave(ctx)
}

func ExampleBarrier() {
	client, stop := newClient()
	defer stop()
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
	fmt.Println("the worker continues:", <-done)
	// Output:
	// removed: true <nil>
	// the worker continues: <nil>
}

// newClient returns a client of a server in this process.
func newClient() (client *framework.Client, stop func()) {
	server, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	client, err = framework.New(server.Servers())
	if err != nil {
		log.Fatal(err)
	}
	return client, func() { client.Close(); server.Close() }
}
