// Package zkconn has the API of github.com/go-zookeeper/zk on the client of package framework. A program that uses
// go-zookeeper changes one import:
//
//	import zk "github.com/gocurator/curator/zkconn"
//
// Types, constants and errors are go-zookeeper's own, so values can be passed to packages that still use it, and errors can be
// compared with ==. Only [Conn], [Lock] and [Option] are types of this package. docs/MIGRATING.md shows the way from there to package
// framework.
//
// # What is the same
//
//   - Every method, its arguments, and what it returns, also with an error: a test compares all of them.
//   - An operation is sent once. If the connection is lost before the answer came, it fails with [ErrConnectionClosed], and nobody knows
//     whether a write was carried out.
//   - An operation that waits for a connection may be sent in the next session. Where that must not be, use [Conn.Client] with
//     [framework.InSession].
//   - A watch is a channel that gets one event and is closed. The event is in the channel before any later answer is returned.
//   - Watches outlive the connection, but not the session: then they get an event of type [EventNotWatching] with
//     [ErrSessionExpired], or [ErrClosing] after [Conn.Close].
//   - The event channel of [Connect] gets the steps of the connection, with the server's address, and each event that a
//     server sends. What does not fit is dropped.
//
// # What differs
//
//	                          go-zookeeper                          zkconn
//	loss of the session       known when a server says so           also when no server has confirmed it for the session
//	                                                                timeout: StateExpired can come without a server
//	no server                 ErrNoServer after one round over      ErrNoServer after 1.5 s per server
//	                          all servers
//	watches after a reconnect are given up if the one request       are set again one by one, until it succeeds or the
//	                          that sets them again fails            session is over
//	host names                resolved once, by Connect, which      resolved at each connect
//	                          fails if one is unknown
//	event channel             holds 6 events                        holds 100 events
//	event callback            on the connection's goroutine: must   on a goroutine of its own: may block and use the Conn
//	                          not block, must not use the Conn
//	requests above 1 MB       are sent, and cut the connection      fail with ErrShortBuffer: see WithMaxConnBufferSize
//	Close                     may hang, leaves goroutines           takes about a second at most, leaves no goroutine
//	protected creates         leave the node behind after some      no node stays after an error; repeated under the
//	                          errors; give up at ErrNoServer        framework's default policy; the id is a UUID with dashes
//	Lock                      leaves its node behind after          no node stays after an error; ignores nodes of others;
//	                          errors; fails if there is a node      Hold has a context that ends when the lock is lost; after
//	                          of others; a lost session keeps       a loss it can be acquired again
//	                          it locked for ever
//	WithMaxBufferSize         limits replies                        has no effect: the limit is 256 MB
//	unknown codes             "unknown error: -6"                   values of package framework, such as ErrUnimplemented
//	containers of a           have an EphemeralOwner                have none, as on ZooKeeper
//	ClickHouse Keeper
//
// [framework.InSession]: https://pkg.go.dev/github.com/gocurator/curator/framework#InSession
package zkconn
