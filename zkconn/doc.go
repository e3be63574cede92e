// Package zkconn has the API of github.com/go-zookeeper/zk on the client of package framework. A
// program that uses go-zookeeper changes one import:
//
//	import zk "github.com/gocurator/curator/zkconn"
//
//	conn, events, err := zk.Connect(servers, 10*time.Second)
//	path, err := conn.Create("/jobs/job-", data, zk.FlagSequence, zk.WorldACL(zk.PermAll))
//	data, stat, watch, err := conn.GetW(path)
//
// Types, constants and errors are go-zookeeper's own, so values can be passed to packages that
// still use it, and errors can be compared with ==. Only [Conn], [Lock] and [Option] are types of
// this package. [FROM-GO-ZOOKEEPER] describes the migration to package framework.
//
// # What is the same
//
//   - Every method has go-zookeeper's arguments and results, including the results beside an error.
//     A test compares all of them.
//   - nil data are null. The client of [Conn.Client] stores empty data for nil.
//   - An operation is sent once. If the connection is lost before the reply, it fails with
//     [ErrConnectionClosed], and a write may have been carried out.
//   - An operation that waits for a connection may be sent in the next session. To prevent that,
//     use [Conn.Client] and [framework.Client.In].
//   - A watch is a channel that receives one event and is closed. The event is in the channel
//     before any later reply is returned.
//   - Watches survive the loss of the connection. When the session expires, they receive an event
//     of type [EventNotWatching] with [ErrSessionExpired]; after [Conn.Close], with [ErrClosing].
//   - The event channel of [Connect] receives the states of the connection, with the server's
//     address, and each event that a server sends. If it is full, events are dropped.
//
// # What differs
//
//   - Session: it also counts as expired when no server has confirmed it for the session timeout,
//     so StateExpired can occur without a connection. go-zookeeper waits for a server to report it.
//   - No server: an operation returns [ErrNoServer] after 1.5 s per server. If a handshake is in
//     progress then, the operation waits for its result. go-zookeeper returns it after one round
//     over all servers.
//   - Watches after a reconnect: each is set by a separate request, which is retried until it
//     succeeds or the session expires. go-zookeeper drops all watches if its one request fails.
//   - Host names: they are resolved at each connect. go-zookeeper resolves them once, in Connect,
//     which fails if a name is unknown.
//   - Event channel: it holds 100 events instead of 6.
//   - Event callback: it runs on a separate goroutine, may block and may use the Conn. go-zookeeper
//     calls it on the connection's goroutine, where it must do neither.
//   - Requests above 1 MB: they fail with [ErrShortBuffer] (see [WithMaxConnBufferSize]).
//     go-zookeeper sends them, and the server closes the connection.
//   - [WithMaxBufferSize]: it has no effect; a reply may be up to 256 MB long. In go-zookeeper it
//     limits replies.
//   - [Conn.Close]: it returns within about a second, and leaves no goroutine. go-zookeeper's Close
//     may hang.
//   - Protected creates: after an error no node remains. They are retried under the framework's
//     default policy, even after ErrNoServer, and the id is a UUID with dashes.
//   - [Lock]: after an error no node remains, and other clients' nodes are ignored. The context of
//     [Lock.Hold] is cancelled when the lock is lost, and after Unlock the lock can be acquired
//     again. go-zookeeper's Lock fails if the path contains other clients' nodes, and stays locked
//     for ever after a lost session.
//   - [FLWSrvr], [FLWRuok] and [FLWCons]: they parse the answers of ZooKeeper 3.6 and newer, and
//     skip connections without a session. go-zookeeper's functions fail on these answers, and panic
//     on a short answer.
//   - Unknown codes: they are values of package framework, such as ErrUnimplemented, instead of
//     "unknown error: -6".
//   - Containers of a ClickHouse Keeper: the EphemeralOwner of their stat is 0, as on ZooKeeper.
//
// [FROM-GO-ZOOKEEPER]: https://github.com/gocurator/curator/blob/main/docs/FROM-GO-ZOOKEEPER.md
// [framework.Client.In]: https://pkg.go.dev/github.com/gocurator/curator/framework#Client.In
package zkconn
