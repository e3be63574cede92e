// Package wire serves the clients of one server: connections, requests, watches and four-letter
// words. The quorum of package cluster decides what is applied, and the [Hooks] of a test may hold
// a request up or have it fail.
//
// Four goroutines serve a connection, so that neither a client that does not read nor a request
// that is held up blocks the others: read takes requests off the network, serve carries them out in
// order, write puts answers on the network, and hangUp closes the connection. All end when the
// connection is cut, at the latest by [Server.Close].
//
// Functions whose comment says nothing else require that the server's lock is held. The comments of
// the goroutines' own functions say that it is not.
package wire
