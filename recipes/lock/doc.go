// Package lock is the queue under all lock recipes, and what a recipe of your own builds on: a [Queue] with a
// [Driver] that decides who holds. It is Curator's LockInternals and LockInternalsDriver.
//
// # The protocol
//
// It is the lock recipe of the ZooKeeper documentation, with the names of Curator:
//
//  1. create <base>/_c_<uuid>-<name><sequence>, ephemeral and sequential;
//  2. look at the children of base, in the driver's order;
//  3. ask the driver: do we hold? If not, whose deletion could change that?
//  4. wait until one of those is deleted, and go to 2;
//  5. release by deleting our node; if the process crashes the servers delete it, since it is ephemeral.
//
// Step 2 is a list request, or no request at all. docs/PROTOCOL.md has the rule, its proof and pictures. Other clients
// on the path, also Java's Curator, see the same nodes in all cases.
//
// # What a holder gets
//
// A [Hold]: a context that ends when the lock may no longer be ours, a fencing token, and
// a guard that makes a write to ZooKeeper succeed only while the lock's node exists.
//
//	hold, err := queue.Acquire(ctx) // waits; ctx ends the waiting
//	if err != nil { ... }
//	defer hold.Release() // needs no context
//	work(hold.Context())
//
// # What it promises
//
//   - At most as many holds as there are leases have a live context.
//   - After an error we remove our node, also if the server carries out our create request only after we have
//     given up.
//   - A holder is notified of a loss before anyone else can hold.
//
// # What it cannot promise
//
// A process that was stopped for a while does not know how late it is. What must never happen twice needs a
// check at the place where it happens: [Hold.Guard] in ZooKeeper, [Hold.FencingToken] anywhere else.
//
// Nor is a holder warned if somebody else deletes its node, or ends its session by force: its context ends when the servers report that.
package lock
