// Package ensemble runs real ZooKeeper servers in Docker for tests, with ory/dockertest, and causes
// the faults of real ensembles. It is the counterpart of curator-test's TestingCluster.
//
//	e := ensemble.New(t) // three servers with a quorum, removed when the test completes
//	conn, _, err := zk.Connect(e.Servers(), 10*time.Second)
//
// # How it is built
//
// Each server is a container on two networks, one for its peers and one for clients. Clients
// connect through a proxy in this process, whose port remains when a server is killed and started
// again. So a test can freeze the link between clients and a server without closing a connection,
// and disconnect a server from its peers while clients still reach it.
//
// # Images
//
// ZOOKEEPER_IMAGE names the image. The default is zookeeper:3.9, which is pulled if it is missing.
// If it cannot be pulled, curator-zookeeper:debian is used, which scripts/zookeeper-image.sh in
// this repository builds.
//
// # Without Docker
//
// [New] skips the test and logs the reason. With CURATOR_TEST_DOCKER=1 the test fails instead.
//
// # From other modules
//
// This package is a separate module, which depends on a Docker client. To avoid that dependency in
// another module, run its tests with cmd/zkensemble, which starts ensembles for them.
package ensemble
