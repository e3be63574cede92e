// Package wire serves the clients of one server: connections, requests, watches and four-letter
// words. The quorum of package cluster decides which transactions are applied. The [Hooks] of a
// test can delay a request or make it fail.
//
// Four goroutines serve a connection, so that neither a client that does not read nor a delayed
// request blocks the others: read receives requests, serve applies them in order, write sends
// replies, and hangUp closes the connection. All exit when the connection is cut, at the latest by
// [Server.Close].
//
// The server's lock must be held for all functions whose comments do not state otherwise.
package wire
