// Package proto is ZooKeeper's wire protocol: operation codes, error codes, records in both
// directions and the frames that carry them. The client and the test server use it, so neither has
// a codec of its own.
//
// A record is appended to a byte slice by its Append method and read by its Decode method from a
// [Decoder]. A Decoder never panics, and never allocates more than a small multiple of the bytes
// that are there: a length or a count is checked against them first. What it returns is a copy,
// so a frame can be reused.
//
// The package imports nothing but the standard library, because the test server promises its
// users that it brings no other module along.
package proto
