package node_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"slices"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// A service registers itself. The registration is recreated whatever happens, until it is closed.
func ExampleKeep() {
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

	// Returns when the node exists.
	n, err := node.Keep(ctx, client, "/services/host-7", []byte("starting"))
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	if err := n.Set(ctx, []byte("ready")); err != nil {
		log.Fatal(err)
	}
	data, _, err := client.Get(ctx, n.Path())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n.Path(), string(data))

	// Another client deletes it.
	_, changed := n.Present()
	if err := client.Delete(ctx, n.Path()); err != nil {
		log.Fatal(err)
	}
	<-changed
	for there, changed := n.Present(); !there; there, changed = n.Present() {
		<-changed
	}
	fmt.Println("it is back")
	// Output:
	// /services/host-7 ready
	// it is back
}

// A service takes requests only while its registration exists.
func ExampleNode_Present() {
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

	n, err := node.Keep(context.Background(), client, "/services/host-7", nil)
	if err != nil {
		log.Fatal(err)
	}
	for n.Problem() == nil {
		there, changed := n.Present()
		fmt.Println("takes requests:", there)
		if there {
			go n.Close() // instead of work
		}
		<-changed
	}
	fmt.Println(n.Problem())
	// Output:
	// takes requests: true
	// keep /services/host-7: kept node is closed
}

// Two workers find each other.
func ExampleJoin() {
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

	one, err := node.Join(ctx, client, "/workers", "one", []byte("10.0.0.1"))
	if err != nil {
		log.Fatal(err)
	}
	defer one.Close()
	two, err := node.Join(ctx, client, "/workers", "two", []byte("10.0.0.2"))
	if err != nil {
		log.Fatal(err)
	}
	for members, err := range one.Observe(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if len(members) == 2 {
			fmt.Println(slices.Sorted(maps.Keys(members)), string(members["two"]))
			break
		}
	}
	if err := two.Close(); err != nil {
		log.Fatal(err)
	}
	for members, err := range one.Observe(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if len(members) == 1 {
			fmt.Println(slices.Sorted(maps.Keys(members)))
			break
		}
	}
	// Output:
	// [one two] 10.0.0.2
	// [one]
}

// A process that has crashed starts again with the same id. The node of its old session is still
// there: Keep would wait for the end of that session. With Replace it does not.
func ExampleWithIfTaken() {
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

	crashed, err := framework.New(server.Servers())
	if err != nil {
		log.Fatal(err)
	}
	defer crashed.Close()
	old, err := node.Keep(ctx, crashed, "/services/host-7", []byte("before"))
	if err != nil {
		log.Fatal(err)
	}
	defer old.Close()

	n, err := node.Keep(ctx, client, "/services/host-7", []byte("after"), node.WithIfTaken(node.Replace))
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	data, _, err := client.Get(ctx, "/services/host-7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(data))
	// Output:
	// after
}

// A TTL node outlives its process, and is deleted if no client keeps it for the given time. Servers
// must allow such nodes.
func ExampleWithTTL() {
	// a ZooKeeper server in this process
	server, err := zktest.Start(zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
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

	n, err := node.Keep(ctx, client, "/jobs/4711", []byte("half done"), node.WithTTL(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	if err := n.Close(); err != nil { // the process ends
		log.Fatal(err)
	}
	fmt.Println("still there:", server.Exists("/jobs/4711"))
	server.Advance(2 * time.Minute) // of the server's clock
	server.ReapContainers()         // as the server does periodically
	fmt.Println("still there:", server.Exists("/jobs/4711"))
	// Output:
	// still there: true
	// still there: false
}

// A load balancer that watches Present is not told of short interruptions of the connection.
func ExampleWithErrorPolicy() {
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

	n, err := node.Keep(context.Background(), client, "/services/host-7", nil, node.WithErrorPolicy(connstate.LostEndsHold))
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	server.RefuseConnections(true)
	server.CutConnections()
	for client.State() != connstate.Suspended {
		time.Sleep(time.Millisecond) // until the client has noticed
	}
	present, _ := n.Present() // false with the default
	fmt.Println("present while suspended:", present)
	server.RefuseConnections(false)
	// Output:
	// present while suspended: true
}
