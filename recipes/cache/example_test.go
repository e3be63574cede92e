package cache_test

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/zktest"
)

func Example() {
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

	if _, err := client.Create(ctx, "/config/db", []byte("db1:5432"), framework.PersistentParents()); err != nil {
		log.Fatal(err)
	}
	c, err := cache.New(client, "/config")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := c.Sync(ctx); err != nil { // everything is loaded
		log.Fatal(err)
	}
	db, ok := c.Get("/config/db") // asks no server
	fmt.Printf("%s %t\n", db.Data, ok)
	for n := range c.Children("/config") {
		fmt.Println(n.Path)
	}
	// Output:
	// db1:5432 true
	// /config/db
}

func ExampleCache_Changes() {
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

	c, err := cache.New(client, "/config/db", cache.WithDepth(0)) // one node
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := client.Create(ctx, "/config/db", []byte("db1:5432"), framework.PersistentParents()); err != nil {
		log.Fatal(err)
	}
	for ch, err := range c.Changes(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch ch.Kind {
		case cache.Created:
			fmt.Printf("created: %s\n", ch.New.Data)
			if _, err := client.Set(ctx, "/config/db", []byte("db2:5432")); err != nil {
				log.Fatal(err)
			}
		case cache.Changed:
			fmt.Printf("changed: %s, was %s\n", ch.New.Data, ch.Old.Data)
			return
		}
	}
	if err := c.Err(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// created: db1:5432
	// changed: db2:5432, was db1:5432
}

// A service says whether it works with configuration that may be out of date.
func ExampleCache_Current() {
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

	c, err := cache.New(client, "/config")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	until := func(want bool) {
		for ok, changed := c.Current(); ok != want; ok, changed = c.Current() {
			<-changed
			if err := c.Err(); err != nil { // it will not change any more
				log.Fatal(err)
			}
		}
		fmt.Println("current:", want)
	}
	until(true) // all is loaded
	server.Stop()
	until(false)
	if err := server.Restart(); err != nil {
		log.Fatal(err)
	}
	until(true)
	// Output:
	// current: true
	// current: false
	// current: true
}

func ExampleNewValues() {
	type limits struct{ Rate int }
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

	if _, err := client.Create(ctx, "/limits", []byte(`{"Rate": 100}`)); err != nil {
		log.Fatal(err)
	}
	c, err := cache.New(client, "/limits", cache.WithDepth(0))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := c.Sync(ctx); err != nil {
		log.Fatal(err)
	}
	values, err := cache.NewValues(c, cache.JSON[limits])
	if err != nil {
		log.Fatal(err)
	}
	v, ok := values.Get("/limits")
	fmt.Println(v.Value.Rate, v.Err, ok)

	if _, err := client.Set(ctx, "/limits", []byte(`fast`)); err != nil {
		log.Fatal(err)
	}
	if err := values.Sync(ctx); err != nil {
		log.Fatal(err)
	}
	v, ok = values.Get("/limits") // the last good value, and the error
	fmt.Println(v.Value.Rate, v.Err != nil, ok)
	// Output:
	// 100 <nil> true
	// 100 true true
}

// A cache of depth 1 is a PathChildrenCache. The node itself is in it, too.
func ExampleWithDepth() {
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

	for _, path := range []string{"/workers", "/workers/a", "/workers/b", "/workers/b/below"} {
		if _, err := client.Create(ctx, path, []byte("ready")); err != nil {
			log.Fatal(err)
		}
	}
	c, err := cache.New(client, "/workers", cache.WithDepth(1))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := c.Sync(ctx); err != nil { // waits until the copy is complete
		log.Fatal(err)
	}
	for n := range c.Children("/workers") { // getCurrentData
		fmt.Printf("%s %s\n", n.Path, n.Data)
	}
	_, found := c.Get("/workers/b/below")
	fmt.Println("/workers/b/below is in the copy:", found)
	// Output:
	// /workers/a ready
	// /workers/b ready
	// /workers/b/below is in the copy: false
}

// An index that is maintained with each change. When Sync returns, it is as new as the cache.
func ExampleWithOnChange() {
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

	var bytes atomic.Int64 // of all nodes
	c, err := cache.New(client, "/files", cache.WithOnChange(func(ch cache.Change) {
		switch ch.Kind {
		case cache.Created:
			bytes.Add(int64(len(ch.New.Data)))
		case cache.Changed:
			bytes.Add(int64(len(ch.New.Data) - len(ch.Old.Data)))
		case cache.Deleted:
			bytes.Add(-int64(len(ch.Old.Data)))
		}
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for _, name := range []string{"/files/a", "/files/b"} {
		if _, err := client.Create(ctx, name, []byte("1234"), framework.PersistentParents()); err != nil {
			log.Fatal(err)
		}
	}
	if err := client.Delete(ctx, "/files/a"); err != nil {
		log.Fatal(err)
	}
	if err := c.Sync(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(bytes.Load())
	// Output: 4
}
