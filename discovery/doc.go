// Package discovery registers services in ZooKeeper and finds them. It is Curator's
// curator-x-discovery.
//
//	d, err := discovery.New[Meta](client, "/services")
//	i := discovery.Instance[Meta]{Name: "orders", Address: "10.0.0.7", Port: 8080}
//	reg, err := d.Register(ctx, i)
//	defer reg.Close() // or reg.Drain(ctx, 5*time.Second) before the server stops
//
//	w, err := d.Watch(ctx, "orders")        // returns when the instances are known
//	defer w.Close()
//	one, err := w.Pick(discovery.RoundRobin) // never asks a server
//
// The payload, here Meta, is any type that encoding/json can write and read. discovery.New[any]
// reads every payload; its numbers are json.Number.
//
// # On the wire
//
//	<base>/<name>/<id>  an instance, as JSON; ephemeral if it is Dynamic; see WithPaths
//	<base>/<name>/_c_<uuid>-<id><number>  DynamicSequential; Java's has no prefix
//
// Missing parents are created as containers. The JSON has the format of Java's
// JsonInstanceSerializer, down to the order of its fields, so Java and Go share a service. Java
// needs the class of a payload that is an object: see [WithJavaClass]. [Spring] and [Dubbo] return
// instances that applications of these frameworks read; package discovery/dubbo registers gRPC
// services for Dubbo. The lists of Twitter's serversets, Airbnb's nerve and go-kit can be read: see
// [WithFormat].
//
// # What it promises
//
//   - A registration is kept through outages of any length: see package recipes/node. A reconnect
//     writes nothing while the session lives. If a server restarts without data, the instance is
//     registered again.
//   - A new [Watch] has a complete list, which never becomes older. [Watch.Current] reports whether
//     it is up to date.
//   - While an instance registers again, [Watch.Pick] offers the deleted one: see [WithGrace].
//   - A node that cannot be read is skipped and reported, and does not affect other instances: see
//     [WithUnreadable]. Every format that Java reads is accepted, even a number written as text.
//   - An instance that was read and is registered again keeps the class of its payload, and the
//     fields of the payload that the type T does not have, except fields within them.
//   - An instance that would make Java callers of the service fail is not registered: see
//     [Discovery.Register].
//
// # What it cannot promise
//
// An instance that has crashed stays in all lists until its session expires. So a caller needs
// timeouts and retries, and should report failures with [Watch.ReportError], after which
// [Watch.Pick] skips the instance.
//
// Two processes that register the same id replace each other's node when they register. The node of
// the later process remains.
//
// # Details
//
// [WithUnreadable] reports each version of a node once per [Watch], and once per call that reads
// the node. A node without data is not reported. A node that the client is not permitted to read,
// or that is not compressed on a client with framework.WithCompression, is reported by
// [Discovery.Lookup], and not by a Watch.
//
// The grace of [WithGrace] exists because Curator's Java library, and so Spring and Dubbo, deletes
// and creates a node at every reconnect, although the service never stops. Beside a live instance a
// deleted one gets no call. Without another one, calls fail to connect until the grace ends. The
// grace does not apply to instances that were disabled before, or on which [Registration.Drain] was
// called. [Watch.Instances] and [Watch.Observe] ignore it.
//
// [Discovery.Register] reads one instance of the service, to check whether Java's callers can read
// the new one beside it. If the name has slashes, it does the same in the services above. If the
// client has no permission to read them, Register registers a plain instance, and rejects one of
// Spring or Dubbo with zk.ErrNoAuth. Two processes that register such names at the same moment do
// not see each other.
package discovery
