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
// Package admin administers an ensemble and reads in bulk. Package compressed reads and writes
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
// longer timeout.
//
// # Errors and retries
//
// Every error of an operation is an [*OpError] with the operation and the path. errors.Is finds
// go-zookeeper's errors, the error of the context, and the errors of this package.
//
// A request is retried if no server was reached, its reply was lost, the session expired or moved
// before the server carried it out, or the server is overloaded. If the policy allows no retry, the
// operation returns that failure without [retry.ErrExhausted].
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
// is not permitted to read.
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
//   - A function registered with [Session.Depend] runs before another session can own what this
//     session owned.
//   - Reads within a session are monotonic, whichever server answers them.
//   - [Client.Close] leaves no goroutine, except for functions of the caller that are still
//     running.
//
// # What it cannot promise
//
// A suspended process notices that its session has expired only when it resumes.
//
// # Servers other than ZooKeeper 3.8 and 3.9
//
// [COMPATIBILITY] describes older ZooKeepers and ClickHouse Keepers. An operation that the server
// does not support fails with [ErrUnimplemented] or [ErrWatchUnsupported]. A Keeper never restores
// a session, so every lost connection is a lost session.
//
// [COMPATIBILITY]: https://github.com/gocurator/curator/blob/main/docs/COMPATIBILITY.md
// [GUARANTEES]: https://github.com/gocurator/curator/blob/main/docs/GUARANTEES.md
package framework
