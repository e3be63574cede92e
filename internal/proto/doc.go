// Package proto is ZooKeeper's wire protocol: operation codes, error codes, records in both
// directions and the frames that carry them. The client and the test server share it.
//
// A record is appended to a byte slice by its Append method and read by its Decode method from a
// [Decoder]. A Decoder never panics, and never allocates more than a small multiple of the bytes
// that are present: it checks a length or a count against them first. It returns copies, so a frame
// can be reused.
//
// The package imports only the standard library, because the test server promises its users to add
// no other module.
package proto
