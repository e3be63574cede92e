// Package conn is one TCP connection of one ZooKeeper session: the handshake, credentials, requests
// in flight, replies and events in the order of the wire, and the end. It knows nothing of retries,
// of other servers, or of what became of the session before and after.
//
//	nc, err := net.Dial("tcp", server)
//	c, err := conn.Open(ctx, nc, conn.Hello{Timeout: 10 * time.Second}) // handshake, credentials
//	c.Start(conn.Handlers{...})                                         // reading begins
//	c.Send(&conn.Request{...})                                          // never blocks
//	c.Close(nil); <-c.Done()                                            // every request has been answered
//
// # Order
//
// One goroutine reads. It calls the handlers of replies and events itself, one at a time, in the
// order in which the server sent them; so they must not block. Replies must come in the order of the
// requests, pings apart, which have a number of their own. A reply that belongs to no request, or
// to another one than the oldest, ends the connection: what follows could not be trusted.
//
// # Writing
//
// A request is written by the goroutine that sends it, if that cannot block: when the network is a
// socket, nothing is queued, and the bytes that the server has not answered yet fit any socket's
// buffer. Otherwise a goroutine of the connection writes it, together with all others that wait.
//
// # Keeping alive
//
// A ping is sent every third of the session's timeout. If no byte has come for two thirds, the
// connection ends.
package conn
