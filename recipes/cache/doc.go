// Package cache keeps a copy of a node, of its children or of a whole tree, and reports changes. It is Curator's CuratorCache, and
// covers PathChildrenCache, NodeCache and TreeCache. [NewValues] decodes what the nodes hold.
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
// One goroutine follows one connection. First it sets a watch for the whole tree, then it makes the server catch up with the ensemble, and
// then it reads every node, from the root down; on a new connection the data of a node whose children it has only if they have changed.
// From then on it reads what events name. On servers without persistent watches that it can use (ZooKeeper before 3.6, ClickHouse Keeper)
// it sets standard watches, two for each node, which the cache takes back when it is closed; a Keeper has them until they fire.
//
// # What it promises
//
//   - A node never goes back in time: what replaces it has a higher Mzxid or a higher Czxid, also after a
//     reconnect to a server that is behind, and in a new session of the same ensemble.
//   - After [Cache.Sync] the copy is at least as new as the ensemble was when Sync was called.
//   - It goes on through any outage, and [Cache.Current] says when the copy may be out of date.
//   - It never writes a node. A root that does not exist is waited for.
//   - There is one request at a time for each node, however often that changes, and a limit for all.
//   - A slow reader of [Cache.Changes] delays nobody.
//
// # What it cannot promise
//
// The copy is behind the ensemble by the time that an event and a read take. A decision that needs the newest state calls Sync first,
// and one that must not meet a change in between needs a lock or a Multi with a version.
//
// ZooKeeper reports neither changes of ACLs nor, to a watch of the node itself, changes of its list of children. So the Aversion,
// Cversion, Pzxid and NumChildren of a [Node] are those of its last read. And servers from 3.8.4 on report nothing about a node to a
// client that may not read it at that moment. So a node that became unreadable stays in the copy as it was, also when it is deleted, and
// one that became readable is missing until something happens to it. Neither Sync nor Current shows this. The next reconnect corrects it.
//
// If an ensemble is restored from a backup, the copy may be newer than its nodes. A cache that finds that out in a new session drops
// the copy, as if all nodes had been deleted, and loads it again. It cannot find out what has the same zxids as before.
package cache
