// Package ensemble runs real ZooKeeper servers in Docker, for tests: through
// ory/dockertest, with the faults that real ensembles have. It is to Go what curator-test's
// TestingCluster is to Java.
//
//	e := ensemble.Start(t) // three servers with a quorum, gone when the test ends
//	conn, _, err := zk.Connect(e.Servers(), 10*time.Second)
//
// # How it is built
//
// Each server is a container on two networks: one for its peers, one for clients. Clients reach
// it through a proxy in this process, whose port is the same for the ensemble's life, also when a
// server is killed and comes back. So a link between clients and a server can be frozen
// without closing a connection, and a server can be cut off from its peers while clients still
// reach it.
//
// # Images
//
// ZOOKEEPER_IMAGE names the image, default zookeeper:3.9, which is pulled if it is not there.
// Where nothing can be pulled, scripts/zookeeper-image.sh in this repository builds
// curator-zookeeper:debian, which is used then.
//
// # Without Docker
//
// [Start] skips the test, and says why, unless CURATOR_TEST_DOCKER=1 promises that there is an engine: then it
// fails.
//
// # From other modules
//
// This package is in a module of its own, which needs a Docker client. Tests of a module that shall not need one
// can run below cmd/zkensemble, which starts ensembles at their request.
package ensemble
