// Package zktest is a ZooKeeper server in the process of a test or a demo. It keeps everything
// in memory and speaks the real wire protocol, so go-zookeeper and the Java client use it
// unchanged. It is to Go what curator-test's TestingServer is to Java.
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
// of the sequence numbers ([Server.SetSequence]).
//
// # Time
//
// Beside TCP it has an in-memory network: make the server with [WithInMemory] and have the
// client dial with [Server.Dial] or [Server.DialContext]. Then it works inside a
// testing/synctest bubble, where an hour of waiting takes no time.
//
// # What it is not
//
// It is one server, not an ensemble: it never serves a stale read, and has no leader to lose.
// It has no super user, quotas, SASL, chroot or reconfiguration; requests for those
// are answered as unimplemented or disabled. For the rest it does what ZooKeeper 3.8 does,
// and a test compares the two.
package zktest
