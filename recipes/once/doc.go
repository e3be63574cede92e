// Package once runs a job once per firing. A key names the firing, such as a date, a build or the
// id of a message. For each key of a path, a function succeeds once in a fleet of processes.
//
//	job, err := once.New(client, "/billing/invoices")
//	...
//	done, err := job.Do(ctx, "2026-11-28", func(ctx context.Context) error { return send(ctx) })
//
// A lock lets one process run at a time. Three machines can still run a short cron job one after
// the other. Curator has no counterpart; in Java, ShedLock and Quartz's clustering are used for
// this.
//
// Success means that the function has returned nil while its context was live. It is recorded in
// the transaction that deletes the lock's node. So a process that dies, or loses the lock, leaves
// no record, and the next process runs the function again. The outcome of the transaction is
// unknown if no server can be reached, or if its session ends and the record does not show it:
// retry.Unknown then reports true for the error.
//
// # On the wire
//
//	<path>/_c_<uuid>-lock-<sequence>   the nodes of a mutex
//	<path>/once                        persistent:
//	    {"n":412,"done":[{"key":"2026-11-28","by":"host:4711",
//	     "id":"_c_<uuid>-lock-0000000411","at":"2026-11-28T02:00:07.123Z"}]}
//
// The record node contains the last successes, oldest first: see [WithKeep]. n counts all since the
// node was created. id is the name of the lock's node, and tells whose success it is. The newest
// entry has no at: it was recorded when the node was last written. A key that was forgotten leaves
// an entry without key. Fields and entries that a version does not know stay. Data of another
// program are an error and are never overwritten. When the sequence reaches 2^30, the path and the
// record are deleted and created again in one transaction, and since has the time of the first
// record.
//
// The path is the path of a mutex: two keys never run at the same time, and a mutex.Mutex, an
// InterProcessMutex of Curator for Java or zklock run at the path excludes them.
//
// # Requests
//
// A call for a recorded key takes one request. A call that runs its function takes five, a TryDo
// one more for a look at the queue, and either one more if the record changes at the same time. The
// first call at a path also creates the path. A call that waits for another process takes at most
// one request more than a waiter of a mutex, and up to three more if calls of one process follow
// each other within 1 s. A success wakes all waiters at once.
//
// # What it promises
//
//   - At most one function of a job has a live context, whatever the keys.
//   - No key is recorded unless its function has succeeded with the lock.
//   - After a call has returned that its success is recorded, the function runs no more for that
//     key, as long as the record is kept.
//   - Operations of [Commit] are carried out exactly once if the success is recorded, and not at
//     all otherwise.
//   - Times are the servers': the interval of [WithMinInterval] and the firings of [Once.Run]
//     depend on no client's clock.
//
// # What it cannot promise
//
// It does not promise that a function is never called twice: if the process dies after its work and
// before the record, or the recording fails, another call runs the function again. If work must
// never happen twice, write it with [Commit], or check [Hold] where it happens: its guard in
// ZooKeeper, its fencing token anywhere else.
//
// A key that is older than the records that are kept runs again. A key should name what is done,
// not the present time: a timer that fires a millisecond early would give the key of the day
// before.
//
// Clocks of two servers may differ, and the leader's counts. If it is set back, an interval starts
// anew at most, and no firing runs until the clock has passed the last one. If it is set forward,
// an interval is shorter by as much. If processes of two versions run [Once.Run] with different
// schedules, the firings of both run.
package once
