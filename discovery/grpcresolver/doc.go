// Package grpcresolver finds the servers of a gRPC client with package discovery. It is a module of
// its own, so users of the library do not inherit gRPC.
//
//	builder := grpcresolver.NewBuilder(d) // d is a *discovery.Discovery
//	defer builder.Close()
//	conn, err := grpc.NewClient("curator:///orders", grpc.WithResolvers(builder), ...)
//
// The target names the service: see [Target]. Each enabled instance is an endpoint: its address
// with its port, or with its TLS port if it has no other. A Dubbo instance is called at the port at
// which it speaks "tri" (see [WithProtocol]). Instances without an address or such a port are left
// out. By default gRPC calls one of them. To call all in turn:
//
//	grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`)
//
// # What it promises
//
//   - The list is the one of a discovery.Watch. Without a connection to ZooKeeper the last one
//     stays, and calls go on.
//   - The list becomes empty only after a grace, so that no call is lost while an instance
//     registers again: see discovery.WithGrace.
//   - A service without instances is an error that says so, and so is a ZooKeeper that could not be
//     reached since the start.
//   - All connections of a Builder to one service share a watch, also when gRPC closes and builds
//     resolvers of idle connections.
//   - The name in a server's certificate is never compared with one from ZooKeeper.
package grpcresolver
