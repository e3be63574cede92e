// Package framework is the ZooKeeper client under the recipes. It keeps a session, repeats what was lost on the way,
// and removes what operations of unknown outcome have left. It is Curator's CuratorFramework.
//
//	client, err := framework.New([]string{"zk1:2181", "zk2:2181"},
//		framework.WithSessionTimeout(15*time.Second),
//		framework.WithNamespace("billing"))
//	if err != nil { ... }
//	defer client.Close()
//
// # Sessions
//
// A [Session] is over when the servers say so, when the client is closed, or when no server
// has confirmed it for so long that the servers may end it at any moment. The client decides
// the last without a server: see docs/RELIABILITY.md. A session that is over never
// comes back; the client makes a new one.
//
// # go-zookeeper
//
// The types and errors of the API are go-zookeeper's (zk.Stat, zk.ACL, zk.Event, zk.ErrNoNode, the requests
// of a Multi), because users know them and their code need not change. Its zk.Conn is not used: it may run
// queued requests in another session, lose watches without a word, hang when it is closed, and it knows no
// persistent watches.
//
// [WithObserver] reports operations, states and locks, for metrics and traces.
//
// What operators ask an ensemble is in package admin, nodes whose data are compressed are in package compressed, and mechanisms
// for [WithSASL] are in package sasl.
//
// # What it promises
//
//   - Every call returns at once when its context is done or the client is closed.
//   - A [Protected] create makes exactly one node, and none if it fails.
//   - [Client.DeleteGuaranteed] goes on until the node is gone.
//   - Those who [Session.Depend] on a session are notified of its end before anyone else can own
//     what it owned.
//   - Within a session time does not go back: later reads, on any server, show what an answer or an event
//     has shown.
//   - [Client.Close] leaves no goroutine, except for functions of the user's that are still running.
//
// # Servers other than ZooKeeper 3.8 and 3.9
//
// Where servers do not know containers, parents are persistent. Where they do not know persistent watches,
// [Client.AddWatch] returns [ErrWatchUnsupported]. ZooKeeper says so when it is asked. A ClickHouse Keeper is not asked for either of
// them, nor for nodes with a TTL: the client knows it by the password of its sessions, which is all zeros. A Keeper
// never restores a session, so there every lost connection is a lost session.
//
// # Requests that a server forgets
//
// ZooKeeper 3.6.0 to 3.8.0 can leave a request unanswered until the next one reaches the server
// (ZOOKEEPER-4537). When a request takes longer than 50 ms, and longer than 20 times what writes usually take, the
// client sends one sync behind it, which frees it: see docs/PERFORMANCE.md. Nothing has to be configured.
//
// # What it cannot promise
//
// A request whose reply was lost may have been carried out: [retry.Unknown] says so. And a
// process that was stopped for a while notices the end of its session when it continues.
package framework
