// Package cache keeps a copy of a node, of its children or of a whole tree, and reports changes. It
// is Curator's CuratorCache, and covers PathChildrenCache, NodeCache and TreeCache. [NewValues]
// decodes the nodes' data.
//
//	c, err := cache.New(client, "/config")
//	if err != nil { ... }
//	defer c.Close()
//	if err := c.Sync(ctx); err != nil { ... } // everything is loaded
//	node, ok := c.Get("/config/db")           // never asks a server
//	for change, err := range c.Changes(ctx) { ... }
//
// # How it works
//
// One goroutine follows one connection. It sets a watch for the whole tree, makes the server catch
// up with the ensemble, and reads every node, from the root down. On a new connection it reads a
// node's data only if they have changed, provided that the node's children are in the copy. From
// then on it reads the nodes that events name.
//
// On servers without usable persistent watches (ZooKeeper before 3.6, ClickHouse Keeper) it sets
// standard watches, two for each node. The cache removes them when it is closed; a Keeper keeps
// them until they fire.
//
// # What it promises
//
//   - A node never moves back in time: it is replaced only by a higher Mzxid or a higher
//     Czxid, even after a reconnect to a server that lags behind, and in a new session of the
//     same ensemble.
//   - After [Cache.Sync] the copy is at least as new as the ensemble was at the call.
//   - The cache continues through any outage, and [Cache.Current] reports when the copy may be
//     out of date.
//   - It never writes a node. If the root does not exist, the cache waits for it.
//   - At most one read per node and 64 in total are in flight.
//   - A slow reader of [Cache.Changes] delays no other.
//
// # Changes
//
// [Cache.Changes] yields the changes of one path in order: Created, then Changed, then Deleted,
// then Created again. A node that was deleted and recreated is reported as both, so Old and New of
// a Changed have the same Czxid. Parents are created before and deleted after their children. A
// reader that applies all changes in order has the copy.
//
// A slow reader gets the newest state of each path instead of every state, and does not see a node
// that was created and deleted in between. So at most two changes of each path wait for a reader.
//
// One Change of Kind Loaded follows the content of the copy or, during the first load, everything
// that the load has found, even if that is nothing.
//
// # What it cannot promise
//
// The copy lags behind the ensemble by an event and a read. A decision that needs the newest state
// calls Sync first. A decision that must not race with a change needs a lock, or a Multi with a
// version.
//
// ZooKeeper does not report changes of ACLs, nor, to a watch of the node itself, changes of its
// list of children. So the Aversion, Cversion, Pzxid and NumChildren of a [Node] are as of its last
// read.
//
// Servers from 3.8.4 on report nothing about a node to a client that is not permitted to read it at
// that moment. So a node that became unreadable stays in the copy, even when it is deleted, and a
// node that became readable is missing until it changes. Neither Sync nor Current shows this. The
// next reconnect corrects it.
//
// If an ensemble is restored from a backup, the copy may be newer than its nodes. A cache that
// detects this in a new session drops the copy, as if all nodes had been deleted, and loads it
// again. It does not notice restored nodes whose zxids did not change.
//
// Nodes below the root that the client is not permitted to read are left out without an error, and
// so are nodes whose path is a [framework.ErrBadPath], which old or other servers may have. With
// [WithoutData], servers before 3.8.4 and 3.9.2 give the stat to every client: with a persistent
// watch such a cache also shows unreadable nodes that had no children when their stat was read.
package cache
