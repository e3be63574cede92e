// Package zktest is a ZooKeeper server, or an ensemble of them, in the process of a test or a demo. It keeps everything
// in memory and speaks the real wire protocol, so go-zookeeper and the Java client use it
// unchanged. It is to Go what curator-test's TestingServer is to Java, and its
// [Cluster] what TestingCluster is.
//
//	server := zktest.NewServer(t) // closed when the test ends
//	conn, _, err := zk.Connect([]string{server.Addr()}, 10*time.Second)
//
// # Handles
//
// It does on demand what a real server does when it is least convenient: expire a session
// ([Server.ExpireSession]), fail the nth request before or after it is applied
// ([Server.Inject]), hold a request up ([Server.Block]), freeze the network
// ([Server.Freeze]), stop and come back ([Server.Stop], [Server.Restart]), reach the end
// of the sequence numbers ([Server.SetSequence]). [Server.ClearFaults] ends all that.
//
// # Data
//
// A test makes, sets and deletes nodes itself ([Server.Create], [Server.Set], [Server.Delete]),
// empties the server between two tests ([Server.Flush]), and keeps a tree for later
// ([Server.Dump], [Server.Load]).
//
// # Addresses
//
// A server has as many addresses as a client needs, with TLS where asked for, and each of them can be
// taken off the network ([Server.Listen]). Package control and the program zkserver give all
// this to services in other languages.
//
// # Time
//
// Beside TCP it has an in-memory network: make the server with [WithInMemory] and have the
// client dial with [Server.Dial] or [Server.DialContext]. Then it works inside a
// testing/synctest bubble, where an hour of waiting takes no time. Elsewhere [Server.Advance] moves the
// server's clock on.
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
//     reach each other and have elected the one with the longest log. Transactions that are in no log of these
//     are lost; their clients got no answer. Sessions get their whole time again.
//   - A member that is paused or partitioned is given up after the time of [WithSyncTimeout]. Until it notices itself, it
//     serves its clients with old data, but commits nothing.
//
// The members have all handles of a server: [Server.Stop] and [Server.Restart] (data and log are kept),
// [Server.Pause] and [Server.Resume], [Server.Freeze], [Server.Inject] and so on. [Cluster.Partition] and
// [Cluster.Heal] change which members reach each other. All random choices come from [WithSeed].
//
// # Other servers
//
// [LikeKeeper] makes a server that differs from ZooKeeper as ClickHouse Keeper does, and
// [WithUnknownOps] an old one. [Server.RefuseSessions] is a Keeper without a leader, and
// [Server.Tamper] a server whose answers are wrong.
//
// # What it is not
//
// Reconfiguration is answered as a lone ZooKeeper answers it: as disabled, or as unimplemented with
// [WithReconfig]. SASL and X.509 authentication are refused, and there are no chroots but those
// that clients make by themselves. Nothing is written to a disk, nothing is throttled, and the number
// of connections has no limit. For the rest it does what ZooKeeper 3.8 does, and a test compares
// the two. A cluster has no observers, read-only members or weights. These differ, too:
//
//   - Quotas are counted, and enforced with [WithEnforcedQuotas]. A soft quota that is exceeded
//     is not logged, and the root cannot have one.
//   - There is a super user only with [WithSuperDigest].
//   - Of the four-letter words gtmk, hash, lead, orst and stmk are refused. The latencies in
//     stat, cons and mntr are always 0, mntr has a part of a real server's rows, envi has
//     nothing of Java, and dirs counts no bytes.
package zktest
