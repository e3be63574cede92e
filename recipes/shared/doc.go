// Package shared is values that all processes share: [Bytes] is Curator's SharedValue, [Int32] its SharedCount, [Int64] its
// DistributedAtomicLong, and [JSON] a value of any type. [Value.Update] changes a value as it is at that instant; [Reserve] gives
// out numbers.
//
// # On the wire
//
// A value is the data of one persistent node, as in Java: an Int32 has four bytes and an Int64 eight, the most significant
// first. While a write is under way the node has an ephemeral child, write-<uuid>. So writers need the permission to create and
// delete children.
//
// # Exactly once
//
// The reply to a write can be lost. Whether it was done cannot be seen in the value: another client may have written the
// same bytes, and the version and the zxid say nothing of the writer. So each write is one transaction: it sets the data, if the
// version is still the one that was read, and creates a child whose name is used only once.
//
//   - If the child is there, the write was done. This holds in any session.
//   - If it is not there, our session lives, and a repetition of the transaction was refused because the node has changed, then the write
//     was not done: only we, or the end of our session, delete the child. It will not be done later: a late copy of the
//     request is refused, too, since versions do not come back.
//   - Otherwise nobody knows, and the error says so: [retry.Unknown] is true of it. That is so if ctx ended before the answer came, or
//     our session ended and the child is gone.
//
// # What it cannot promise
//
// The servers compare a version of 32 bits. Swap and Update look at transaction ids before, but for an instant after that a node that was
// deleted, made again and written equally often is not noticed. At version -1, once in 2^32 writes, a write is not conditional.
//
// The node must not be a container. Nothing shows that it is one, and servers delete a container, here with the value, when its last
// child is gone: that of the first write.
package shared
