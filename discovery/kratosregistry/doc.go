// Package kratosregistry registers and finds the services of Kratos (go-kratos.dev) in ZooKeeper. It takes the place of Kratos'
// own contrib/registry/zookeeper: nodes and data are the same, so services with one and with the other find each other. It is a
// module of its own, so users of the library do not inherit Kratos.
//
//	reg, err := kratosregistry.New(client) // client is a *framework.Client
//	app := kratos.New(kratos.Name("orders"), kratos.Server(server), kratos.Registrar(reg))
//	conn, err := grpc.DialInsecure(ctx, grpc.WithEndpoint("discovery:///orders"), grpc.WithDiscovery(reg))
//
// Access is that of the client: framework.WithAuth and framework.WithACLProvider stand for Kratos' WithDigestACL.
//
// # On the wire
//
//	/microservices/<name>/<id>   an instance: registry.ServiceInstance as JSON, ephemeral
//
// Missing parents are made as persistent nodes without data, as Kratos does. WithRootPath sets another root.
//
// # What it promises
//
//   - An instance is kept until Deregister, through outages of any length: see package recipes/node. It never comes back after
//     that, also if the session ends meanwhile. A node of an earlier process with the same id is replaced.
//   - A Watcher keeps its list while there is no connection, and continues on the next one.
//   - A node that cannot be read is left out and reported, and harms no other: see OnUnreadable.
//
// # What it cannot promise
//
// An instance that has crashed stays in all lists until its session ends. Two processes that register the same id replace each
// other's node when they register. Kratos' own registry may still bring back what it has deregistered.
package kratosregistry
