// Package zktest is a ZooKeeper server, or an ensemble of them, in the process of a test or a demo.
// It keeps everything in memory and speaks the wire protocol, so that go-zookeeper and the Java
// client use it unchanged. It is the counterpart of curator-test's TestingServer and
// TestingCluster.
//
//	server := zktest.NewServer(t)                                // closed when the test ends
//	client, err := framework.New(server.Servers())               // with this library
//	conn, _, err := zk.Connect(server.Servers(), 10*time.Second) // with go-zookeeper
//
// [WithProperties] sets the properties of a real server, by the same names.
//
// # Faults of requests
//
// A fault of a request applies to the requests that its matches select: [OnOp], [OnPath],
// [OnSession], or a function ([On]). Pings, handshakes and the other requests that clients send on
// their own are selected only if OnOp names them.
//
//   - [Server.Inject] with [FailBefore]: the nth request is not applied, and its connection is cut.
//     Once. The client sees a lost connection.
//   - with [LoseReply]: the request is applied, and the connection is cut. Once. The client sees a
//     lost connection and cannot tell it from FailBefore.
//   - with [ExpireBefore] and [ExpireAfter]: the session is expired before or after the request is
//     applied. Once. The client sees a lost connection, and when it reconnects, an expired session.
//   - with [LoseWakeup]: the request is applied, and its reply waits for the next request of any
//     client. The client sees a slow reply.
//   - [Server.Block]: requests wait before they are applied, and later requests of their
//     connections wait behind them, until [Gate.Open]. The client sees a slow server, and may give
//     up the connection.
//   - [Server.BlockReplies]: requests are applied, and their replies and everything that follows on
//     the connection wait, until Gate.Open.
//   - [Server.Delay]: each request waits for a time before it is applied, until the returned
//     function is called.
//   - [Server.Rewrite]: a function of the test replaces replies, until the returned function is
//     called.
//
// # Faults of the network
//
//   - [Server.CutConnections]: all connections are cut. Once. Clients reconnect with their
//     sessions.
//   - [Server.RefuseConnections]: new connections are refused, until it is called with false.
//   - [Server.RefuseSessions], [Server.RefuseCredentials]: handshakes or credentials are answered
//     with a refusal, until called with false.
//   - [Server.Freeze]: no packet passes and no connection is closed, for some sessions or for all,
//     until [Server.Thaw]. The client sees silence. The server's clock runs, and sessions expire.
//   - [Listener.Freeze], [Listener.Stop]: the same, or the end of its process, for one address
//     ([Server.Listen]).
//   - [WithLatency]: every reply takes a time, for the life of the server.
//
// # Faults of the server
//
//   - [Server.ExpireSession]: a session is expired at once. Its connection is cut, and the client
//     learns of it when it reconnects.
//   - [Server.Stop]: the process ends, until [Server.Restart]. Data and sessions stay. Clients see
//     refused connections.
//   - [Server.Pause]: the process stands still, and its clock as well, until [Server.Resume]. The
//     client sees silence.
//   - [Cluster.StopLeader]: the leader's process ends. All members cut their connections, and after
//     an election clients reconnect with their sessions.
//   - [Cluster.Partition]: members are cut off from each other, and clients reach all of them,
//     until [Cluster.Heal]. A member without a majority serves old data and commits nothing until
//     it notices.
//   - [Cluster.Lag]: a member applies transactions late. Its clients see old data.
//
// [Server.ClearFaults] ends all faults of a server, [Server.Faults] lists them in words, and
// [Server.Trace] shows the requests of clients with their results.
//
// # Data
//
// A test creates, changes and deletes nodes itself ([Server.Create], [Server.Set],
// [Server.Delete]), empties the server between two tests ([Server.Flush]), and saves and loads a
// tree ([Server.Dump], [Server.Load]). [Server.SetSequence] sets the number of the next sequential
// node, up to the overflow.
//
// # Addresses
//
// A server can have several addresses, also with TLS, and each of them can be stopped separately
// ([Server.Listen]). Package control and the program zkserver offer all of this to services in
// other languages.
//
// # Time
//
// Besides TCP there is an in-memory network: use [WithInMemory], and let the client dial with
// [Server.Dial] or [Server.DialContext]. Server and client then work inside a testing/synctest
// bubble, where an hour of waiting takes no time. Elsewhere [Server.Advance] advances the server's
// clock.
//
// Give every wait in a bubble a deadline. A server has timers, and so has a client that is
// connected or connecting. A test that waits for something that never happens is therefore no
// deadlock for synctest: its time runs forever.
//
// # A cluster
//
// [NewCluster] starts several servers that behave as an ensemble does towards its clients, over TCP
// or in memory:
//
//	cluster := zktest.NewCluster(t, 3)
//	client, err := framework.New(cluster.Servers())
//	...
//	cluster.StopLeader() // does my service survive that?
//
// [Cluster] says what a client may rely on and what it may not. Every member has all faults of a
// server.
//
// # Other servers
//
// [LikeKeeper] starts a server that differs from ZooKeeper as ClickHouse Keeper does.
// RefuseSessions is a Keeper without a leader. [WithVersion] chooses ZooKeeper 3.8.0 or 3.9.6:
//
//	what a client sees                         3.8.0                  3.9.6
//	zxid in the header of an event             -1                     of the transaction; -1 after
//	                                                                  setWatches
//	several watches on one path                the later one          all are kept
//	                                           replaces
//	list of children below a recursive watch   no event               event of a watch of its own
//	remove-, checkWatches of kinds 4 and 5     marshalling error (-5) persistent and recursive
//	the same of kinds 1 and 2                  any mode               watches that fire once
//	exists of an unreadable node               stat                   no auth (-102)
//	setWatches for a change of such a node     event                  no event, and no watch
//	multi: create with a bad mode              fails in its part      marshalling error
//	multi: create with the mode of a TTL node  marshalling error      the same, also after
//	                                           in its turn            a failure
//	multi: create with a null access list      fails in its part      marshalling error, no zxid
//	multi: create2, createContainer            created by the mode    created by the operation;
//	                                                                  answer with stat
//	a transaction that cannot be read          uses up a zxid         does not, except a multi
//	access list with an IPv6 address           invalid (-114)         allowed
//	deleteContainer                            bad arguments (-8)     the connection is cut
//
// A real leader of 3.9.6 reuses the number of the last transaction for the multi with null and for
// a transaction that cannot be read, and its ensemble stops there. A [Cluster] does not.
//
// # Limits
//
// In everything that this page does not name a server behaves as a real one of its version, and
// tests compare the two. These differ:
//
//   - Nothing is written to disk, and nothing is throttled.
//   - Reconfiguration by a client is answered as by a standalone ZooKeeper: as disabled, or as
//     unimplemented with the property reconfigEnabled. Only a test changes the members of a
//     cluster.
//   - The only mechanism of SASL is DIGEST-MD5, with [WithSASL]. X.509 authentication is refused.
//   - Only clients can have a chroot. A cluster has no observers, read-only members or weights.
//   - Quotas are counted, and enforced with the property enforceQuota. A soft quota that is
//     exceeded is not logged, and the root cannot have one.
//   - Of the four-letter words hash, lead, orst and stmk are refused. The latencies in
//     stat, cons and mntr are always 0, mntr has a part of a real server's rows, envi has
//     Go's version as java.version and nothing else of Java, and dirs counts no bytes.
//   - A null string in a request is an empty one, and digits of other scripts are not accepted in
//     the addresses of access lists.
//
// # A cluster
//
// Its members are servers, with all faults of a [Server]. [Server.Stop] and [Server.Restart] end a
// member's process and start it again with its data and its log. [Server.Pause] and [Server.Resume]
// stop and continue it. [Server.Freeze] cuts its clients off. [Cluster.MemberOf] returns the member
// that serves a session. All random choices depend on [WithSeed].
//
// What a client may rely on, and what it may not:
//
//   - A write is sent to the leader, wherever the client is connected. It is committed when a
//     majority of members has it in the log. Each member applies the log in order, and answers its
//     own clients when it has applied their writes.
//   - A read is served from what the member has applied, which may be old: see [WithLag] and
//     [Cluster.Lag]. Sync waits for everything that was committed when the leader received it.
//   - A member fires watches when it applies a transaction. A client sees the event of a
//     transaction before it sees any reply that shows it.
//   - A member refuses a client that has seen more than the member has applied.
//   - The leader counts sessions. Every half tick it pings the followers, and learns from the
//     answers which of their clients were heard. It ends sessions at the end of a tick. A session
//     may move to another member; then its old connection cannot write.
//   - When the leader is lost, its members cut all connections. They serve no client until a
//     majority of members reach each other and have elected a leader: the member of the newest
//     epoch, and among these the one with the longest log. Transactions that are not in its log are
//     lost; their clients got no answer. Sessions get their whole timeout again.
//   - [Cluster.Add] and [Cluster.Remove] change the members one at a time. A transaction is
//     committed when a majority of the committed configuration has it. A reconfiguration needs a
//     majority of the old and of the new configuration. A leader is elected by a majority of the
//     committed configuration, and of the configuration in the log that it takes over. A new member
//     has everything that was committed before, and follows, before it is proposed as a voter. The
//     data of a removed member are deleted.
//   - A member that is paused or partitioned is given up after the time of [WithSyncTimeout]. Until
//     it notices itself, it serves its clients with old data, but commits nothing.
//   - A leader looks for its followers once per tick. For up to a tick after they have elected
//     another leader, it answers pings, reads, syncs and resumed sessions without asking another
//     member. Only the answer to a write proves that a majority follows.
//
// # A ClickHouse Keeper
//
// [LikeKeeper] follows Keeper's sources, as of autumn 2026, and measurements of its users. The
// differences were not tried on a real one.
//
// The ages are:
//
//   - "newest" is a Keeper of autumn 2026. Clients see the least number of 64 bits as the
//     ephemeralOwner of a container.
//   - "new" is a Keeper of the middle of 2026 (26.6). It answers a request for a container with
//     "bad arguments" (-8).
//   - "recent" is a Keeper of 2025. It does not know createContainer and createTTL. Its sequence
//     numbers end at 2^31 - 1, as in ZooKeeper, and in newer Keepers at 2^32 - 1.
//   - "old" is a Keeper of 2022 (before 22.10). It has no /keeper. It knows the operations of
//     ZooKeeper 3.4, without setWatches: no create2, checkWatches, removeWatches, reconfig,
//     containers, TTL nodes, multiRead, setWatches2 or addWatch.
//
// All ages differ from ZooKeeper in these points:
//
//   - An operation that a Keeper does not know is not answered: the connection is cut. Only old
//     Keepers do not know reconfig. No Keeper knows getEphemerals, getAllChildrenNumber, whoAmI and
//     SASL.
//   - A session is never restored. A client that asks for one gets a new session with another id.
//     The old session expires when its time has passed, and then its ephemeral nodes are deleted.
//   - The event of a recursive watch carries the path of the watch, not the path of the node.
//   - The password of every session is 16 zeros.
//   - In the stat of a node, pzxid stays as it is when a child is deleted, and cversion also counts
//     writes of the children's data.
//   - There is no /zookeeper. Keepers after 2022 have /keeper/api_version, /keeper/feature_flags
//     and, with the configuration, /keeper/config. A Keeper with the data of a ZooKeeper has both:
//     create /zookeeper with [Server.Create]. A client that writes, deletes or creates /keeper or a
//     node below it is answered with "bad arguments" (-8), and on the newest Keepers also a client
//     that checks one.
//   - A child of a TTL node is refused with "bad arguments" by new and newest Keepers.
//   - There is a feature flag for some operations: multiRead, create2, persistent watches, and
//     createTTL. Where it is off, the operation is one that the Keeper does not know. Here all that
//     the age has are on, except that for createTTL, which is on with the property
//     extendedTypesEnabled.
//
// The operations from 500 on, /keeper/availability_zone and /keeper/max_request_size are missing
// here. Sessions get what the properties minSessionTimeout and maxSessionTimeout say; a Keeper
// grants 10 s to 100 s by default.
//
// [Server.RefuseSessions] is a Keeper without a leader. [Server.Stop] is the end of its process. A
// Keeper that is stopped in the normal way expires the sessions of its clients before that: see
// [Server.ExpireSession].
package zktest
