package zktest_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
)

// The reply to a create is lost. A protected create finds its node again.
func ExampleServer_Inject() {
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

	fault := server.Inject(zktest.LoseReply, 0, zktest.OnOp(zktest.OpCreate)) // the next create
	path, err := client.Create(ctx, "/job-", nil, framework.As(framework.EphemeralSequential), framework.Protected())
	if err != nil {
		log.Fatal(err)
	}
	children, _, err := client.Children(ctx, "/")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the fault happened:", fault.Met())
	fmt.Println("one node, and it is ours:", slices.Contains(children, path[1:]))
	// Output:
	// the fault happened: true
	// one node, and it is ours: true
}

// A request waits in the server until the test lets it go on. So a test decides what happens meanwhile.
func ExampleServer_Block() {
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

	gate := server.Block(zktest.OnOp(zktest.OpCreate))
	done := make(chan error, 1)
	go func() {
		_, err := client.Create(ctx, "/order", nil)
		done <- err
	}()
	<-gate.Arrived() // the request is at the server
	fmt.Println("carried out:", server.Exists("/order"))
	gate.Open()
	fmt.Println("error:", <-done)
	fmt.Println("carried out:", server.Exists("/order"))
	// Output:
	// carried out: false
	// error: <nil>
	// carried out: true
}

// The session of a holder ends, as after a long pause of its process. Does the work stop?
func ExampleServer_ExpireSession() {
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

	m, err := mutex.New(client, "/reports/nightly")
	if err != nil {
		log.Fatal(err)
	}
	hold, err := m.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := server.ExpireSession(hold.Session().ID()); err != nil {
		log.Fatal(err)
	}
	<-hold.Context().Done()
	fmt.Println("the work stops")
	// Output:
	// the work stops
}

// The leader is cut off from the other members. They elect another one.
func ExampleCluster_Partition() {
	cluster, err := zktest.StartCluster(3, zktest.WithSyncTimeout(100*time.Millisecond)) // an ensemble in this process
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	client, err := framework.New(cluster.Servers())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	old, err := cluster.WaitLeader(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := cluster.Partition(old); err != nil {
		log.Fatal(err)
	}
	for next := old; next == old; {
		if next, err = cluster.WaitLeader(ctx); err != nil {
			log.Fatal(err)
		}
	}
	_, err = client.Create(ctx, "/order", nil)
	fmt.Println("there is another leader, and the client finds it:", err == nil)
	cluster.Heal()
	// Output:
	// there is another leader, and the client finds it: true
}
