// First acquires a mutex, writes a node, and releases the mutex.
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
	server, err := zktest.Start() // a ZooKeeper server in this process, for a try
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	if err := run([]string{server.Addr()}); err != nil { // in a service: []string{"zk1:2181", "zk2:2181"}
		log.Fatal(err)
	}
}

func run(servers []string) error {
	client, err := framework.New(servers, framework.WithSessionTimeout(15*time.Second))
	if err != nil {
		return err
	}
	defer client.Close()

	m, err := mutex.New(client, "/billing/nightly")
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	hold, err := m.Acquire(waiting) // waits until nobody else holds, for 10 s here
	if err != nil {
		return err
	}
	defer hold.Release() // takes no context, so a cancelled caller cannot leave the lock behind

	ctx := hold.Context() // is cancelled before anyone else can acquire
	path, err := client.Create(ctx, "/billing/nightly-started", []byte(time.Now().Format(time.RFC3339)))
	if err != nil {
		return err
	}
	fmt.Println("held the lock, and created", path)
	return nil
}
