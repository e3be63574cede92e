// Package zktest is a ZooKeeper server, or an ensemble of them, in the process of a test or a demo. It keeps
// everything in memory and speaks the real wire protocol, so go-zookeeper and the Java client use it unchanged.
// It is the counterpart of curator-test's TestingServer, and its [Cluster] of TestingCluster.
//
//	server := zktest.NewServer(t) // closed when the test ends
//	conn, _, err := zk.Connect([]string{server.Addr()}, 10*time.Second)
//
// # Faults and controls
//
// A test makes it fail as real servers do: it ends a session ([Server.ExpireSession]), fails the nth request
// before or after it is applied ([Server.Inject]), delays a request ([Server.Block]), freezes the network
// ([Server.Freeze]), stops and restarts the server ([Server.Stop], [Server.Restart]), or overflows the sequence
// numbers ([Server.SetSequence]). [Server.ClearFaults] ends all faults.
//
// # Data
//
// A test creates, changes and deletes nodes itself ([Server.Create], [Server.Set], [Server.Delete]), empties
// the server between two tests ([Server.Flush]), and saves and loads a tree ([Server.Dump], [Server.Load]).
//
// # Addresses
//
// A server can have several addresses, also with TLS, and each of them can be stopped by itself
// ([Server.Listen]). Package control and the program zkserver offer all this to services in other languages.
//
// # Time
//
// Besides TCP it has an in-memory network: use [WithInMemory], and let the client dial with [Server.Dial] or
// [Server.DialContext]. Then it works inside a testing/synctest bubble, where an hour of waiting takes no time.
// Elsewhere [Server.Advance] advances the server's clock.
//
// Give every wait in a bubble a deadline. A server has timers, and so has a client that is connected or tries to connect.
// So a test that waits for something that never comes is not a deadlock for synctest: its time goes on for ever.
//
// # A cluster
//
// [NewCluster] starts several servers that behave as an ensemble does towards its clients, over TCP or in
// memory:
//
//	cluster := zktest.NewCluster(t, 3)
//	client, err := framework.New(cluster.Servers())
//	...
//	cluster.StopLeader() // does my service survive that?
//
// What a client may rely on, and what it may not:
//
//   - A write goes to the leader, wherever the client is connected. It is committed when a majority of
//     members has it in the log. Each member applies the log in order, and answers its own clients when it has
//     applied what they wrote.
//   - A read is served from what the member has applied, which may be old: see [WithLag] and [Cluster.Lag].
//     Sync waits for what was committed when the leader heard of it.
//   - A member fires watches when it applies a transaction. A client sees the event of a transaction before it sees
//     any reply that shows it.
//   - A member refuses a client that has seen more than the member has applied.
//   - The leader counts sessions. It knows of followers' clients what followers report every half tick, and ends
//     sessions at the end of a tick. A session may move to another member; then its old connection cannot write.
//   - When the leader is lost, its members cut all connections and serve nobody until a majority of members
//     reach each other and have elected the one that was part of the newest epoch, and among those the one with the longest log.
//     Transactions that are not in its log are lost; their clients got no answer. Sessions get their whole time again.
//   - [Cluster.Add] and [Cluster.Remove] change the members one at a time. A transaction is committed when a majority of the committed
//     configuration has it, and a reconfiguration when a majority of the old and of the new configuration has. A leader is elected by a
//     majority of the committed configuration, and of that in the log which it takes over. A member that joins has what was committed
//     before, and follows, before it is proposed as a voter. The data of one that was removed are gone.
//   - A member that is paused or partitioned is given up after the time of [WithSyncTimeout]. Until it notices itself, it
//     serves its clients with old data, but commits nothing.
//   - A leader looks for its followers once per tick. For up to a tick after they have elected another one, it answers
//     pings, reads, syncs, and sessions that come back, without asking anybody. Only the answer to a write proves that
//     a majority follows.
//
// The members have all faults of a server: [Server.Stop] and [Server.Restart] (data and log are kept),
// [Server.Pause] and [Server.Resume], [Server.Freeze], [Server.Inject] and so on. [Cluster.Partition] and
// [Cluster.Heal] change which members reach each other, and [Cluster.MemberOf] says which one serves a session. All random choices come from [WithSeed].
//
// # Versions
//
// A server is like ZooKeeper 3.9.6, or with [WithVersion] like 3.8.0:
//
//	what a client sees                                3.8.0                       3.9.6
//	zxid in the header of an event                    -1                          of the transaction; -1 after setWatches
//	several watches on one path of a connection       the later one replaces      all are kept
//	list of children below a recursive watch          no event                    event of a watch of its own
//	removeWatches, checkWatches of kinds 4 and 5      marshalling error (-5)      persistent, recursive watches
//	the same of kinds 1 and 2                         whatever mode               only watches that fire once
//	exists of a node that the client may not read     stat                        no auth (-102)
//	setWatches for a change of such a node            event                       nothing, and no watch
//	multi: create with a bad mode                     fails in its part           marshalling error
//	multi: create with the mode of a TTL node         the same when its turn comes  the same, whatever is before
//	multi: create with null for its access list       fails in its part           marshalling error without a zxid
//	multi: create2, createContainer                   made by the mode            made by the operation; answer with stat
//	a transaction that cannot be read                 uses up a zxid              does not, but for multi
//	access list with an IPv6 address                  invalid (-114)              allowed
//	deleteContainer                                   bad arguments (-8)          the connection is cut
//
// A real leader of 3.9.6 that gets the multi with null, or cannot read a transaction, gives it the number of the one before, and
// the ensemble does not go on from there. A [Cluster] does.
//
// # Other servers
//
// [LikeKeeper] makes a server that differs from ZooKeeper as ClickHouse Keeper does, and
// [WithUnknownOps] an old one. [Server.RefuseSessions] is a Keeper without a leader, and
// [Server.Tamper] a server whose answers are wrong.
//
// # What it is not
//
// Reconfiguration by a client is answered as by a standalone ZooKeeper: as disabled, or as unimplemented with
// [WithReconfig]. Only a test changes the members of a cluster. Of SASL there is DIGEST-MD5 only, with [WithSASL]. X.509 authentication is refused, and only clients can
// have a chroot. Nothing is
// written to disk, nothing is throttled, and the number of connections has no limit. Otherwise it does what
// the real one of its version does, and a test compares the two. A cluster has no observers, read-only members or weights.
// These differ, too:
//
//   - Quotas are counted, and enforced with [WithEnforcedQuotas]. A soft quota that is exceeded
//     is not logged, and the root cannot have one.
//   - There is a super user only with [WithSuperDigest].
//   - Of the four-letter words hash, lead, orst and stmk are refused. The latencies in
//     stat, cons and mntr are always 0, mntr has a part of a real server's rows, envi has
//     Go's version as java.version and nothing else of Java, and dirs counts no bytes.
package zktest
