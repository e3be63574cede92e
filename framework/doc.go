// Package framework is the ZooKeeper client. It maintains a session, retries requests whose replies
// were lost, and cleans up after operations of unknown outcome. It is Curator's CuratorFramework.
//
//	client, err := framework.New([]string{"zk1:2181", "zk2:2181"},
//		framework.WithSessionTimeout(15*time.Second),
//		framework.WithNamespace("billing"))
//	if err != nil { ... }
//	defer client.Close()
//
//	_, err = client.Create(ctx, "/limit", []byte("10"), framework.OrSet())
//	data, stat, err := client.Get(ctx, "/limit")
//	_, err = client.Set(ctx, "/limit", []byte("20"), framework.IfVersion(stat.Version))
//	_, err = client.Create(ctx, "/jobs/7", nil,
//		framework.As(framework.Ephemeral), framework.ContainerParents())
//
// Package admin provides cluster administration and bulk reads. Package compressed reads and writes
// compressed data. Package sasl contains mechanisms for [WithSASL].
//
// # Sessions
//
// A [Session] ends when the servers expire it, when the client is closed, or when no server has
// confirmed it for so long that the servers may expire it at any moment. The client decides the
// last case without a server: see [GUARANTEES]. An expired session is never restored; the
// client creates a new one. [Client.In] returns a view of the client that stays in one session.
//
// While a function is registered with [Session.Depend], the client confirms the session with a
// majority of the ensemble. It sends a write that changes nothing, at most four times per timeout.
// A committed write must take less than 12 % of the granted timeout: 470 ms of 4 s, 4.7 s of 40 s.
// If writes take longer, the client cannot confirm a lock, term or kept node in time: holds are
// cancelled with [ErrSessionLost], acquires fail with it, and the client logs a warning. Use a
// longer timeout then.
//
// # Errors and retries
//
// Every error of an operation is an [*OpError] with the operation and the path. errors.Is finds
// go-zookeeper's values, such as zk.ErrNoNode, the error of the context, and the values of this
// package.
//
// A write whose reply was lost is sent again. If the server carried out the first request, the
// second may fail because of it: a Set with [IfVersion] with zk.ErrBadVersion, a Create with
// zk.ErrNodeExists, a Delete with zk.ErrNoNode, and a Multi with any of these errors. [Idempotent]
// and [Protected] prevent such failures. [retry.Unknown] reports whether a write that failed may
// have been carried out.
//
// # Watches
//
// [Client.GetW], [Client.ChildrenW] and [Client.ExistsW] set a [Watch], which fires once.
// [Client.AddWatch] sets a watch that remains until its connection is lost. Watches with the same
// path and mode share one watch on the server. Servers report nothing about nodes that the client
// is not permitted to read. If the client also has a recursive watch on a path, a [WatchPersistent]
// receives no event for children of the path that the client is not permitted to read.
//
// # Following
//
// [Client.Follow] reads, waits for a change, and reads again, over any number of connections and
// sessions. It is the loop of most recipes:
//
//	type changed = <-chan struct{}
//	err := client.Follow(ctx, func(ctx context.Context, in *framework.Client) (changed, error) {
//		data, _, watch, err := in.GetW(ctx, "/config")
//		if err != nil {
//			return nil, err
//		}
//		use(data)
//		return watch.Done(), nil
//	})
//
// After a transient error of read, such as a lost connection or refused credentials, Follow pauses
// and calls read again. zk.ErrNoNode is not transient: to follow a node that may be missing, use
// [Client.ExistsW]. After [ErrSessionLost] Follow calls read in the next session, or when an idle
// session has been confirmed. So read must not return an error that wraps the ErrSessionLost of
// something else, such as the caller's lock.
//
// # go-zookeeper
//
// The package uses go-zookeeper's types and errors where they exist: zk.Stat, zk.ACL, zk.Event,
// zk.ErrNoNode and the requests of a Multi. It does not use zk.Conn, which may send queued requests
// in another session, lose watches silently and hang in Close, and does not support persistent
// watches.
//
// # What it promises
//
//   - Every call returns at once when its context is done or the client is closed.
//   - A [Protected] create creates exactly one node, and none if it fails.
//   - A [Guaranteed] delete continues until the node is deleted.
//   - A function registered with [Session.Depend] runs before another session can own what this one
//     owned.
//   - Reads within a session are monotonic, whichever server answers them.
//   - [Client.Close] leaves no goroutine, except for functions of the caller that are still
//     running.
//
// # What it cannot promise
//
// A suspended process notices that its session has expired only when it resumes.
//
// # Requests that a server forgets
//
// ZooKeeper 3.6.0 to 3.8.0 can leave a request unanswered until the next one arrives
// (ZOOKEEPER-4537). If a request takes longer than 50 ms, and longer than 20 times what writes
// usually take, the client sends one sync behind it, which frees it: see [PERFORMANCE].
//
// # Servers other than ZooKeeper 3.8 and 3.9
//
//   - On servers without containers, parents are persistent.
//   - Servers without persistent watches fail [Client.AddWatch] with [ErrWatchUnsupported].
//   - TTL nodes need extendedTypesEnabled. Servers without it fail them with [ErrUnimplemented].
//   - ZooKeeper before 3.5 fails [StatTo] with [ErrUnimplemented], and containers and TTL nodes in
//     a [Client.Multi] with "marshalling error (-5)".
//
// The client knows a ClickHouse Keeper by the password of its sessions, which is all zeros. It
// sends a Keeper no request for containers, persistent watches, TTL nodes or the stat of a create.
// Parents are persistent, and the other requests fail as above. A Multi with any of them fails with
// [ErrUnimplemented]. Older Keepers would close the connection on a persistent watch, and newer
// ones report the path of the watch instead of the node's. If the context of a [Watch] is done, a
// Keeper still keeps the watch until it fires or the connection is lost. A Keeper never restores a
// session, so every lost connection is a lost session.
//
// [GUARANTEES]: https://github.com/gocurator/curator/blob/main/docs/GUARANTEES.md
// [PERFORMANCE]: https://github.com/gocurator/curator/blob/main/docs/PERFORMANCE.md
package framework
