package zktest_test

import (
	"fmt"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// Does a service find the new servers when an ensemble moves to other machines? It does with
// ensemble tracking.
func ExampleCluster_Add() {
	cluster, client, end := newCluster(framework.WithEnsembleTracking())
	defer end()
	for _, old := range cluster.Members() {
		_, err := cluster.Add(ctx)
		must(err)
		must(cluster.Remove(ctx, old))
		_, err = client.Create(ctx, "/moved", nil, framework.As(framework.PersistentSequential))
		fmt.Println("error:", err)
	}
	// Output:
	// error: <nil>
	// error: <nil>
	// error: <nil>
}

// A slow ensemble: messages between its members and the state of its followers are late. The seed
// makes the delays the same in each run.
func ExampleStartCluster() {
	cluster, err := zktest.StartCluster(3, zktest.WithVersion("3.8.0"), zktest.WithSeed(7),
		zktest.WithMemberLatency(5*time.Millisecond), zktest.WithLag(20*time.Millisecond))
	must(err)
	defer cluster.Close()
	client, err := framework.New(cluster.Servers())
	must(err)
	defer client.Close()

	_, err = client.Create(ctx, "/a", nil)
	must(err)
	session, err := client.Session(ctx)
	must(err)
	member, err := cluster.MemberOf(session.ID()) // the server to which the client is connected
	must(err)
	member.CutConnections()
	found, _, err := client.Exists(ctx, "/a") // on another member, or the same
	must(err)
	fmt.Println(found)
	// Output: true
}

// A server at a fixed address, for a program that reads the address from its configuration.
func ExampleWithAddr() {
	server, err := zktest.Start(zktest.WithAddr("127.0.0.1:0")) // 0: a free port
	must(err)
	defer server.Close()
	fmt.Println(server.Addr() == server.Servers()[0])
	// Output: true
}
