// Package node keeps a node in ZooKeeper until it is closed, and recreates it whenever it is lost:
// the registration of a process, a flag, a member of a group. It is Curator's PersistentNode,
// PersistentTtlNode and GroupMember.
//
// # On the wire
//
//	<path>                       an ephemeral node, or a persistent one
//	<dir>/_c_<uuid>-<name>       with WithProtection
//	<dir>/_c_<uuid>-<name><n>    with WithProtection and WithSequence; n has ten digits
//	<path>, <path>/touch         with WithTTL: both have the TTL, touch is written every half TTL
//	<group>/<id>                 a member of a group; its data are the payload
//
// Missing parents are created as containers. Names and data are as in Java's Curator, so Java and
// Go can share a group.
//
// # What it promises
//
//   - The node is recreated after the end of the session, a deletion and an outage of any
//     length, under its first path, with the data of the last Set.
//   - There is one node, whichever request fails. A node counts as this Node's only if it
//     belongs to the client's session. A node of the client's earlier session is replaced. A
//     node of another owner is not changed, unless [WithIfTaken] says so.
//   - If one client calls Keep twice on a path, the second call waits until the first has
//     failed or was closed, or fails itself: see [WithIfTaken].
//   - If the session ends, [Node.Present] is false before another client can create the node.
//   - After Close, or if Keep fails, the node is deleted unless it has a TTL, even if the server
//     carries out the create only after that.
//
// # What it cannot promise
//
// ZooKeeper can tie a write to the version of a node, but not to the node: each new node has
// version 0 again. If another client deletes the node and a third client creates it while a Set is
// in progress, that Set may overwrite the third client's data. The node then does not count as this
// Node's, the Set does not succeed, and a line of level Error is logged. A Keep with [Replace]
// gives its node another version than the replaced node had. If an earlier session of this client
// ends at the moment at which its node is deleted, a node that another client has created by then
// may be deleted as well. A Keep recreates it.
//
// A create may hang in an earlier session. If the servers carry it out after Close, the node exists
// again, with the data of that time, until that session has expired.
//
// An ephemeral node that this client has created at the path without Keep is taken over: its owner
// is the same. A persistent node has no owner: with [WithPersistence] and [WithTTL] any node at the
// path is taken over. Data that others write to a kept node stay until the next Set, or until the
// node has to be recreated. If the outcome of a Set is unknown, such data are taken for that Set's
// and overwritten for two session timeouts.
//
// # Closing
//
// Without a server, [Node.Close] returns an error after 5 s. The client deletes the node when it is
// connected again, and the servers delete an ephemeral node when its session expires. The servers
// delete a node with a TTL when its time has passed; Close does not.
//
// If [Node.Set] fails, the data are still written when that becomes possible, even to a recreated
// node, unless a later Set replaces them.
//
// # How it works
//
// One goroutine per node looks at the node and takes the step of its state, again and again. If
// nothing has happened since the last look, the look sends no request. After a failed request it
// pauses.
//
//	state     the node                          step
//	absent    does not exist                    create it
//	owned     belongs to the session            write the data of the last Set, with a TTL also
//	          (persistent: any such node)       the touch child, show the node, and wait
//	taken     belongs to another                wait, or replace it: see WithIfTaken
//	          belongs to an earlier session     delete it
//
// A session begins with absent. The waits end when the watch of the last look fires, at a Set, and
// with the session. Present becomes false at once, whatever the goroutine waits for.
package node
