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
	server, err := zktest.Start() // a ZooKeeper server in this process
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	if err := run(server.Servers()); err != nil { // in a service: []string{"zk1:2181", "zk2:2181"}
		log.Fatal(err)
	}
}

func run(servers []string) error {
	client, err := framework.New(servers, framework.WithSessionTimeout(15*time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return nightly(ctx, client)
}

func nightly(ctx context.Context, client *framework.Client) error {
	m, err := mutex.New(client, "/billing/nightly")
	if err != nil {
		return err
	}
	hold, err := m.Acquire(ctx) // waits in the queue; ctx limits the wait
	if err != nil {
		return err
	}
	return hold.Do(ctx, func(ctx context.Context) error { // this ctx is cancelled before another client can hold
		return bill(ctx, client)
	}) // releases the lock, and reports if it was lost on the way
}

func bill(ctx context.Context, client *framework.Client) error {
	path, err := client.Create(ctx, "/billing/nightly-started", []byte(time.Now().Format(time.RFC3339)))
	if err != nil {
		return err
	}
	fmt.Println("held the lock, and created", path)
	return nil
}
