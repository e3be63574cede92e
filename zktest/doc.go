// Package zktest runs a ZooKeeper server, or an ensemble of servers, in the process of a test or a
// demo. The servers keep all data in memory and speak the wire protocol, so that go-zookeeper and
// the Java client work unchanged. It is the counterpart of curator-test's TestingServer and
// TestingCluster.
//
//	server := zktest.NewServer(t)                                // closed when the test completes
//	client, err := framework.New(server.Servers())               // with this library
//	conn, _, err := zk.Connect(server.Servers(), 10*time.Second) // with go-zookeeper
//
//	server.Inject(zktest.LoseReply, 0, zktest.OnOp("create")) // one reply is lost
//	gate := server.Block(zktest.OnPath("/jobs"))              // requests wait until gate.Open
//	server.ExpireSession(session.ID())                        // its ephemeral nodes are deleted
//	server.Stop()                                             // an outage, until Restart
//
//	cluster := zktest.NewCluster(t, 3)
//	cluster.Partition(cluster.Members()[0])                   // until Heal
//
// [WithProperties] sets the properties of a real server, by the same names.
//
// # Faults of requests
//
// A fault of a request applies to the requests that its matches select: [OnOp], [OnPath],
// [OnSession], or a function ([On]). Pings, handshakes and the other requests that clients send on
// their own are selected only if OnOp names them. [Server.Inject] injects a fault into one request:
//
//   - [FailBefore]: the server cuts the connection and does not apply the request. The client sees
//     a lost connection.
//   - [LoseReply]: the server applies the request and cuts the connection. The client sees a lost
//     connection and cannot distinguish it from FailBefore.
//   - [ExpireBefore] and [ExpireAfter]: the session expires before or after the request is applied.
//     The client sees a lost connection and, when it reconnects, an expired session.
//   - [LoseWakeup]: the server applies the request, and withholds the reply until the next request
//     of any client. The client sees a slow reply.
//
// These faults apply to every selected request until the test removes them:
//
//   - [Server.Block]: requests wait before they are applied, and later requests of their
//     connections wait behind them, until [Gate.Open]. The client sees a slow server, and may close
//     the connection.
//   - [Server.BlockReplies]: requests are applied. Their replies and all later output of the
//     connection wait until Gate.Open.
//   - [Server.Delay]: each request waits for a time before it is applied.
//   - [Server.Rewrite]: a function of the test replaces replies.
//
// # Faults of the network
//
//   - [Server.CutConnections] cuts all connections once. Clients reconnect with their sessions.
//   - [Server.RefuseConnections], [Server.RefuseSessions] and [Server.RefuseCredentials] refuse new
//     connections, handshakes or credentials until they are called with false.
//   - [Server.Freeze] drops all packets of some or all sessions until [Server.Thaw]. No connection
//     is closed, and the client sees silence. The server's clock runs, and sessions expire.
//   - [Listener.Freeze] and [Listener.Stop] freeze or stop one address ([Server.Listen]).
//   - [WithLatency] delays every reply for the life of the server.
//
// # Faults of the server
//
//   - [Server.ExpireSession] expires a session at once and cuts its connection. The client notices
//     when it reconnects.
//   - [Server.Stop] stops the process until [Server.Restart]. Data and sessions remain. Clients see
//     refused connections.
//   - [Server.Pause] suspends the process and its clock until [Server.Resume]. The client sees
//     silence.
//   - [Cluster.StopLeader] stops the leader's process. All members cut their connections, and
//     clients reconnect with their sessions after an election.
//   - [Cluster.Partition] disconnects members from each other until [Cluster.Heal]. Clients reach
//     all members. A member without a majority commits nothing, and serves old data until it
//     detects the partition.
//   - [Cluster.Lag] makes a member apply transactions late. Its clients see old data.
//
// [Server.ClearFaults] removes all faults of a server, and [Server.Faults] describes them.
// [Server.Trace] shows the requests of clients with their results.
//
// # Data
//
// A test can create, change and delete nodes without a client ([Server.Create], [Server.Set],
// [Server.Delete]), delete all nodes between two tests ([Server.Flush]), and save and load a tree
// ([Server.Dump], [Server.Load]). [Server.SetSequence] sets the number of the next sequential node,
// up to the overflow.
//
// # Addresses
//
// A server can have several addresses, with and without TLS, and each of them can be stopped
// separately ([Server.Listen]). Package control and the program zkserver offer these faults and
// controls to programs in other languages.
//
// # Time
//
// Besides TCP there is an in-memory network: use [WithInMemory], and let the client dial with
// [Server.Dial] or [Server.DialContext]. Server and client then work inside a testing/synctest
// bubble, where an hour of waiting takes no time. Elsewhere [Server.Advance] advances the server's
// clock.
//
// Every wait in a bubble needs a deadline. A server has timers, and so has a client that is
// connected or connecting. Therefore synctest does not report a deadlock if a test waits for an
// event that never happens: the bubble's clock advances forever.
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
// The section "What a cluster promises" lists the guarantees to clients. Every member supports all
// faults of a server.
//
// # Other servers
//
// [LikeKeeper] starts a server that differs from ZooKeeper as ClickHouse Keeper does.
// [Server.RefuseSessions] imitates a Keeper without a leader. [WithVersion] selects ZooKeeper 3.8.0
// or 3.9.6:
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
// Apart from the differences that this page lists, a server behaves as a real one of its version.
// Tests compare the two. The differences are:
//
//   - A server writes nothing to disk, and does not throttle requests.
//   - A client's reconfiguration fails as on a standalone ZooKeeper: as disabled, or as
//     unimplemented with the property reconfigEnabled. Only a test can change the members of a
//     cluster.
//   - The only mechanism of SASL is DIGEST-MD5, with [WithSASL]. X.509 authentication is refused.
//   - Only clients can have a chroot. A cluster has no observers, read-only members or weights.
//   - Quotas are counted, and enforced with the property enforceQuota. A soft quota that is
//     exceeded is not logged, and the root cannot have one.
//   - The four-letter words hash, lead, orst and stmk are refused. The latencies in stat, cons and
//     mntr are always 0. mntr prints only some rows of a real server. envi prints Go's version as
//     java.version, and no other property of Java. dirs counts no bytes.
//   - A null string in a request is an empty one, and digits of other scripts are not accepted in
//     the addresses of access lists.
//
// # What a cluster promises
//
// The members are servers, with all faults of a [Server]. [Server.Stop] and [Server.Restart] stop a
// member's process and start it again with its data and its log. [Server.Pause] and [Server.Resume]
// suspend and continue it. [Server.Freeze] blocks its clients. [Cluster.MemberOf] returns the
// member that serves a session. All random choices depend on [WithSeed].
//
// What it promises to a client, and what it cannot promise:
//
//   - A write is sent to the leader, wherever the client is connected. It is committed when a
//     majority of members has it in the log. Each member applies the log in order, and answers its
//     own clients when it has applied their writes.
//   - A member serves a read from the transactions that it has applied, which may be old: see
//     [WithLag] and [Cluster.Lag]. Sync waits for all transactions that were committed when the
//     leader received it.
//   - A member fires watches when it applies a transaction. A client sees the event of a
//     transaction before it sees any reply that shows it.
//   - A member refuses a client that has seen more than the member has applied.
//   - The leader tracks sessions. Every half tick it pings the followers, whose replies report the
//     clients that they have heard. It expires sessions at tick boundaries. If a session moves to
//     another member, its old connection can no longer write.
//   - When the leader is lost, its members cut all connections. They serve no client until a
//     majority of members reach each other and have elected a leader: the member of the newest
//     epoch, and among these the one with the longest log. Transactions that are not in its log are
//     lost, and their clients have received no reply. The timeouts of all sessions start again.
//   - [Cluster.Add] and [Cluster.Remove] change the members one at a time. A transaction is
//     committed when a majority of the committed configuration has it. A reconfiguration needs a
//     majority of the old and of the new configuration. A leader is elected by a majority of the
//     committed configuration, and of the configuration in the log that it takes over. A new member
//     has everything that was committed before, and follows, before it is proposed as a voter. The
//     data of a removed member are deleted.
//   - The others close their links to a paused or partitioned member after the time of
//     [WithSyncTimeout]. Until the member itself detects that, it serves old data to its clients,
//     but commits nothing.
//   - A leader checks its followers once per tick. For up to a tick after they have elected another
//     leader, it answers pings, reads, syncs and resumed sessions without asking another member.
//     Only the reply to a write proves that a majority follows.
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
//   - A Keeper cuts the connection on an operation that it does not know. Only old Keepers do not
//     know reconfig. No Keeper knows getEphemerals, getAllChildrenNumber, whoAmI and SASL.
//   - A Keeper never resumes a session. A client that requests one receives a new session with
//     another id. The old session expires after its timeout, and then its ephemeral nodes are
//     deleted.
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
//     createTTL. If a flag is off, the Keeper does not know the operation. Here all flags of the
//     age are on, except the one for createTTL, which is on with the property extendedTypesEnabled.
//
// The operations from 500 on, /keeper/availability_zone and /keeper/max_request_size are missing
// here. The properties minSessionTimeout and maxSessionTimeout limit the session timeouts; a Keeper
// grants 10 s to 100 s by default.
//
// [Server.RefuseSessions] imitates a Keeper without a leader. [Server.Stop] imitates the crash of a
// Keeper. A Keeper that shuts down gracefully expires the sessions of its clients first: see
// [Server.ExpireSession].
package zktest
