// Package clientapi is what package framework offers to the recipes of this module and to nobody else.
// Package framework sets the variables. A client is a *framework.Client.
package clientapi

import (
	"context"
	"sync"

	"github.com/go-zookeeper/zk"
)

// ChildrenWatch are the functions of a watch on the children of a node. They are called on the
// connection's goroutine, in the order of the connection, and must not block.
type ChildrenWatch struct {
	// List is called once, with the answer to the list that follows the watch. Events that came before it are
	// contained in it, and all later ones are not.
	List func(names []string, stat *zk.Stat, err error)

	// Event is called with every event about the node and all nodes below it.
	Event func(zk.Event)

	// End is called once, when the connection has ended, unless the watch was removed before.
	End func()
}

var (
	// WatchChildren sets a recursive persistent watch on path and lists the children of path, both on the
	// same connection. It makes one try and returns when the list has been answered; a missing path is
	// no error of WatchChildren. remove ends the watch and does not wait.
	WatchChildren func(ctx context.Context, client any, path string, w ChildrenWatch) (remove func(), err error)

	// Values is a place for what recipes keep per client. All views of a client with other namespaces share it.
	Values func(client any) *sync.Map

	// RealPath is the path on the server, namespace included.
	RealPath func(client any, path string) string

	// DefaultACL is the ACL that the client gives to a node that it creates at path.
	DefaultACL func(client any, path string) []zk.ACL
)
