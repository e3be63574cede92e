// Package discovery registers services in ZooKeeper and finds them. It is Curator's curator-x-discovery.
//
//	d, err := discovery.New[Meta](client, "/services")
//	reg, err := d.Register(ctx, discovery.Instance[Meta]{Name: "orders", Address: "10.0.0.7", Port: 8080})
//	defer reg.Close() // or reg.Drain(ctx, 5*time.Second) before the server stops
//
//	w, err := d.Watch(ctx, "orders")        // returns when the instances are known
//	defer w.Close()
//	one, err := w.Pick(discovery.RoundRobin) // never asks a server
//
// The payload, here Meta, is any type that encoding/json can write and read; discovery.New[any] reads all.
//
// # On the wire
//
//	<base>/<name>/<id>          an instance, as JSON; ephemeral if it is Dynamic; see WithPaths for other parents
//	<base>/<name>/_c_<uuid>-<id><number>  DynamicSequential; Java's has no prefix
//
// Missing parents are made as containers. The JSON is that of Java's JsonInstanceSerializer, to the order of its fields, so Java and
// Go share a service. Java needs the class of a payload that is an object: see [WithJavaClass]. [Spring] and [Dubbo] make
// instances that applications of these frameworks read.
//
// # What it promises
//
//   - A registration is kept through outages of any length: see package recipes/node. A reconnect writes nothing while the
//     session lives.
//   - The list of a [Watch] is complete when it is returned, never goes back in time, and says whether it is up to date.
//   - A node that cannot be read is left out and reported, and harms no other: see [OnUnreadable]. Missing and unknown fields are
//     no reason.
//   - An instance that was read and is registered again keeps the class of its payload and the fields of it that the type of
//     the payload does not have; but not fields of what is within it.
//
// # What it cannot promise
//
// An instance that has crashed stays in all lists until its session ends. So a caller needs timeouts and another try, and
// [Watch.Down] keeps the next ones away from an instance that fails.
//
// Two processes that register the same id replace each other's node when they register. Then the one that came last has it.
package discovery
