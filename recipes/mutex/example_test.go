package mutex_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
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

	if err := nightly(context.Background(), client); err != nil {
		fmt.Println(err)
	}
	// Output:
	// alone, with a token: true
	// somebody else: not free
	// from inside, held already: true
}

func nightly(ctx context.Context, client *framework.Client) error {
	m, err := mutex.New(client, "/billing/nightly")
	if err != nil {
		return err
	}
	hold, err := m.Acquire(ctx) // waits; ctx ends the waiting
	if err != nil {
		return err
	}
	defer hold.Release() // takes no context, so a cancelled caller cannot leave the lock behind

	token, err := hold.FencingToken(ctx)
	if err != nil {
		return err
	}
	fmt.Println("alone, with a token:", token > 0)

	_, err = m.TryAcquire(ctx)
	if errors.Is(err, lock.ErrNotAcquired) {
		fmt.Println("somebody else:", lock.ErrNotAcquired)
	}
	// The caller would wait for itself. With lock.WithReentry it enters, as a thread in Java does.
	err = m.Do(hold.Context(), func(context.Context) error { return nil })
	fmt.Println("from inside, held already:", errors.Is(err, lock.ErrHeld))
	return nil
}

func ExampleMutex_TryAcquire() {
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
	if err := m.Do(ctx, func(context.Context) error { // somebody holds
		hold, err := m.TryAcquire(ctx)
		if errors.Is(err, lock.ErrNotAcquired) {
			fmt.Println("not now")
			return nil
		}
		if err != nil {
			return err
		}
		return hold.Release()
	}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// not now
}

// A context limits the wait, as acquire(10, TimeUnit.SECONDS) does in Java. The error tells whether
// another client held the mutex or no server could be reached.
func ExampleMutex_Acquire_timeout() {
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

	m, err := mutex.New(client, "/billing/nightly", lock.WithData([]byte("host-7")))
	if err != nil {
		log.Fatal(err)
	}
	hold, err := m.Acquire(ctx) // the holder that the others wait for
	if err != nil {
		log.Fatal(err)
	}
	run := func() error {
		waiting, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		hold, err := m.Acquire(waiting)
		switch {
		case errors.Is(err, lock.ErrNotAcquired):
			all, err := m.Participants(ctx)
			if err != nil {
				return err
			}
			for _, p := range all {
				fmt.Printf("skipped: %s holds: %v\n", p.Data, p.Holds)
			}
			return nil
		case errors.Is(err, zk.ErrNoServer):
			fmt.Println("skipped: no server")
			return nil
		case err != nil:
			return err
		}
		working, cancel := context.WithTimeoutCause(ctx, 50*time.Millisecond, errors.New("too slow"))
		defer cancel()
		return hold.Do(working, func(ctx context.Context) error {
			<-ctx.Done() // the job
			return context.Cause(ctx)
		})
	}
	fmt.Println(run())
	if err := hold.Release(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(run())
	server.Stop()
	fmt.Println(run())
	// Output:
	// skipped: host-7 holds: true
	// <nil>
	// too slow
	// skipped: no server
	// <nil>
}

func ExampleMutex_Do() {
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
	if err := m.Do(ctx, func(ctx context.Context) error {
		fmt.Println("alone, as long as ctx lives:", ctx.Err() == nil)
		return nil
	}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// alone, as long as ctx lives: true
}
