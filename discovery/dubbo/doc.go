// Package dubbo registers a gRPC service so that consumers of Apache Dubbo find and call it. It
// imports neither gRPC nor Dubbo: Dubbo's protocol "tri" is gRPC.
//
//	server := grpc.NewServer()
//	pb.RegisterGreeterServer(server, greeter{})
//	app := dubbo.Application{Name: "orders", Host: "10.0.0.7", Port: 50051}
//	for name, info := range server.GetServiceInfo() {
//		service := dubbo.Service{Name: name}
//		for _, m := range info.Methods {
//			service.Methods = append(service.Methods, m.Name)
//		}
//		app.Services = append(app.Services, service)
//	}
//	reg, err := dubbo.Register(ctx, client, app)
//	defer reg.Close() // or reg.Drain(ctx, 5*time.Second) before the server stops
//
// A service has the name of the Java interface, and its methods have Java's names: a consumer of
// the interface demo.Greeter with the method greet calls /demo.Greeter/greet. Parameters and
// results must be protobuf messages, since Dubbo's serialization of Java types is not supported.
//
// # On the wire
//
//	/services/<application>/<host>:<port>     the instance, as discovery.Dubbo; ephemeral
//	/dubbo/metadata/<application>/<revision>  its services, for consumers in Java; persistent
//	/dubbo/<application>/<revision>           the same, for dubbo-go
//	/dubbo/mapping/<interface>                its applications, in a list with commas; persistent
//
// With [WithGroup] the group replaces both services and dubbo. The node for dubbo-go is also an
// instance that offers nothing, since consumers with group=dubbo read it as one.
//
// The revision is a hash of the services. Consumers need a metadata report, which Dubbo 3 has by
// default with a registry on ZooKeeper. The form was tried with consumers of Dubbo 3.3.5 in Java
// and of dubbo-go 3.3.2, with and without a group.
//
// # What it promises
//
//   - All nodes are kept until Close, through outages of any length. They are recreated if another
//     client deletes them, or if a server was restored without them.
//   - The mapping is changed by compare and set, so no application is lost from it.
//   - Close deletes the revision if no instance uses it, and removes the application from the
//     mapping of each interface that none of its instances offers.
//   - Register deletes the revisions of crashed processes: each one of this package that is older
//     than a minute and that no instance uses.
//
// # What it cannot promise
//
// After a crash, the instance remains until its session expires, and its revision until a later
// process registers. Its mapping remains until a later process with the same interface calls Close.
// All are harmless.
//
// If two processes with one revision start and stop at the same moment, the revision may be missing
// for milliseconds until it is created again.
//
// Registration of interfaces (register-mode interface), routers, weights, tags, groups, versions
// and Dubbo's serialization are not supported: use dubbo-go.
package dubbo
