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
//     ours only if it belongs to our session. One that an earlier session of ours left is
//     replaced; that of somebody else is not touched unless [IfTaken] says so.
//   - [Node.Present] is false before anybody else can have the node because our session
//     ends, and [Node.Err] says why. What a server refuses is tried again, with pauses.
//   - After Close, or an error of Keep, no node stays, even if its create is carried
//     out later.
//
// # What it cannot promise
//
// A persistent node has no owner. With [Persistent] and [WithTTL], a persistent node at the path
// is taken over, whoever made it. And what others write to a kept node stays until the next
// Set, or until the node has to be made again.
package node
