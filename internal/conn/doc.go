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
// order in which the server sent them; so they must not block. If one of them ends the goroutine, the connection ends. Replies must come in the order of the
// requests, pings and credentials apart, which have numbers of their own, and what the server refuses at once. A reply that belongs to no request, or
// to another one than the oldest, ends the connection: what follows could not be trusted. The numbers of requests go on over all
// connections of a session: see [Numbers].
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
//
// # Nudges
//
// ZooKeeper 3.6.0 to 3.8.0 can lose a wake-up (ZOOKEEPER-4537): the thread that applies commits and answers requests
// goes to sleep although there is work, and the server answers nobody until the next request, or the next
// commit of the ensemble, wakes it. If nobody else uses the servers, that is our next ping, a third of the session's timeout later.
//
// So with [Handlers.Nudge] a sync is sent behind a request that waits too long: when the oldest request is
// unanswered, and nothing has come from the server, for 50 ms, or for 20 times what writes take
// on this connection if that is more. The average begins with the time of the handshake.
//
// None is sent while any sync is unanswered, be it a nudge or the user's. So a request gets at most one, and so does a
// connection to a server that does not answer at all. For the session's deadline a nudge is a request like any other: it
// proves nothing.
//
// A ping would wake the server as well. But it may be answered before what was sent earlier, while the answer to a
// sync says that nothing waits any more. And on a follower the leader's answer to the sync comes after the commits before it,
// and wakes the server a second time, so even a sync that was sent before the wake-up was lost helps.
package conn
