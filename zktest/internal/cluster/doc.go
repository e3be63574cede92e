// Package cluster decides: which transactions a server applies, in which order, and which sessions
// live. It knows no connection and no request's encoding, so it is tested by itself.
//
// # Floors
//
// zktest stands on four packages. Each imports only those above it in this list.
//
//   - internal/tree: the data. A pure state machine, without a lock and without a clock.
//   - internal/cluster: this package. A [Replica] is a tree with its sessions. A [Quorum] decides
//     what the replica applies: [Alone] for a server of its own, [Member] for a member of a
//     [Cluster], with terms, elections and reconfigurations.
//   - internal/wire: the clients of one server. Connections, requests, watches, four-letter words.
//     A wire.Server is the [Host] of a replica.
//   - zktest: the face. Start and stop, faults, inspection, virtual time. The faults are the hooks
//     that wire asks before and after it applies a request.
//
// # One lock
//
// A [Monitor] guards all of that. A server of its own has one, and the members of a cluster share
// one, so that a test can stop, cut and elect at one instant. [NewAlone] and [New] create it, and
// every floor above embeds it. Two rules keep it simple:
//
//   - No function of a test runs and nothing is waited for while the lock is held. Whatever leaves
//     the server is an [Output]: it is put out under the lock and delivered in order by
//     [Monitor.Release]. A trace or a rewrite runs there, without the lock.
//   - The locks of a queue and of an address are taken after it, never before.
//
// Functions whose comment says nothing else require that the lock is held.
package cluster
