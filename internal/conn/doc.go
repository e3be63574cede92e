// Package conn is one TCP connection of one ZooKeeper session: handshake, credentials, requests in
// flight, replies and events in the order of the wire, and the end. It knows neither retries, nor
// other servers, nor the session's other connections.
//
//	nc, err := net.Dial("tcp", server)
//	c, err := conn.Open(ctx, nc, conn.Hello{Timeout: timeout}) // handshake, credentials
//	c.Start(conn.Handlers{...})                                // reading begins
//	c.Send(&conn.Request{...})                                 // never blocks
//	c.Close(nil); <-c.Done()                                   // every request has been answered
//
// # Order
//
// One goroutine reads. It calls the handlers of replies and events itself, one at a time, in the
// order in which the server sent them, so they must not block. If a handler ends the goroutine, the
// connection ends.
//
// Replies must arrive in the order of the requests. Exceptions are pings and credentials, which
// have their own numbers, and requests that the server rejects up front. A reply to no request, or
// to another than the oldest, ends the connection, since the following replies could not be
// trusted. The numbers of requests continue over all connections of a session: see [Numbers].
//
// # Writing
//
// The sending goroutine writes a request itself if that cannot block: the network is a socket, no
// request is queued, and the unanswered bytes fit any socket's buffer. Otherwise a goroutine of the
// connection writes it, together with all other queued requests.
//
// # Keeping alive
//
// A ping is sent every third of the session's timeout. The connection ends if no byte has arrived
// for two thirds. It also ends if a request is waiting and the server has answered none for two
// thirds: a server that answers only pings would be kept for ever.
//
// # Nudges
//
// ZooKeeper 3.6.0 to 3.8.0 can lose a wake-up (ZOOKEEPER-4537): the thread that applies commits and
// answers requests sleeps although there is work. The server answers no client until the next
// request, or the next commit of the ensemble, wakes it. If no other client uses the servers, that
// is this client's next ping, a third of the session's timeout later.
//
// So with [Handlers.Nudge] a sync is sent behind an overdue request. The oldest request is overdue
// when nothing has arrived from the server for 50 ms, or for 20 times the average write on this
// connection if that is longer. The average begins with the duration of the handshake.
//
// No nudge is sent while any sync is unanswered, be it a nudge or the caller's. So a request gets
// at most one, and so does a connection to a server that does not answer at all. A nudge proves
// nothing for the session's deadline, like any other sync.
//
// A ping would wake the server as well, but may be answered before earlier requests. The reply to a
// sync shows that none is waiting any more. On a follower, the leader's answer to the sync follows
// the commits before it, and wakes the server a second time. So even a sync that was sent before
// the wake-up was lost helps.
package conn
