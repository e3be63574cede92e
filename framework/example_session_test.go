package framework_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// An operation belongs to one session: it is carried out in that session, or not at all.
func ExampleClient_In() {
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

	session, err := client.Session(ctx)
	if err != nil {
		log.Fatal(err)
	}
	bound := client.In(session)
	if _, err := bound.Create(ctx, "/worker", nil, framework.As(framework.Ephemeral)); err != nil {
		log.Fatal(err)
	}
	if err := server.ExpireSession(session.ID()); err != nil { // a fault
		log.Fatal(err)
	}
	<-session.Done()
	_, err = bound.Create(ctx, "/worker", nil, framework.As(framework.Ephemeral))
	fmt.Println("not in another session:", errors.Is(err, framework.ErrSessionLost))
	// Output:
	// not in another session: true
}

// OrSet writes a node, whether it exists or not.
func ExampleOrSet() {
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

	for _, limit := range []string{"10", "20"} {
		var stat zk.Stat
		if _, err := client.Create(ctx, "/limit", []byte(limit), framework.OrSet(), framework.StatTo(&stat)); err != nil {
			log.Fatal(err)
		}
		fmt.Println("version:", stat.Version)
	}
	data, _, err := client.Get(ctx, "/limit")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(data))
	// Output:
	// version: 0
	// version: 1
	// 20
}

// A persistent watch ends with its connection. Add it again then, and read again.
func ExampleClient_AddWatch_reconnect() {
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
	for range 2 { // in a service: until ctx is done
		watch, err := client.AddWatch(ctx, "/limit", framework.WatchPersistent, func(zk.Event) {})
		if err != nil {
			log.Fatal(err)
		}
		data, _, err := client.Get(ctx, "/limit") // after the watch: no change is missed
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("watched again, and read:", string(data))
		server.CutConnections() // a fault
		<-watch.Done()
	}
	// Output:
	// watched again, and read: 10
	// watched again, and read: 10
}
