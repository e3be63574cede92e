// Package grpcresolver finds the servers of a gRPC client with package discovery. It is a separate
// module, so users of the library do not inherit gRPC.
//
//	builder, err := grpcresolver.NewBuilder(d) // d is a *discovery.Discovery
//	defer builder.Close()
//	conn, err := grpc.NewClient("curator:///orders", grpc.WithResolvers(builder), ...)
//
// The target names the service: see [Target]. Each enabled instance is an endpoint, with its
// address and its port, or its TLS port if it has no other. A Dubbo instance is called at its port
// for the protocol "tri" (see [WithProtocol]). Instances without an address or such a port are
// skipped. By default gRPC calls one endpoint. To call all of them in turn:
//
//	grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`)
//
// # What it promises
//
//   - The endpoints are the available instances of a discovery.Watch. Without a connection to
//     ZooKeeper, gRPC continues with the last list.
//   - The list becomes empty only after a grace, so that no call is lost while an instance
//     registers again: see discovery.WithGrace.
//   - Calls fail with the reason if a service has no instance, or if ZooKeeper was never reached.
//   - All connections of a Builder to one service share a watch, even when gRPC closes and builds
//     resolvers of idle connections.
//   - The name in a server's certificate is never compared with one from ZooKeeper.
package grpcresolver
