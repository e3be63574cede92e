package lock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
)

func ExampleWithObserver() {
	server, err := zktest.Start() // instead of a real ensemble
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	client, err := framework.New([]string{server.Addr()}, lock.WithObserver(lock.Observer{
		Joined: func(_ context.Context, e lock.JoinedEvent) {
			fmt.Println("joined", e.Path, "behind", e.Ahead)
		},
		Acquired: func(ctx context.Context, e lock.AcquiredEvent) context.Context {
			fmt.Println("acquired", e.Path, "in time:", e.Waited < 10*time.Second)
			return ctx
		},
		Ended: func(_ context.Context, e lock.EndedEvent) {
			fmt.Println("ended", e.Path+":", e.Cause)
		},
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	m, err := mutex.New(client, "/invoices/lock")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = m.Do(ctx, func(context.Context) error {
		fmt.Println("working")
		return nil
	})
	fmt.Println(err)
	// Output:
	// joined /invoices/lock behind 0
	// acquired /invoices/lock in time: true
	// working
	// ended /invoices/lock: already released
	// <nil>
}
