package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

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
	_, err = hold.ReleaseWith(ctx, framework.CreateOp("/result", []byte("42")))
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
