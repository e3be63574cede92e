package revocable_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/revocable"
	"github.com/gocurator/curator/zktest"
)

// A holder that works until it is asked, and one that has something more urgent to do.
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
				fmt.Println("asked to let go")
				return nil // releases
			case <-ctx.Done():
				return context.Cause(ctx) // no longer ours
			}
		})
	}()

	<-working
	// Let go within a minute, or be thrown out.
	n, err := revocable.RevokeHolders(ctx, client, m, revocable.WithForce(time.Minute))
	fmt.Println(n, "asked, error:", errors.Join(err, <-handedOver))
	hold, err := m.TryAcquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the lock is free; released, error:", hold.Release())

	// Output:
	// asked to let go
	// 1 asked, error: <nil>
	// the lock is free; released, error: <nil>
}
