// Package cluster decides which transactions a server applies, in which order, and which sessions
// live. It has no connections and no encoding of requests, so its tests need neither.
//
// # Floors
//
// zktest stands on four packages. Each imports only those above it in this list.
//
//   - internal/tree: the data. A pure state machine, without a lock and without a clock.
//   - internal/cluster: this package. A [Replica] is a tree with its sessions. A [Quorum] decides
//     what the replica applies: [Alone] for a server without a cluster, [Member] for a member of a
//     [Cluster], with terms, elections and reconfigurations.
//   - internal/wire: the clients of one server. Connections, requests, watches, four-letter words.
//     A wire.Server is the [Host] of a replica.
//   - zktest: the face. Start and stop, faults, inspection, virtual time. The faults are the hooks
//     that wire asks before and after it applies a request.
//
// # One lock
//
// A [Monitor] guards all of this state. A standalone server has its own, and the members of a
// cluster share one, so that a test can stop, disconnect and elect members at one instant.
// [NewAlone] and [New] create it, and every floor above embeds it. Two rules apply:
//
//   - No function of a test runs and no goroutine waits while the lock is held. Everything that the
//     server sends is an [Output], which is queued under the lock and delivered in order by
//     [Monitor.Release]. A trace or a rewrite runs there, without the lock.
//   - The locks of a queue and of an address are acquired after the monitor, never before.
//
// The lock must be held for all functions whose comments do not state otherwise.
package cluster
