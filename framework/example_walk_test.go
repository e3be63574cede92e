package framework_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
)

func ExampleWalk() {
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

	for _, path := range []string{"/config/db/url", "/config/db/user"} {
		if _, err := client.Create(ctx, path, nil, framework.PersistentParents(), framework.IfMissing()); err != nil {
			log.Fatal(err)
		}
	}
	for path, err := range framework.Walk(ctx, client, "/config") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(path)
	}
	// Output:
	// /config
	// /config/db
	// /config/db/url
	// /config/db/user
}

func ExampleClient_Namespace() {
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

	tenant, err := client.Namespace("tenants/a") // a view: it shares the session, and is not closed
	if err != nil {
		log.Fatal(err)
	}
	if _, err := tenant.Create(ctx, "/limit", []byte("10")); err != nil {
		log.Fatal(err)
	}
	data, _, err := client.Get(ctx, "/tenants/a/limit")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(data))
	fmt.Println(tenant.Close())
	// Output:
	// 10
	// close /: bad argument: a view of a client, close the client itself
}

// A service stops: its locks and registrations end first, then the client is closed.
func ExampleClient_Shutdown() {
	server, err := zktest.Start() // a ZooKeeper server in this process
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New(server.Servers())
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	m, err := mutex.New(client, "/nightly")
	if err != nil {
		log.Fatal(err)
	}
	working, stopped := make(chan struct{}), make(chan struct{})
	go func() { // ends when the client is shut down
		defer close(stopped)
		err := m.Do(ctx, func(ctx context.Context) error {
			close(working)
			<-ctx.Done() // the work stops
			return context.Cause(ctx)
		})
		fmt.Println(errors.Is(err, framework.ErrShutdown))
	}()
	<-working

	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := client.Shutdown(ctx); err != nil { // names the holds that were not released in time
		log.Fatal(err)
	}
	<-stopped
	// Output: true
}

// A program follows the data of a node, also through lost connections.
func ExampleClient_Follow() {
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
	if _, err := client.Create(ctx, "/limit", []byte("10")); err != nil {
		log.Fatal(err)
	}

	err = client.Follow(ctx, func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
		data, stat, watch, err := in.GetW(ctx, "/limit")
		if err != nil {
			return nil, err
		}
		fmt.Println(string(data))
		if stat.Version == 1 {
			return nil, nil // Follow returns
		}
		if err := server.Set("/limit", []byte("20")); err != nil { // as another program would
			return nil, err
		}
		return watch.Done(), nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 10
	// 20
}
