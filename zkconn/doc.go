// Package zkconn has the API of github.com/go-zookeeper/zk on the client of package framework. A
// program that uses go-zookeeper changes one import:
//
//	import zk "github.com/gocurator/curator/zkconn"
//
// Types, constants and errors are go-zookeeper's own, so values can be passed to packages that
// still use it, and errors can be compared with ==. Only [Conn], [Lock] and [Option] are types of
// this package. docs/FROM-GO-ZOOKEEPER.md describes the migration to package framework.
//
// # What is the same
//
//   - Every method, its arguments and its results, also beside an error. A test compares all of
//     them.
//   - An operation is sent once. If the connection is lost before the reply, it fails with
//     [ErrConnectionClosed], and a write may have been carried out.
//   - An operation that waits for a connection may be sent in the next session. To prevent that,
//     use [Conn.Client] and [framework.Client.In].
//   - A watch is a channel that receives one event and is closed. The event is in the channel
//     before any later reply is returned.
//   - Watches survive the loss of the connection, but not of the session: then they receive an
//     event of type [EventNotWatching] with [ErrSessionExpired], or [ErrClosing] after
//     [Conn.Close].
//   - The event channel of [Connect] receives the states of the connection, with the server's
//     address, and each event that a server sends. If it is full, events are dropped.
//
// # What differs
//
//   - Session: it is also lost when no server has confirmed it for the session timeout, so
//     StateExpired can occur without a server. go-zookeeper waits for a server to report it.
//   - No server: [ErrNoServer] is returned after 1.5 s per server, and after a handshake in
//     progress. go-zookeeper returns it after one round over all servers.
//   - Watches after a reconnect: they are set again one by one, until that succeeds or the session
//     has ended. go-zookeeper drops all of them if its one request fails.
//   - Host names: they are resolved at each connect. go-zookeeper resolves them once, in Connect,
//     which fails if one is unknown.
//   - Event channel: it holds 100 events instead of 6.
//   - Event callback: it runs on a goroutine of its own, may block and may use the Conn.
//     go-zookeeper calls it on the connection's goroutine, where it must do neither.
//   - Requests above 1 MB: they fail with [ErrShortBuffer] (see [WithMaxConnBufferSize]).
//     go-zookeeper sends them, and the server closes the connection.
//   - [WithMaxBufferSize]: it has no effect; a reply may have 256 MB. In go-zookeeper it limits
//     replies.
//   - [Conn.Close]: it takes about a second at most, and leaves no goroutine. go-zookeeper's may
//     hang.
//   - Protected creates: after an error no node remains. They are retried under the framework's
//     default policy, also after ErrNoServer, and the id is a UUID with dashes.
//   - [Lock]: after an error no node remains, other clients' nodes are ignored, [Lock.Hold] has a
//     context that ends when the lock is lost, and the lock can then be acquired again.
//     go-zookeeper's Lock fails if there are other clients' nodes, and stays locked for ever after
//     a lost session.
//   - [FLWSrvr], [FLWRuok] and [FLWCons]: they understand ZooKeeper 3.6 and newer, and skip
//     connections without a session. go-zookeeper's fail, and panic on a short answer.
//   - Unknown codes: they are values of package framework, such as ErrUnimplemented, instead of
//     "unknown error: -6".
//   - Containers of a ClickHouse Keeper: they have no EphemeralOwner, as on ZooKeeper.
//
// [framework.Client.In]: https://pkg.go.dev/github.com/gocurator/curator/framework#Client.In
package zkconn
