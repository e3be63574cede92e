package zktest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
)

// A lost reply: the node is created, and the client does not hear of it. A protected create finds
// its node again.
func ExampleServer_Inject() {
	server, client, end := newServer()
	defer end()

	fault := server.Inject(zktest.LoseReply, 0, zktest.OnOp("create")) // the next create
	path, err := client.Create(ctx, "/job-", nil, framework.As(framework.EphemeralSequential), framework.Protected())
	must(err)
	children, err := server.Children("/")
	must(err)
	fmt.Println("the fault happened:", fault.Met())
	fmt.Println("one node, and it is ours:", slices.Contains(children, path[1:]))
	// Output:
	// the fault happened: true
	// one node, and it is ours: true
}

// A frozen connection: packets are dropped, and no side learns of it.
func ExampleServer_Freeze() {
	server, client, end := newServer()
	defer end()

	server.Freeze()
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err := client.Create(short, "/order", nil)
	fmt.Println("answered while frozen:", err == nil)
	fmt.Println(server.Faults())

	server.Thaw()
	_, err = client.Create(ctx, "/report", nil)
	fmt.Println("answered after that:", err == nil)
	// Output:
	// answered while frozen: false
	// [freeze all sessions]
	// answered after that: true
}

// An expired session, as after a long pause of the client's process. Does the work stop?
func ExampleServer_ExpireSession() {
	server, client, end := newServer()
	defer end()

	m, err := mutex.New(client, "/reports/nightly")
	must(err)
	hold, err := m.Acquire(ctx)
	must(err)
	must(server.ExpireSession(hold.Session().ID()))
	<-hold.Context().Done()
	fmt.Println("the work stops")
	// Output:
	// the work stops
}

// A slow network: each answer takes 20 ms. Requests that are sent together are answered together.
func ExampleWithLatency() {
	_, client, end := newServer(zktest.WithLatency(20 * time.Millisecond))
	defer end()

	begin := time.Now()
	_, err := client.Create(ctx, "/order", nil)
	must(err)
	fmt.Println("a round trip takes at least 20 ms:", time.Since(begin) >= 20*time.Millisecond)
	// Output:
	// a round trip takes at least 20 ms: true
}

// A request waits in the server until the test lets it go on. So the test decides what happens in
// between.
func ExampleServer_Block() {
	server, client, end := newServer()
	defer end()

	gate := server.Block(zktest.OnOp("create"))
	done := make(chan error, 1)
	go func() {
		_, err := client.Create(ctx, "/order", nil)
		done <- err
	}()
	<-gate.Arrived() // the request is at the server
	fmt.Println(gate)
	fmt.Println("exists:", server.Exists("/order"))
	gate.Open()
	fmt.Println("error:", <-done)
	fmt.Println("exists:", server.Exists("/order"))
	// Output:
	// block requests: create /order
	// exists: false
	// error: <nil>
	// exists: true
}

// A lost leader: its process ends, and the other members elect another one. The session, and so the
// lock, survive that.
func ExampleCluster_StopLeader() {
	cluster, client, end := newCluster(framework.WithErrorPolicy(connstate.LostEndsHold))
	defer end()

	m, err := mutex.New(client, "/reports/nightly")
	must(err)
	hold, err := m.Acquire(ctx)
	must(err)
	_, err = cluster.StopLeader()
	must(err)
	_, err = client.Create(ctx, "/reports/done", nil)
	fmt.Println("the client works again:", err == nil)
	fmt.Println("the lock is still held:", hold.Context().Err() == nil)
	// Output:
	// the client works again: true
	// the lock is still held: true
}

// A partition: the leader is cut off from the other members. They elect another one.
func ExampleCluster_Partition() {
	cluster, client, end := newCluster()
	defer end()

	old, err := cluster.WaitLeader(ctx)
	must(err)
	must(cluster.Partition(old))
	for next := old; next == old; {
		next, err = cluster.WaitLeader(ctx)
		must(err)
	}
	_, err = client.Create(ctx, "/order", nil)
	fmt.Println("there is another leader, and the client finds it:", err == nil)
	cluster.Heal()
	// Output:
	// there is another leader, and the client finds it: true
}

var ctx = context.Background()

// newServer starts a server and a client of it. end ends both. A test uses zktest.NewServer(t),
// which ends with the test.
func newServer(opts ...zktest.Option) (server *zktest.Server, client *framework.Client, end func()) {
	server, err := zktest.Start(opts...)
	must(err)
	client, err = framework.New(server.Servers())
	must(err)
	return server, client, func() {
		client.Close()
		server.Close()
	}
}

// newCluster starts three servers and a client of them. A test uses zktest.NewCluster(t, 3).
func newCluster(opts ...framework.Option) (cluster *zktest.Cluster, client *framework.Client, end func()) {
	cluster, err := zktest.StartCluster(3, zktest.WithSyncTimeout(100*time.Millisecond))
	must(err)
	client, err = framework.New(cluster.Servers(), opts...)
	must(err)
	return cluster, client, func() {
		client.Close()
		cluster.Close()
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The session expires after a write of a certain size: only that request of that session is hit.
func ExampleOn() {
	server, client, end := newServer()
	defer end()

	session, err := client.Session(ctx)
	must(err)
	large := zktest.On(func(r zktest.Request) bool { return len(r.Data) > 3 })
	fault := server.Inject(zktest.ExpireAfter, 0, zktest.OnSession(session.ID()), large)
	_, err = client.Create(ctx, "/a", []byte("abc"))
	must(err)
	fmt.Println("met by 3 bytes:", fault.Met())
	_, err = client.Create(ctx, "/b", []byte("abcd"), framework.IfMissing())
	must(err) // retried in the next session
	fmt.Println("met by 4 bytes:", fault.Met())
	<-session.Done()
	fmt.Println("lost:", errors.Is(session.Err(), framework.ErrSessionLost))
	// Output:
	// met by 3 bytes: false
	// met by 4 bytes: true
	// lost: true
}

// What an operation costs: its requests and the watches that it leaves.
func ExampleServer_Requests() {
	server, client, end := newServer()
	defer end()

	must(client.WaitConnected(ctx))
	server.ResetCounts()
	_, _, watch, err := client.ExistsW(ctx, "/a")
	must(err)
	fmt.Println(server.Requests().Requests, "watches:", server.WatchCount())
	_, err = client.Create(ctx, "/a", nil)
	must(err)
	<-watch.Done()
	fmt.Println(server.Requests().Requests, "watches:", server.WatchCount())
	// Output:
	// map[exists:1] watches: 1
	// map[create:1 exists:1] watches: 0
}

// A test lists the faults that are in force, and removes them all.
func ExampleServer_ClearFaults() {
	server, client, end := newServer()
	defer end()

	must(client.WaitConnected(ctx))
	server.Delay(time.Hour, zktest.OnOp("getData"))
	server.Inject(zktest.FailBefore, 0, zktest.OnPath("/a"))
	fmt.Println(len(server.Faults()))
	server.ClearFaults()
	fmt.Println(len(server.Faults()))
	_, _, err := client.Get(ctx, "/")
	must(err)
	// Output:
	// 2
	// 0
}

// A test sees each request and its result.
func ExampleServer_Trace() {
	server, client, end := newServer()
	defer end()

	_, err := client.Create(ctx, "/a", []byte("1"))
	must(err)
	stop := server.Trace(func(e zktest.Event) {
		if e.Request.Op == "setData" {
			fmt.Println(e.Request.Op, e.Request.Path, e.Result)
		}
	})
	_, err = client.Set(ctx, "/a", []byte("2"))
	must(err)
	stop()
	_, err = client.Set(ctx, "/a", []byte("3"))
	must(err)
	// Output: setData /a ok
}

// A sequence number of a parent near its overflow.
func ExampleServer_SetSequence() {
	server, client, end := newServer()
	defer end()

	_, err := client.Create(ctx, "/jobs", nil)
	must(err)
	must(server.SetSequence("/jobs", 2147483646))
	for range 2 {
		path, err := client.Create(ctx, "/jobs/job-", nil, framework.As(framework.PersistentSequential))
		must(err)
		fmt.Println(path)
	}
	// Output:
	// /jobs/job-2147483646
	// /jobs/job-2147483647
}
