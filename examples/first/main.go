// First acquires a mutex, creates a node while it holds, and releases the mutex.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	server, err := zktest.Start() // a ZooKeeper server in this process
	if err != nil {
		return err
	}
	defer server.Close()
	client, err := framework.New(server.Servers()) // in a service: []string{"zk1:2181", "zk2:2181"}
	if err != nil {
		return err
	}
	defer client.Close()
	nightly, err := mutex.New(client, "/billing/nightly")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // limits the wait and the work
	defer cancel()
	return nightly.Do(ctx, func(ctx context.Context) error { // this ctx is cancelled before another client can hold
		fmt.Println("holds", nightly.Path())
		_, err := client.Create(ctx, "/billing/nightly-started", nil)
		return err
	}) // releases the lock, and reports if it was lost on the way
}
