// Package shared provides values shared by all processes: [Bytes] is Curator's SharedValue, [Int32]
// its SharedCount, [Int64] its DistributedAtomicLong, and [JSON] a value of any type.
// [Value.Update] changes the present value atomically; [Reserve] hands out numbers.
//
//	visits, err := shared.Int64(client, "/visits")
//	n, err := visits.Update(ctx, func(n int64) (int64, error) { return n + 1, nil })
//	limits, err := shared.JSON[Limits](client, "/limits")
//	for l, err := range limits.Observe(ctx) { ... } // now, and after each change
//
// # On the wire
//
// A value is the data of one persistent node, as in Java: an Int32 has four bytes and an Int64
// eight, the most significant first. During a write the node has an ephemeral child, write-<uuid>.
// So writers need the permission to create and delete children.
//
// # Exactly once
//
// The reply to a write can be lost. The value then does not show whether the write was done:
// another client may have written the same bytes, and the version and the zxid do not name the
// writer. So each write is one transaction: it sets the data, if the version has not changed since
// the read, and creates a child with a unique name.
//
//   - If the child exists, the write was done. This holds in any session.
//   - If it does not exist, the session lives, and a repetition of the transaction was refused
//     because the node has changed, then the write was not done: only this client, or the end
//     of its session, deletes the child. It will not be done later either: a late copy of the
//     request is refused, since versions do not return.
//   - Otherwise the outcome is unknown, and [retry.Unknown] reports true for the error. This
//     happens if ctx ends before the reply arrives, or if the session ends and the child does
//     not exist.
//
// # Update
//
// If [Value.Update] returns no error, the result of exactly one call of its function was written,
// once. If the function returns an error, nothing was written.
//
// Consecutive Updates skip the read while no other client writes: the function then gets the value
// that the last Update has written. If it fails on such a remembered value, it is called again on
// the current one.
//
// # What it cannot promise
//
// The servers compare a version of 32 bits. CompareAndSwap and Update compare transaction ids
// before, but for an instant after that they do not notice a node that was deleted, recreated and
// written equally often. After 2^32-1 writes a node has version -1, which the servers do not
// compare: CompareAndSwap and Update then fail with [ErrVersion] until [Value.Set] has written the
// node once.
//
// The node must not be a container. Nothing shows that it is one, and the servers delete a
// container, here with the value, when its last child is deleted: the child of the first write.
package shared
