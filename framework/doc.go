// Package framework is the ZooKeeper client under the recipes, with sessions that are values, operations that take a context and are repeated when that helps, and
// clean-up behind operations whose outcome was not learned. It is Curator's
// CuratorFramework.
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
// has confirmed it for so long that the servers may end it at any moment. The last is
// decided here, without a server: see docs/RELIABILITY.md. A session that is over never
// comes back; the client makes a new one.
//
//	Client ── Session ── link ── one TCP connection (internal/conn)
//	             ╰────── link ── the next connection of the same session
//
// # go-zookeeper
//
// The types and errors of the API are go-zookeeper's (zk.Stat, zk.ACL, zk.Event, zk.ErrNoNode, the requests
// of a Multi), because users know them and their code need not change. Its zk.Conn is not used: left to
// itself it may run queued requests in another session, lose watches without a word, hang when it is
// closed, and it knows no persistent watches. In this repository only tests and benchmarks use it, to compare.
//
// [WithObserver] has somebody told of operations, states and locks: for metrics and traces.
//
// # What it promises
//
//   - Every call returns when its context is done or the client closed, at once.
//   - [Protected] creates make exactly one node, and none if they fail.
//   - [Client.DeleteGuaranteed] goes on until the node is gone.
//   - Those who [Session.Depend] on a session hear of its end before anyone else can own
//     what it owned.
//   - Within a session time does not go back: what an answer or an event has told, later reads show, on
//     whichever server.
//   - [Client.Close] leaves no goroutine.
//
// # Servers other than ZooKeeper 3.8
//
// Old servers without containers get persistent parents instead; without persistent watches,
// [Client.AddWatch] says [ErrWatchUnsupported]. ClickHouse Keeper hangs up when it does not know an
// operation: after the second time it is not asked again. It never restores a session, so there every
// lost connection is a lost session.
//
// # Requests that a server forgets
//
// ZooKeeper 3.6.0 to 3.8.0 can leave a request unanswered until the next one reaches the server
// (ZOOKEEPER-4537). When a request takes longer than 50 ms, and longer than 20 times what writes usually take, the
// client sends one sync behind it, which frees it: see docs/PERFORMANCE.md. Nothing has to be configured.
//
// # What it cannot promise
//
// A request whose reply was lost may have been carried out: [retry.Unknown] tells. And a
// process that was stopped for a while learns of the end of its session when it goes on.
package framework
