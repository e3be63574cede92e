// Package zktest is a ZooKeeper server, or an ensemble of them, in the process of a test or a demo. It keeps
// everything in memory and speaks the real wire protocol, so go-zookeeper and the Java client use it unchanged.
// It is the counterpart of curator-test's TestingServer, and its [Cluster] of TestingCluster.
//
//	server := zktest.NewServer(t)                                // closed when the test ends
//	client, err := framework.New(server.Servers())               // with this library
//	conn, _, err := zk.Connect(server.Servers(), 10*time.Second) // with go-zookeeper
//
// # Faults and controls
//
// A test makes it fail as real servers do: it ends a session ([Server.ExpireSession]), fails the nth request
// before or after it is applied ([Server.Inject]), delays requests ([Server.Delay]), or has them wait until the test
// lets them go on ([Server.Block]), cuts connections ([Server.CutConnections]), freezes the network ([Server.Freeze]),
// stops and restarts the server ([Server.Stop], [Server.Restart]), or overflows the sequence numbers
// ([Server.SetSequence]). [Server.ClearFaults] ends all faults. [Server.Trace] shows what clients ask and get.
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
// Each of them has all faults of a server, and [Cluster.Partition] and [Cluster.Heal] change which of them reach each other. [Cluster] says
// what a client may rely on and what it may not.
//
// # Other servers
//
// A server is like ZooKeeper 3.9.6, or with [WithVersion] like 3.8.0: [Version] has the differences.
// [LikeKeeper] makes a server that differs from ZooKeeper as ClickHouse Keeper does, and
// [WithUnknownOps] an old one. [Server.RefuseSessions] is a Keeper without a leader, and
// [Server.Rewrite] a server whose answers are wrong.
//
// # What it is not
//
// Nothing is written to disk, nothing is throttled, and the number of connections has no limit. Reconfiguration by a client is answered as
// by a standalone ZooKeeper: as disabled, or as unimplemented with [WithReconfig]; only a test changes the members of a cluster. Of SASL
// there is DIGEST-MD5 only, with [WithSASL]. X.509 authentication is refused, and only clients can have a chroot. A cluster has no
// observers, read-only members or weights. Otherwise it does what the real one of its version does, and a test compares the two.
// These differ, too:
//
//   - Quotas are counted, and enforced with [WithEnforcedQuotas]. A soft quota that is exceeded
//     is not logged, and the root cannot have one.
//   - There is a super user only with [WithSuperDigest].
//   - Of the four-letter words hash, lead, orst and stmk are refused. The latencies in
//     stat, cons and mntr are always 0, mntr has a part of a real server's rows, envi has
//     Go's version as java.version and nothing else of Java, and dirs counts no bytes.
package zktest
