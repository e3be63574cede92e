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
// # Errors of Acquire
//
// When the context is done, the error of [Queue.Acquire] wraps the context's error and
//   - zk.ErrNoServer, if no server could be reached;
//   - otherwise [ErrNotAcquired], if another contender was ahead in the queue;
//   - or [framework.ErrSessionLost], if the servers answer too slowly for a hold.
//
// Other errors are
//   - retry.ErrExhausted, when the retry policy allows no more retries: about 90 s after the outage
//     began by default, or after the session of a waiter was lost in it. To wait longer, give the
//     client [framework.WithRetryPolicy] with retry.Forever;
//   - [framework.ErrSessionLost] or [ErrNodeDeleted], after the last time that it queued again;
//   - the cause of the loss, if the lease was lost while an observer was notified of it;
//   - zk.ErrNoAuth, even if the contender only lacks the permission to read its own node or the one
//     that it waits for, since servers do not report the end of such a node;
//   - [ErrHeld], inside a hold of the same lock;
//   - [framework.ErrClosed], [ErrSequenceExhausted], [framework.ErrBadArgument], and ZooKeeper's
//     errors.
//
// If the session is lost while Acquire waits, or another client deletes its node, it queues again
// at the end, as often as the retry policy allows.
//
// # Inside Do
//
// f's context derives from the context that Do is called with: it has its deadline, its
// cancellation and its values. The end of the hold cancels it as well, before another client can
// acquire and before Release returns. The first cause counts:
//
//	first                    Err()                      context.Cause
//	the caller's deadline    context.DeadlineExceeded   the caller's cause
//	the caller's cancel      context.Canceled           the caller's cause
//	the end of the hold      context.Canceled           the loss, or ErrReleased
//	the return of f          context.Canceled           ErrReleased
//
// If the context that Do is called with is done already, f is called with a context that is done.
// A value of Do's context hides one of Acquire's, and one that an observer has added to the context
// of both hides both.
//
// # Acquire inside a hold
//
// A caller whose context derives from a hold of the same lock would wait for itself. So Acquire and
// TryAcquire return [ErrHeld] at once, without a request: with [Hold.Context], with the context
// inside Do, and with every context that derives from these. Goroutines that are started inside a
// hold do not enter together.
//
// Two objects are the same lock if they have the same node names, at the same path of the same
// client or of a view of it. A hold that was released or lost does not count. There is one
// exception, while its node still exists: after [framework.ErrSuspended], until Release, Acquire
// returns the cause.
//
// With [WithReentry] the same object returns another hold of the same lease, and the cause if the
// lease has ended. The lease is released when all its holds are released. Acquire of a lock with
// several leases acquires another lease.
//
// Acquire does not recognize a caller that holds the lock and uses a context from outside of the
// hold. That caller waits for itself until the context is done. For work that is started inside a
// hold and outlives it, see [Outside]. With a driver that grants several nodes one lease, such as a
// reader's, ErrHeld may refuse what would not have waited.
//
// # Results of Release
//
// [Hold.Release] ends the hold's context, with [ErrReleased]. The release of the last hold then
// deletes the node. It returns
//   - nil, when the server has confirmed the deletion;
//   - [framework.ErrSessionLost] or [framework.ErrClosed], when the session is over, which deletes
//     the node too. As the cause of a context, ErrClosed does not say that: [framework.ErrShutdown]
//     wraps it, and the node exists until Release;
//   - the cause of the loss, if the lease was lost before;
//   - [ErrReleased] at a second call, which tries again if the node could not be deleted;
//   - ZooKeeper's errors, such as zk.ErrNoAuth.
//
// After [framework.ErrSuspended] there is one exception: Release returns nil if it has deleted the
// node, since then no other client has held in between. If the answer was lost, that is not
// certain, and Release returns framework.ErrSuspended. After [framework.ErrSessionLost] the client
// deletes the node in the background, if the servers have not done so yet.
//
// While no server can be reached, Release waits until the session counts as lost, for up to its
// timeout. Closing the client ends the wait.
//
// The transaction of [Hold.ReleaseWith] is sent once, after the context has ended, and not
// repeated. Its errors are
//   - zk.ErrNoNode, if the lease's node does not exist: nothing is written;
//   - [framework.ErrBadArgument], if the lease has several holds by re-entry: nothing has changed;
//   - the error of Multi or the cause of a loss: retry.Unknown says whether the operations may have
//     been carried out.
//
// # What it promises
//
//   - At most as many holds as there are leases have a live context.
//   - A holder is notified of a loss before another client can hold.
//   - If an acquire fails, its node is removed, even if the server carries out the create request
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
// # Observers
//
// The functions of an [Observer] are called on the goroutine that does the work, which waits for
// them, and on many goroutines at a time: they must be quick and safe for concurrent use. They may
// call the client, but locks that they acquire are observed as well. [framework.Client.Close] may
// wait for them, so they must not call it. A panic is not caught. If the caller of a lock recovers
// from one, no lock is held, and no node of a lock remains.
//
// Each function gets the context of its acquire or hold, with its values. It may be done.
//
// # Drivers
//
// A [Driver] must be safe for concurrent use, and must decide in the same way in all processes that
// use a path. Its functions run on the goroutine that called Acquire. SortKey also runs on a
// goroutine of the client, where a panic is logged and ends nothing but a watch.
//
// Acquire returns [framework.ErrBadArgument] if a driver does not count its own node, names a node
// that is not in the queue, or creates a node that is not an ephemeral one of its client's session.
// That node is deleted, unless another session owns it. A protected create needs no check; for any
// other create Acquire sends one more request.
//
// A node that has a lease must have it for as long as it exists, whatever nodes are created later:
// a holder is not asked again. So no new node may be sorted before one that holds, as a key that
// begins with a priority does: both would hold.
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
