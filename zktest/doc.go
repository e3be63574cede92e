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
//	cluster.StopLeader()                                      // clients use another member
//	cluster.Partition(cluster.Members()[0])                   // until Heal
//
// [WithProperties] sets the properties of a real server, by the same names. [WithVersion] selects
// ZooKeeper 3.8.0 or 3.9.6, and [LikeKeeper] imitates a ClickHouse Keeper. A [Cluster] has the
// guarantees of an ensemble, and every member supports all faults of a server.
//
// # Faults of requests
//
// A fault applies to the requests that its matches select: [OnOp], [OnPath], [OnSession], or a
// function ([On]). [Server.Inject] injects a [Fault] into one request, such as a lost reply.
// [Server.Block], [Server.BlockReplies], [Server.Delay] and [Server.Rewrite] apply to every
// selected request until the test removes them.
//
// # Faults of the network
//
// [Server.CutConnections] cuts all connections once. [Server.RefuseConnections],
// [Server.RefuseSessions] and [Server.RefuseCredentials] refuse new clients. [Server.Freeze] holds
// back all packets without closing a connection: the client sees silence, and its session expires.
// [Listener.Freeze] and [Listener.Stop] freeze or stop one address of several ([Server.Listen]).
// [WithLatency] delays every reply.
//
// # Faults of the server
//
// [Server.ExpireSession] expires a session at once. [Server.Stop] stops the process until
// [Server.Restart], and [Server.Pause] suspends it until [Server.Resume]. [Cluster.StopLeader]
// stops the leader, [Cluster.Partition] disconnects members from each other, and [Cluster.Lag]
// makes a member serve old data.
//
// [Server.ClearFaults] removes all faults of a server, and [Server.Faults] describes them.
// [Server.Trace] shows the requests of clients with their results, and [WithTimeline] draws them.
// Package control and the program zkserver offer the faults to programs in other languages.
//
// # Data
//
// A test can create, change and delete nodes without a client ([Server.Create], [Server.Set],
// [Server.Delete]), delete all nodes between two tests ([Server.Flush]), and save and load a tree
// ([Server.Dump], [Server.Load]). [Server.SetSequence] sets the number of the next sequential node,
// up to the overflow.
//
// # Time
//
// With [WithInMemory], server and client work inside a testing/synctest bubble, where an hour of
// waiting takes no time. Elsewhere [Server.Advance] advances the server's clock.
//
// # Limits
//
// A server behaves like a real server of its version, and tests compare the two. The differences
// are:
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
package zktest
