// Package node keeps a node in ZooKeeper for as long as its owner wants it there: the
// registration of a process, a flag, a member of a group. It is Curator's PersistentNode,
// PersistentTtlNode and GroupMember.
//
// # On the wire
//
//	<path>                       an ephemeral node, or a persistent one
//	<dir>/_c_<uuid>-<name>       with Protected
//	<path><number>               with Sequential, ten digits; with Protected as well
//	<path>, <path>/touch         with WithTTL: both have the TTL, touch is written every half TTL
//	<group>/<id>                 a member of a group; its data are the payload
//
// Missing parents are made as containers. These are the names and data of Java's Curator, so
// Java and Go can share a group.
//
// # What it promises
//
//   - The node is made again after the end of the session, a deletion and an outage of any
//     length, under the path that it had first, with the data that were set last.
//   - There is one node, whatever request fails and however. A node is taken for
//     ours only if it belongs to our session, and to no other Keep of the same client: of several Keeps on
//     one path one has the node, until its own node is gone for certain. One that an earlier session of ours
//     left is replaced; that of somebody else is not touched unless [IfTaken] says so.
//   - [Node.Present] is false before anybody else can have the node because our session
//     ends, and [Node.Err] says why. What a server refuses is tried again, with pauses.
//   - After Close, or an error of Keep, no node stays, even if its create is carried
//     out later.
//
// # What it cannot promise
//
// ZooKeeper can tie a write to the version of a node, but not to the node: each new node has version 0 again. So
// if somebody deletes our node by hand and somebody else makes one while a Set of ours is under way, the Set may
// overwrite the other's data. It does not succeed then: the node is not taken for ours, the Set is not
// confirmed, and a line of level Error is logged. A Keep with [Replace] gives its node a version which such a write does not
// have. An ephemeral node that this client has made at the path without Keep is taken over: its owner is the same.
//
// A persistent node has no owner. With [Persistent] and [WithTTL], a persistent node at the path
// is taken over, whoever made it, unless it was another Keep of this client. And what others write to a kept node stays until the next
// Set, or until the node has to be made again.
package node
