// Package curator is the root of Apache Curator for Go: a ZooKeeper client, and locks, leader
// election, caches, service discovery and other recipes on the same nodes as Java's Curator. It
// has no code.
//
//   - [github.com/gocurator/curator/framework] is the client: sessions, operations with contexts
//     and retries, watches. Below it, [github.com/gocurator/curator/framework/admin] administers
//     an ensemble and [github.com/gocurator/curator/framework/compressed] reads and writes
//     compressed data.
//   - [github.com/gocurator/curator/recipes/mutex], [github.com/gocurator/curator/recipes/rwlock],
//     [github.com/gocurator/curator/recipes/semaphore],
//     [github.com/gocurator/curator/recipes/multilock] and
//     [github.com/gocurator/curator/recipes/revocable] are locks.
//   - [github.com/gocurator/curator/recipes/lock] is the queue under all locks, for other locks.
//   - [github.com/gocurator/curator/recipes/leader] elects a leader.
//   - [github.com/gocurator/curator/recipes/cache] keeps a local copy of a node or a tree.
//   - [github.com/gocurator/curator/recipes/node] recreates a node when it is lost, and lists the
//     members of a group.
//   - [github.com/gocurator/curator/recipes/shared] provides a number, bytes or JSON that all
//     processes share.
//   - [github.com/gocurator/curator/recipes/modeled] stores values of a Go type.
//   - [github.com/gocurator/curator/recipes/shard] divides shards among the members of a group.
//   - [github.com/gocurator/curator/recipes/once] runs a job once per firing.
//   - [github.com/gocurator/curator/recipes/barrier] lets processes wait for each other.
//   - [github.com/gocurator/curator/discovery] registers and finds services.
//   - [github.com/gocurator/curator/zkconn] is go-zookeeper's API on this client.
//   - [github.com/gocurator/curator/zktest] is a ZooKeeper server in the process of a test.
//
// The README has a first program. [FROM-JAVA] lists every class of Curator beside its
// counterpart. This module is not affiliated with the Apache Software Foundation.
//
// [FROM-JAVA]: https://github.com/gocurator/curator/blob/main/docs/FROM-JAVA.md
package curator
