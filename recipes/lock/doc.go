// Package lock is the queue under all lock recipes, and the base of custom lock recipes: a [Queue]
// with a [Driver] that decides who holds. It is Curator's LockInternals and LockInternalsDriver.
//
//	queue, err := lock.New(client, "/jobs/nightly", "job-", nil)
//	if err != nil { ... }
//	err = queue.Do(ctx, func(ctx context.Context) error { // waits; ctx ends the waiting
//		return work(ctx) // ctx is cancelled before another client can hold
//	})
//
// [Queue.Acquire] returns a [Hold] instead, which [Hold.Do] or [Hold.Release] ends. A hold has a
// context that ends when the lock may be lost, a fencing token, and a guard that makes a write to
// ZooKeeper succeed only while the lock's node exists. All lock recipes accept options such as
// [WithMaxHold], [WithRetention] and [WithLockDelay].
//
// A lock is not re-entrant: Acquire with the context of a hold of the same lock returns [ErrHeld].
// [WithReentry] makes it re-enter. For work that outlives the hold, see [Outside].
//
// # What it promises
//
//   - At most as many holds as there are leases have a live context.
//   - A holder is notified of a loss before another client can hold.
//   - If an acquire fails, its node is deleted, even if the server carries out the create request
//     only afterwards, and even if a function of the user panics: the driver, an ACL provider, a
//     retry policy or an observer.
//   - A release needs no context, so a cancelled caller cannot leave the lock behind.
//
// # What it cannot promise
//
// A suspended process cannot know that it has lost the lock. If something must never happen twice,
// check the lock where it happens: [Hold.Guard] in ZooKeeper, [Hold.FencingToken] anywhere else.
//
// Locks of different kinds at one path, such as a mutex and a read/write lock, do not exclude each
// other. If an acquire finds nodes of another kind of Curator's or kazoo's, the log says so, once
// for each path and client.
//
// A holder is not warned if another client deletes its node, or expires its session by force: its
// context ends when the servers report that, perhaps shortly after the next holder has acquired.
//
// Servers must answer a write within about an eighth of the session timeout. If they are slower,
// holds are lost although the servers are well, and no lock is acquired: the log says so, and
// [Queue.Acquire] returns the reason.
//
// # On the wire
//
// The protocol is the lock recipe of the ZooKeeper documentation, with the names of Curator:
//
//  1. create <base>/_c_<uuid>-<name><sequence>, ephemeral and sequential;
//  2. look at the children of base, in the driver's order;
//  3. ask the driver whether the node holds and, if not, whose deletion could change that;
//  4. wait until one of those is deleted, and continue with 2;
//  5. release by deleting the node; after a crash the servers delete it, since it is ephemeral.
//
// # How it works
//
// Step 2 is a list request, or no request at all: [PROTOCOL] has the rule, its proof and pictures.
// Other clients on the path, Java's Curator included, see the same nodes in all cases. With
// [WithRetention] steps 1 and 5 are skipped while the Queue is alone.
//
// [PROTOCOL]: https://github.com/gocurator/curator/blob/main/docs/PROTOCOL.md
package lock
