package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// Requeue is Release and Acquire with one write less. Others get their turn in between.
func ExampleHold_Requeue() {
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

	queue, err := lock.New(client, "/jobs", "job-", nil)
	if err != nil {
		log.Fatal(err)
	}
	hold, err := queue.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for range 3 { // a batch in three parts
		fmt.Println("holds:", hold.Err() == nil)
		if hold, err = hold.Requeue(ctx); err != nil {
			log.Fatal(err)
		}
	}
	if err := hold.Release(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// holds: true
	// holds: true
	// holds: true
}

// The result is written in the same transaction as the release: others see both, or neither.
func ExampleHold_ReleaseWith() {
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

	queue, err := lock.New(client, "/jobs", "job-", nil)
	if err != nil {
		log.Fatal(err)
	}
	hold, err := queue.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = hold.ReleaseWith(ctx, &zk.CreateRequest{Path: "/result", Data: []byte("42"), Acl: zk.WorldACL(zk.PermAll)})
	if err != nil {
		log.Fatal(err)
	}
	data, _, err := client.Get(ctx, "/result")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(data), "released:", errors.Is(hold.Err(), lock.ErrReleased))
	// Output:
	// 42 released: true
}

// Goroutines of one process hand the lock on in memory, at most 100 times in a row and for a second at most. If another
// process waits, it gets its turn.
func ExampleWithLocalHandOff() {
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

	queue, err := lock.New(client, "/counter", "lock-", nil, lock.WithLocalHandOff(100, time.Second))
	if err != nil {
		log.Fatal(err)
	}
	counter := 0 // guarded by the lock
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := queue.Do(ctx, func(context.Context) error { counter++; return nil }); err != nil {
				log.Print(err)
			}
		})
	}
	all.Wait()
	fmt.Println(counter)
	// Output:
	// 20
}
