package shard_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

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

// A member with a stable id keeps its shards through a restart. It reports what its shards do.
func ExampleWithGrace() {
	ctx := context.Background()
	client, stop := newClient()
	defer stop()

	opts := []shard.Option{
		shard.WithGrace(time.Minute),         // longer than a restart
		shard.WithSettling(time.Millisecond), // longer than the time between two starts
		shard.WithWeight(2),                  // twice as many shards as a member of weight 1
		shard.WithMaxMoves(1),                // hands over one at a time
	}
	run := func() {
		host, err := shard.New(client, "/ingest", "host-1", 2, opts...)
		if err != nil {
			log.Fatal(err)
		}
		running, leave := context.WithCancel(ctx)
		ended := make(chan error)
		go func() {
			ended <- host.Run(running, func(ctx context.Context, n int) error {
				if _, err := shard.Term(ctx).FencingToken(ctx); err != nil { // for a store that checks it
					return err
				}
				<-ctx.Done()
				switch cause := context.Cause(ctx); {
				case errors.Is(cause, shard.ErrMoved), errors.Is(cause, shard.ErrDrained):
					log.Print("another member takes over ", n)
				}
				return nil
			})
		}()
		for state := range host.Observe(ctx) {
			if len(state.Owned) == 2 {
				report(state)
				break
			}
		}
		leave()
		switch err := <-ended; {
		case errors.Is(err, shard.ErrShards), errors.Is(err, shard.ErrRunning):
			log.Fatal(err) // another number of shards, or a second Run
		case !errors.Is(err, context.Canceled):
			log.Print(err)
		}
	}
	run()
	run() // after a restart
	// Output:
	// owned: [0 1], failing: 0, stuck: 0, away: []
	// owned: [0 1], failing: 0, stuck: 0, away: []
}

// report is what a health check shows.
func report(state shard.State) {
	fmt.Printf("owned: %v, failing: %d, stuck: %d, away: %v\n", state.Owned, len(state.Failing), len(state.Stuck), state.Away)
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
