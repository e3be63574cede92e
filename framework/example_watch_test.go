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

// A watch says that a node has changed since it was read. To follow a node, read it again after
// each event.
func ExampleClient_GetW() {
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
	for {
		data, stat, watch, err := client.GetW(ctx, "/limit")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("version %d: %s\n", stat.Version, data)
		if stat.Version == 1 {
			return
		}
		// Another client changes it.
		if _, err := client.Set(ctx, "/limit", []byte("20"), framework.IfVersion(stat.Version)); err != nil {
			log.Fatal(err)
		}
		select {
		case <-watch.Done(): // even if the connection was lost: read again
			fmt.Println(watch.Event().Type)
		case <-ctx.Done():
			log.Fatal(context.Cause(ctx))
		}
	}
	// Output:
	// version 0: 10
	// EventNodeDataChanged
	// version 1: 20
}

// A recursive watch reports changes of a node and below it. It ends with its connection: then add
// it again, and read the nodes again. Package recipes/cache does all that.
func ExampleClient_AddWatch() {
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

	events := make(chan zk.Event, 100)
	watch, err := client.AddWatch(ctx, "/config", framework.WatchRecursive, func(e zk.Event) {
		events <- e // quick, and never blocks: the channel is large enough here
	})
	if errors.Is(err, framework.ErrWatchUnsupported) {
		return // use GetW and ChildrenW
	}
	if err != nil {
		log.Fatal(err)
	}
	defer watch.Remove()

	if _, err := client.Create(ctx, "/config/db", []byte("a"), framework.ContainerParents()); err != nil {
		log.Fatal(err)
	}
	if _, err := client.Set(ctx, "/config/db", []byte("b")); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		select {
		case e := <-events:
			fmt.Println(e.Type, e.Path)
		case <-watch.Done():
			log.Fatal(watch.Err()) // the connection was lost
		}
	}
	// Output:
	// EventNodeCreated /config
	// EventNodeCreated /config/db
	// EventNodeDataChanged /config/db
}

// A Multi carries out all operations or none. The error names the one that failed.
func ExampleClient_Multi() {
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

	_, err = client.Multi(ctx,
		framework.CreateOp("/account-a", []byte("100")),
		framework.CreateOp("/account-b", []byte("0")))
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Multi(ctx,
		framework.SetOp("/account-a", []byte("90")),
		// The node was never written: its version is 0.
		framework.SetOp("/account-b", []byte("10"), framework.IfVersion(7)))
	var failed *framework.MultiError
	if errors.As(err, &failed) {
		fmt.Println(failed.Index, failed.Op, failed.Path, errors.Is(err, zk.ErrBadVersion))
	}
	data, _, err := client.Get(ctx, "/account-a")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(data))
	// Output:
	// 1 set /account-b true
	// 100
}
