// Package cache keeps a copy of a node, of its children or of a whole tree, and tells of changes. It is
// Curator's CuratorCache, and covers PathChildrenCache, NodeCache and TreeCache.
//
//	c, err := cache.New(client, "/config")
//	if err != nil { ... }
//	defer c.Close()
//	if err := c.Sync(ctx); err != nil { ... } // everything is loaded
//	node, ok := c.Get("/config/db")           // never asks a server
//	for change := range c.Changes(ctx) { ... }
//
// [NewValues] decodes what the nodes hold.
//
// # How it works
//
// One goroutine owns the tree. On each new connection it sets a watch first: one persistent recursive watch
// for the whole tree. Then it makes the server catch up with the ensemble, and then it reads every node. From
// then on it reads a node again when an event names it, and removes a node when an event says that it was deleted.
// Servers without persistent watches (ZooKeeper before 3.6), and servers whose events carry wrong paths
// (ClickHouse Keeper), get standard watches, two for each node. The cache finds that out by itself.
//
// # What it promises
//
//   - A node never goes back in time: what replaces it has a higher Mzxid or a higher Czxid, also after a
//     reconnect to a server that is behind, and in a new session.
//   - After [Cache.Sync] the copy is at least as new as the ensemble was when Sync was called.
//   - It goes on through any outage, and [Cache.Fresh] says when the copy may be out of date.
//   - It never writes a node. A root that does not exist is waited for.
//   - There is one request at a time for each node, however often that changes, and a limit for all.
//   - A slow reader of [Cache.Changes] delays nobody, and gets the newest state of each node.
//
// # What it cannot promise
//
// The copy is behind the ensemble by the time that an event and a read take. A decision that needs the newest
// state calls Sync first, and one that must not meet a change in between needs a lock or a Multi with a version.
//
// ZooKeeper reports neither changes of ACLs nor, to a watch of the node itself, changes of its list of children. So
// the Aversion, Cversion, Pzxid and NumChildren of a [Node] are those of the last time that it was read.
//
// Servers from 3.8.4 on report nothing about a node to a client that may not read it at that moment. So when a client
// loses the permission to read a node, the node stays in the copy as it was, also when it is deleted. When it gets the
// permission, the node is missing until something happens to it, or below it as far as the cache reaches. A standard
// watch of a node is used up by an event that is not reported, until the node is read again. Sync and Fresh do not notice
// any of this. The load on the next connection does.
//
// If an ensemble is restored from a backup, the copy may be newer than its nodes. Then the copy stays as it was and is
// not fresh, and no Sync ends: make a new cache.
package cache
