// Package node keeps a node in ZooKeeper until it is closed, and makes it again whenever it is lost: the registration of a process, a flag,
// a member of a group. It is Curator's PersistentNode, PersistentTtlNode and GroupMember.
//
// # On the wire
//
//	<path>                       an ephemeral node, or a persistent one
//	<dir>/_c_<uuid>-<name>       with AsProtected
//	<dir>/_c_<uuid>-<name><n>    with AsProtected and AsSequential; n has ten digits
//	<path>, <path>/touch         with WithTTL: both have the TTL, touch is written every half TTL
//	<group>/<id>                 a member of a group; its data are the payload
//
// Missing parents are made as containers. These are the names and data of Java's Curator, so Java and Go can share a group.
//
// # What it promises
//
//   - The node is made again after the end of the session, a deletion and an outage of any length, under the path that it had first,
//     with the data that were set last.
//   - There is one node, whatever request fails and however. It is taken for ours only if it belongs to our session. A node of an earlier
//     session of ours is replaced. A node of somebody else is not changed, unless [WithIfTaken] says so.
//   - Of several Keeps of one client at one path, one has the path until it has failed or is closed, also while it waits. The others wait,
//     or fail: see [WithIfTaken].
//   - If our session ends, [Node.Present] is false before anybody else can have the node.
//   - After Close, or an error of Keep, we remove our node unless it has a TTL, also if the server carries out our create only after that.
//
// # What it cannot promise
//
// ZooKeeper can tie a write to the version of a node, but not to the node: each new node has version 0 again. So if somebody deletes our
// node by hand and somebody else makes one while a Set of ours is under way, the Set may overwrite the other's data. Then the node is not
// taken for ours, the Set does not succeed, and a line of level Error is logged. A Keep with [Replace] gives its node another version
// than that of the node that it replaces. In the same way, if an earlier session of ours ends at the moment at which its node is
// deleted, a node that somebody else has made by then may be deleted; a Keep makes it again.
//
// A request to create the node may hang in an earlier session. If the servers carry it out after Close, the node is there again, with the
// data of that time, until they end that session.
//
// An ephemeral node that this client has made at the path without Keep is taken over: its owner is the same. A persistent node has no
// owner: with [AsPersistent] and [WithTTL] one at the path is taken over, whoever made it. What others write to a kept node stays until
// the next Set, or until the node has to be made again; and if the outcome of a Set is not known, for two session timeouts, what they
// write is taken for that Set, and written over.
//
// # How it works
//
// One goroutine per node looks at the node and takes the step of its state, again and again. If nothing has happened since the last look, no
// request is sent for that. After a request that has failed it pauses.
//
//	state     the node                          step
//	absent    is not there                      create it
//	ours      is of our session (persistent:    write what was set last, with a TTL the touch child, depend on the
//	          any persistent node)              session, show the node, and wait
//	taken     is another's                      wait, or replace it: see WithIfTaken
//	          is of an earlier session of ours  delete it
//
// A session begins with absent. The waits end when the watch of the last look fires, at a Set, and with the session. What ends Present does
// so at once, whatever the goroutine waits for.
package node
