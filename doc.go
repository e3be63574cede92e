// Package curator is the root of a module that brings Apache Curator to Go: a ZooKeeper client, and locks, leader
// election, caches and registrations on top of it. It has no code of its own. Begin with one of these:
//
//   - [github.com/gocurator/curator/framework] is the client: sessions, operations with context and retry, watches.
//   - [github.com/gocurator/curator/recipes/mutex], [github.com/gocurator/curator/recipes/rwlock],
//     [github.com/gocurator/curator/recipes/semaphore], [github.com/gocurator/curator/recipes/multilock] and
//     [github.com/gocurator/curator/recipes/revocable] are locks.
//   - [github.com/gocurator/curator/recipes/lock] is the queue under the locks, for recipes of your own.
//   - [github.com/gocurator/curator/recipes/leader] elects a leader.
//   - [github.com/gocurator/curator/recipes/cache] keeps a copy of a node, its children or a tree.
//   - [github.com/gocurator/curator/recipes/node] keeps a node there, and knows the members of a group.
//   - [github.com/gocurator/curator/discovery] registers services and finds them.
//   - [github.com/gocurator/curator/admin] is what operators and their tools ask an ensemble.
//   - [github.com/gocurator/curator/compressed] has nodes whose data are compressed.
//   - [github.com/gocurator/curator/zkconn] has go-zookeeper's API, for programs that migrate by one import.
//   - [github.com/gocurator/curator/recipes/shared] is a number, bytes or JSON that all processes share.
//   - [github.com/gocurator/curator/recipes/barrier] makes processes wait for each other.
//   - [github.com/gocurator/curator/zktest] is a ZooKeeper server in the process of a test.
//
// Java's Curator and this module use the same nodes, so processes of both can share a path. The README has a first
// program. docs/PORTING.md has every class of Curator beside its counterpart here, or what to do where there is none.
package curator
