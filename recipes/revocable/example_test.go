package revocable_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/revocable"
	"github.com/gocurator/curator/zktest"
)

// A holder works until it is asked to release. Somebody else has more urgent work and asks.
func Example() {
	server, err := zktest.Start() // a ZooKeeper server in this process
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	m, err := mutex.New(client, "/billing/nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	batch, err := revocable.New(m)
	if err != nil {
		fmt.Println(err)
		return
	}
	working, handedOver := make(chan struct{}), make(chan error)
	go func() {
		handedOver <- batch.Do(ctx, func(ctx context.Context, revoked <-chan struct{}) error {
			close(working)
			select {
			case <-revoked:
				fmt.Println("asked to release")
				return nil // releases
			case <-ctx.Done():
				return context.Cause(ctx) // no longer ours
			}
		})
	}()

	<-working
	// After a minute the node of a holder that has not released is deleted.
	n, err := revocable.RevokeAll(ctx, m, revocable.WithForce(time.Minute))
	fmt.Println(n, "asked, error:", errors.Join(err, <-handedOver))
	hold, err := m.TryAcquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the lock is free; released, error:", hold.Release())
	// Output:
	// asked to release
	// 1 asked, error: <nil>
	// the lock is free; released, error: <nil>
}

// An operator has the path of a holder's node, from the list of participants or from a log, and
// asks that holder.
func ExampleRevoke() {
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

	m, err := mutex.New(client, "/billing/nightly")
	if err != nil {
		log.Fatal(err)
	}
	batch, err := revocable.New(m)
	if err != nil {
		log.Fatal(err)
	}
	hold, err := batch.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := revocable.Revoke(ctx, client, hold.Path()); err != nil {
		log.Fatal(err)
	}
	select {
	case <-hold.Revoked():
		fmt.Println("asked to release; still ours:", hold.Err() == nil)
	case <-hold.Done():
		log.Fatal(hold.Err())
	}
	if err := hold.Release(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// asked to release; still ours: true
}

// A holder that does not release when it is asked to loses the lock.
func ExampleWithForce() {
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

	m, err := mutex.New(client, "/billing/nightly")
	if err != nil {
		log.Fatal(err)
	}
	batch, err := revocable.New(m)
	if err != nil {
		log.Fatal(err)
	}
	hold, err := batch.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := revocable.Revoke(ctx, client, hold.Path(), revocable.WithForce(time.Second)); err != nil {
		log.Fatal(err)
	}
	<-hold.Done()
	fmt.Println("revoked:", errors.Is(hold.Err(), revocable.ErrRevoked))
	// Output:
	// revoked: true
}
