package discovery_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// Two instances of a service register, and a client takes turns between them.
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

	type meta struct {
		Zone string `json:"zone"`
	}
	d, err := discovery.New[meta](client, "/services", discovery.WithJavaClass("com.example.Meta"))
	if err != nil {
		log.Fatal(err)
	}
	for _, host := range []string{"10.0.0.1", "10.0.0.2"} {
		reg, err := d.Register(ctx, discovery.Instance[meta]{Name: "orders", ID: host, Address: host, Port: 8080, Payload: meta{"a"}})
		if err != nil {
			log.Fatal(err)
		}
		defer reg.Close()
	}

	w, err := d.Watch(ctx, "orders") // a service keeps it as long as it calls orders
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	for range 3 {
		one, err := w.Pick(discovery.RoundRobin)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(one.Address, one.Port, one.Payload.Zone)
	}
	// Output:
	// 10.0.0.1 8080 a
	// 10.0.0.2 8080 a
	// 10.0.0.1 8080 a
}

// An instance whose requests fail is left out for 30 seconds.
func ExampleWatch_ReportError() {
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

	d, err := discovery.New[string](client, "/services")
	if err != nil {
		log.Fatal(err)
	}
	for _, host := range []string{"10.0.0.1", "10.0.0.2"} {
		reg, err := d.Register(ctx, discovery.Instance[string]{Name: "orders", ID: host, Address: host, Port: 8080})
		if err != nil {
			log.Fatal(err)
		}
		defer reg.Close()
	}
	w, err := d.Watch(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()

	call := func(host string) error { // 10.0.0.1 does not answer
		if host == "10.0.0.1" {
			return context.DeadlineExceeded
		}
		return nil
	}
	for range 6 {
		one, err := w.Pick(discovery.RoundRobin)
		if err != nil {
			log.Fatal(err)
		}
		if err := call(one.Address); err != nil {
			fmt.Println(one.Address, err)
			w.ReportError(one)
			continue
		}
		fmt.Println(one.Address)
	}
	// Output:
	// 10.0.0.1 context deadline exceeded
	// 10.0.0.2
	// 10.0.0.1 context deadline exceeded
	// 10.0.0.2
	// 10.0.0.2
	// 10.0.0.2
}

// A Go service that Spring Cloud applications find. Before it stops, it unregisters and waits for
// the last requests.
func ExampleSpring() {
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

	d, err := discovery.New[discovery.Metadata](client, "/services")
	if err != nil {
		log.Fatal(err)
	}
	reg, err := d.Register(ctx, discovery.Spring("orders", "10.0.0.1", 8080, map[string]string{"zone": "a"}))
	if err != nil {
		log.Fatal(err)
	}
	list, err := d.Lookup(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	for _, i := range list {
		fmt.Println(i.URI(nil), i.Payload.Metadata)
	}
	if err := reg.Drain(ctx, 10*time.Millisecond); err != nil {
		log.Fatal(err)
	}
	list, err = d.Lookup(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(list), "left")
	// Output:
	// http://10.0.0.1:8080 map[instance_status:UP zone:a]
	// 0 left
}

// A member of one of Twitter's serversets is found and called like any other instance.
func ExampleWithFormat() {
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
	err = server.Create("/aurora/www/prod/web/member_0000000001", []byte(
		`{"serviceEndpoint":{"host":"10.0.0.7","port":31001},"additionalEndpoints":{},"status":"ALIVE","shard":3}`))
	if err != nil {
		log.Fatal(err)
	}

	type member struct{ Shard int }
	d, err := discovery.New[member](client, "/aurora", discovery.WithFormat(discovery.Serverset))
	if err != nil {
		log.Fatal(err)
	}
	list, err := d.Lookup(context.Background(), "www/prod/web")
	if err != nil {
		log.Fatal(err)
	}
	for _, i := range list {
		fmt.Println(i.Addr(i.Port), "shard", i.Payload.Shard)
	}
	// Output:
	// 10.0.0.7:31001 shard 3
}
