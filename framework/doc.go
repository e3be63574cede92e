// Package framework is the ZooKeeper client under the recipes: go-zookeeper's, with sessions
// that are values, operations that take a context and are repeated when that helps, and
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
// decided here, without a server: see [connstate.Deadline]. A session that is over never
// comes back; the client makes a new one.
//
//	Client ── Session ── link ── one TCP connection, one zk.Conn
//	             ╰────── link ── the next connection of the same session
//
// A zk.Conn is used for one connection and thrown away. Left to itself it may run queued
// requests in another session, lose watches without a word, and hang when it is closed. The
// requests that locks are made of go past it, on the same connection, and in one order with
// the rest.
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
//   - [Client.Close] leaves no goroutine.
//
// # What it cannot promise
//
// A request whose reply was lost may have been carried out: [retry.Unknown] tells. And a
// process that was stopped for a while learns of the end of its session when it goes on.
package framework
