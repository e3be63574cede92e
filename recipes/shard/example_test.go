package shard_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/shard"
	"github.com/gocurator/curator/zktest"
)

// Two members divide four shards. When the first one drains, the other owns all.
func Example() {
	ctx := context.Background()
	client, stop := newClient()
	defer stop()

	consume := func(ctx context.Context, shard int) error {
		<-ctx.Done() // another member owns the shard afterwards
		return nil
	}
	a, err := shard.New(client, "/ingest", "host-1", 4)
	if err != nil {
		log.Fatal(err)
	}
	b, err := shard.New(client, "/ingest", "host-2", 4)
	if err != nil {
		log.Fatal(err)
	}
	go a.Run(ctx, consume)
	go b.Run(ctx, consume)

	for state := range b.Observe(ctx) {
		if len(state.Owned) == 2 && len(state.Members) == 2 {
			break
		}
	}
	fmt.Println("two members:", len(b.Owned()), "of 4")
	if err := a.Drain(ctx); err != nil {
		log.Fatal(err)
	}
	for state := range b.Observe(ctx) {
		if len(state.Owned) == 4 {
			break
		}
	}
	fmt.Println("one member:", b.Owned())
	// Output:
	// two members: 2 of 4
	// one member: [0 1 2 3]
}

// newClient returns a client of a ZooKeeper server in this process, and a function that closes
// both.
func newClient() (_ *framework.Client, stop func()) {
	server, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	client, err := framework.New(server.Servers())
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		client.Close()
		server.Close()
	}
}
