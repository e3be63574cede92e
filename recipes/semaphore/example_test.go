package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/zktest"
)

func Example() {
	server, err := zktest.Start() // instead of a real ensemble
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client, err := framework.New([]string{server.Addr()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	if err := query(context.Background(), client); err != nil {
		fmt.Println(err)
	}
	// Output:
	// no third lease is free: true
	// there are never three: true
}

func query(ctx context.Context, client *framework.Client) error {
	pool, err := semaphore.New(client, "/billing/connections", 2)
	if err != nil {
		return err
	}
	lease, err := pool.Acquire(ctx) // waits; ctx ends the waiting
	if err != nil {
		return err
	}
	defer lease.Release()

	return pool.Do(ctx, func(context.Context) error { // another one
		_, err := pool.TryAcquire(ctx)
		fmt.Println("no third lease is free:", errors.Is(err, lock.ErrNotAcquired))
		_, err = pool.AcquireN(ctx, 3)
		fmt.Println("there are never three:", errors.Is(err, semaphore.ErrTooMany))
		return nil
	})
}

// The maximum is a node. Observe shows each new maximum, as a SharedCountListener does.
func ExampleNewShared() {
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

	count, err := shared.Int32(client, "/billing/connections-max")
	if err != nil {
		log.Fatal(err)
	}
	// The first process sets it.
	if err := count.CompareAndSwap(ctx, shared.Version{}, 10); err != nil && !errors.Is(err, shared.ErrChanged) {
		log.Fatal(err)
	}
	pool, err := semaphore.NewShared(client, "/billing/connections", count.Path())
	if err != nil {
		log.Fatal(err)
	}
	for max, err := range count.Observe(ctx) { // in a service: in a goroutine, until ctx is done
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("connections for all services:", max)
		if max == 20 {
			break
		}
		if err := count.Set(ctx, 20); err != nil { // another process changes it, for everyone at once
			log.Fatal(err)
		}
	}
	max, err := pool.Max(ctx)
	fmt.Println(max, err)
	lease, err := pool.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()
	fmt.Println("holds one of them:", lease.Err() == nil)
	// Output:
	// connections for all services: 10
	// connections for all services: 20
	// 20 <nil>
	// holds one of them: true
}

// Several leases at once: all, or none.
func ExampleSemaphore_AcquireN() {
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

	pool, err := semaphore.New(client, "/billing/connections", 5)
	if err != nil {
		log.Fatal(err)
	}
	leases, err := pool.AcquireN(ctx, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer leases.Release()
	fmt.Println("got", len(leases.Holds()))
	_, err = pool.TryAcquireN(ctx, 3)
	fmt.Println("three more are not free:", errors.Is(err, lock.ErrNotAcquired))
	// Output:
	// got 3
	// three more are not free: true
}
