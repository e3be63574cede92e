// Package kratosregistry registers and finds the services of Kratos (go-kratos.dev) in ZooKeeper.
// It replaces Kratos' own contrib/registry/zookeeper. Nodes and data are the same, so services with
// either registry find each other.
//
// This package is a separate module, so users of the library do not inherit Kratos.
//
//	reg, err := kratosregistry.New(client) // client is a *framework.Client
//	app := kratos.New(kratos.Name("orders"), kratos.Server(server), kratos.Registrar(reg))
//	conn, err := grpc.DialInsecure(ctx,
//		grpc.WithEndpoint("discovery:///orders"), grpc.WithDiscovery(reg))
//
// Access is granted by the client's options: framework.WithAuth and framework.WithACLProvider stand
// for Kratos' WithDigestACL.
//
// # On the wire
//
//	/microservices/<name>/<id>   an instance: registry.ServiceInstance as JSON, ephemeral
//
// Missing parents are created as persistent nodes without data, as in Kratos. WithRootPath sets
// another root.
//
// # What it promises
//
//   - An instance is kept until Deregister, through outages of any length: see package
//     recipes/node. After Deregister it is never created again, even if the session expires. A node
//     of an earlier process with the same id is replaced.
//   - A Watcher keeps its list while there is no connection, and continues on the next connection.
//   - A Watcher returns an empty list only after a grace, so that no call is lost while an instance
//     registers again: see WithGrace.
//   - A node that cannot be read is skipped and reported, and does not affect other instances: see
//     WithUnreadable.
//
// # What it cannot promise
//
// An instance that has crashed stays in all lists until its session expires. Two processes that
// register the same id replace each other's node when they register. Kratos' own registry may
// recreate an instance that it has deregistered.
package kratosregistry
