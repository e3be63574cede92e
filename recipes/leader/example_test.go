package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
)

// One instance of a service is active. On SIGTERM its main function would cancel ctx: the leader
// stops its work, and only then another instance leads.
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

// The health check of a service with one active instance. The process knows from its own term
// whether it leads, without a request. It is unhealthy while it has no connection.
func Example_health() {
	client, done := newClient()
	defer done()
	e, err := leader.New(client, "/scheduler/leader", leader.WithID("host-7"))
	if err != nil {
		log.Fatal(err)
	}

	var current atomic.Pointer[leader.Term] // the last term, or nil
	health := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		term := current.Load()
		switch state := client.State(); {
		case !state.IsConnected():
			http.Error(w, state.String(), http.StatusServiceUnavailable)
		case term != nil && term.Err() == nil:
			fmt.Fprintln(w, "leader")
		default:
			fmt.Fprintln(w, "follower")
		}
	})
	check := func() {
		r := httptest.NewRecorder()
		health(r, httptest.NewRequest(http.MethodGet, "/health", nil))
		fmt.Print(r.Code, " ", r.Body)
	}

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	err = e.Run(ctx, func(ctx context.Context, term *leader.Term) error {
		current.Store(term)
		check()
		stop()       // instead of work until the process stops
		<-ctx.Done() // or until the term is lost
		return nil
	})
	check()
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// 200 leader
	// 200 follower
	// true
}

// Other processes see the leader's id, so it may be the leader's address. An address that is
// published elsewhere is written with the term's guard, so a late leader cannot replace the address
// of its successor.
func Example_address() {
	client, done := newClient()
	defer done()
	ctx := context.Background()

	const published = "/scheduler-address"
	if _, err := client.Create(ctx, published, []byte("nobody")); err != nil {
		log.Fatal(err)
	}
	publish := func(term *leader.Term) error {
		_, err := client.Multi(ctx, term.Guard(),
			framework.SetOp(published, []byte(term.ID())))
		return err
	}

	old, err := leader.New(client, "/scheduler/leader", leader.WithID("10.0.0.7:8080"))
	if err != nil {
		log.Fatal(err)
	}
	first, err := old.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := publish(first); err != nil {
		log.Fatal(err)
	}
	who, err := old.Leader(ctx) // anybody may ask
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the leader is at", who.ID)
	if err := first.Release(); err != nil {
		log.Fatal(err)
	}

	e, err := leader.New(client, "/scheduler/leader", leader.WithID("10.0.0.8:8080"))
	if err != nil {
		log.Fatal(err)
	}
	second, err := e.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer second.Release()
	if err := publish(second); err != nil {
		log.Fatal(err)
	}
	err = publish(first) // it was stopped for a while, and does not know
	fmt.Println("the old leader is refused:", errors.Is(err, zk.ErrNoNode))
	address, _, err := client.Get(ctx, published)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("published: %s\n", address)
	// Output:
	// the leader is at 10.0.0.7:8080
	// the old leader is refused: true
	// published: 10.0.0.8:8080
}

func ExampleElection_Observe() {
	client, done := newClient()
	defer done()
	ctx := context.Background()

	e, err := leader.New(client, "/scheduler/leader", leader.WithID("host-7"))
	if err != nil {
		log.Fatal(err)
	}
	var term *leader.Term
	for state, err := range e.Observe(ctx) {
		switch {
		case err != nil:
			log.Fatal(err)
		case state.Stale:
			fmt.Println("no connection; what is known may be old")
		case state.Elected:
			fmt.Println("leader:", state.Leader.ID)
			if err := term.Release(); err != nil {
				log.Fatal(err)
			}
		case term == nil:
			fmt.Println("no leader")
			if term, err = e.Campaign(ctx); err != nil {
				log.Fatal(err)
			}
		default:
			fmt.Println("no leader any more")
			return
		}
	}
	// Output:
	// no leader
	// leader: host-7
	// no leader any more
}

// Campaign is for a caller that decides itself how long it leads.
func ExampleElection_Campaign() {
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

	e, err := leader.New(client, "/scheduler/leader", leader.WithID("host-7"))
	if err != nil {
		log.Fatal(err)
	}
	term, err := e.Campaign(ctx) // waits until it leads
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("leads:", term.ID())
	session, err := client.Session(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := server.ExpireSession(session.ID()); err != nil { // a fault
		log.Fatal(err)
	}
	<-term.Done() // in a service: the work ends with term.Context()
	fmt.Println("the term was lost:", errors.Is(term.Err(), framework.ErrLost))
	next, err := e.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("leads again, in another term:", next.Path() != term.Path())
	if err := next.Release(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// leads: host-7
	// the term was lost: true
	// leads again, in another term: true
}

// A LeaderSelector is a mutex on the same path, in Java and here. So the holder of the mutex leads.
func ExampleWithSelector() {
	client, done := newClient()
	defer done()
	ctx := context.Background()

	e, err := leader.New(client, "/batch", leader.WithSelector(), leader.WithID("host-7"))
	if err != nil {
		log.Fatal(err)
	}
	err = e.Lead(ctx, func(_ context.Context, term *leader.Term) error { // takeLeadership, once
		fmt.Println(term.ID(), "leads")
		m, err := mutex.New(client, "/batch")
		if err != nil {
			return err
		}
		_, err = m.TryAcquire(ctx)
		fmt.Println("the mutex is held:", errors.Is(err, lock.ErrNotAcquired))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// host-7 leads
	// the mutex is held: true
}

// newClient returns a client of a server in this process.
func newClient() (client *framework.Client, done func()) {
	server, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	client, err = framework.New(server.Servers())
	if err != nil {
		log.Fatal(err)
	}
	return client, func() { client.Close(); server.Close() }
}
