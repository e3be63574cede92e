package leader_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/zktest"
)

// A service of which one instance is active. On SIGTERM its main function would end ctx: then the leader
// stops its work, and only then the next one leads.
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

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	e, err := leader.New(client, "/scheduler/leader", leader.WithID("host-7"))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = e.Run(ctx, func(ctx context.Context, term *leader.Term) error {
		fmt.Println(term.ID(), "leads")
		time.AfterFunc(time.Millisecond, stop) // the deploy
		<-ctx.Done()                           // the work
		fmt.Println("stopped")
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// host-7 leads
	// stopped
	// true
}

// The id is what others learn of the leader, so it may be the address to reach it at. An address
// that is published elsewhere is written with the term's guard: so a leader that is late cannot
// replace the address of the next one.
func Example_address() {
	testbed.Example(func(ctx context.Context, client *framework.Client) error {
		const published = "/scheduler-address"
		if _, err := client.Create(ctx, published, []byte("nobody")); err != nil {
			return err
		}
		publish := func(term *leader.Term) error {
			_, err := client.Multi(ctx, term.Guard(),
				&zk.SetDataRequest{Path: published, Data: []byte(term.ID()), Version: -1})
			return err
		}

		old, err := leader.New(client, "/scheduler/leader", leader.WithID("10.0.0.7:8080"))
		if err != nil {
			return err
		}
		first, err := old.Campaign(ctx)
		if err != nil {
			return err
		}
		if err := publish(first); err != nil {
			return err
		}
		who, err := old.Leader(ctx) // anybody may ask
		if err != nil {
			return err
		}
		fmt.Println("the leader is at", who.ID)
		if err := first.Resign(); err != nil {
			return err
		}

		e, err := leader.New(client, "/scheduler/leader", leader.WithID("10.0.0.8:8080"))
		if err != nil {
			return err
		}
		second, err := e.Campaign(ctx)
		if err != nil {
			return err
		}
		defer second.Resign()
		if err := publish(second); err != nil {
			return err
		}
		err = publish(first) // it was stopped for a while, and does not know
		fmt.Println("the old leader is refused:", errors.Is(err, zk.ErrNoNode))
		address, _, err := client.Get(ctx, published)
		fmt.Printf("published: %s\n", address)
		return err
	})
	// Output:
	// the leader is at 10.0.0.7:8080
	// the old leader is refused: true
	// published: 10.0.0.8:8080
}

func ExampleElection_Observe() {
	testbed.Example(func(ctx context.Context, client *framework.Client) error {
		e, err := leader.New(client, "/scheduler/leader", leader.WithID("host-7"))
		if err != nil {
			return err
		}
		var term *leader.Term
		for state, err := range e.Observe(ctx) {
			switch {
			case err != nil:
				return err
			case state.Stale:
				fmt.Println("no connection; what is known may be old")
			case state.Elected:
				fmt.Println("leader:", state.Leader.ID)
				if err := term.Resign(); err != nil {
					return err
				}
			case term == nil:
				fmt.Println("nobody leads")
				if term, err = e.Campaign(ctx); err != nil {
					return err
				}
			default:
				fmt.Println("nobody leads any more")
				return nil
			}
		}
		return nil
	})
	// Output:
	// nobody leads
	// leader: host-7
	// nobody leads any more
}
