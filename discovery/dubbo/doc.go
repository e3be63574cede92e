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
// the interface demo.Greeter with the method greet calls /demo.Greeter/greet. Java's own types need
// Dubbo's serialization, which is not here: parameters and results must be protobuf messages.
//
// # On the wire
//
//	/services/<application>/<host>:<port>     the instance, as discovery.Dubbo; ephemeral
//	/dubbo/metadata/<application>/<revision>  its services, for consumers in Java; persistent
//	/dubbo/<application>/<revision>           the same, for dubbo-go
//	/dubbo/mapping/<interface>                its applications, in a list with commas; persistent
//
// The revision is a hash of the services. Consumers need a metadata report, which Dubbo 3 has by
// default with a registry on ZooKeeper. The form was tried with consumers of Dubbo 3.3.5 in Java.
//
// # What it promises
//
//   - All nodes are kept until Close, through outages of any length, and created again if another
//     client deletes them or a server was restored without them.
//   - The mapping is changed by compare and set, so no application is lost from it.
//   - Close deletes what no instance of the application uses any more: a revision that no instance
//     has, and the application in the mapping of an interface that none of its instances offers. It
//     deletes no revision of another process.
//
// # What it cannot promise
//
// After a crash, the instance remains until its session expires. Its revision and mapping remain
// until a later process with the same revision calls Close. Both are harmless. If the services have
// changed since, no process deletes the revision: an operator may, if no instance has it.
//
// If two processes with one revision start and stop at the same moment, the revision may be missing
// for milliseconds until it is created again.
//
// Registration of interfaces (register-mode interface), routers, weights, tags, groups, versions
// and Dubbo's serialization are not here: dubbo-go has them.
package dubbo
