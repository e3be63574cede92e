package lock

import (
	"context"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/queue"
)

// Driver decides who holds. Implementations must be safe for concurrent use, and must decide in the same way in
// all processes that use a path. Embed [Standard] and replace what differs. It is Curator's LockInternalsDriver.
type Driver interface {
	// Create makes our node below base and returns its full path. The node must be
	// ephemeral, must be protected ([framework.Protected]), and must be made with
	// ctx, which ties it to a session. Missing parents must be made.
	Create(ctx context.Context, client *framework.Client, base, name string, data []byte) (string, error)

	// SortKey returns the part of a child's name that orders the queue, by comparison of bytes. ours is false
	// for children that do not belong to this lock; they are ignored. It must be true for our own node.
	SortKey(child, name string) (key string, ours bool)

	// Decide returns whether own has one of maxLeases leases and, if not, whose deletion to wait for. children
	// are sorted and contain own.
	//
	// A node that has a lease must have it for as long as it exists, whatever nodes come: a holder is not asked again. So no new node may be
	// sorted before one that holds, as a key that begins with a priority does: both would hold.
	Decide(children []string, own string, maxLeases int) (Decision, error)
}

// Decision is a driver's answer.
type Decision = struct {
	// Held says that the node has a lease.
	Held bool

	// Watch names children of which at least one must be deleted before Held can become true. It is empty if
	// Held.
	Watch []string
}

// Standard is the driver of Curator's mutex and semaphore: the first maxLeases nodes in
// the order of their sequence numbers hold.
type Standard struct{}

var _ Driver = Standard{}

// Create makes a protected ephemeral sequential node, and its parents as containers.
func (Standard) Create(ctx context.Context, client *framework.Client, base, name string, data []byte) (string, error) {
	return queue.Standard{}.Create(ctx, client, base, name, data)
}

// SortKey is the sequence number.
func (Standard) SortKey(child, name string) (key string, ours bool) {
	return queue.Standard{}.SortKey(child, name)
}

// Decide watches the maxLeases nodes directly ahead. When fewer than maxLeases nodes are left ahead, at least
// one of those was deleted. So a waiter wakes whichever holder releases.
func (Standard) Decide(children []string, own string, maxLeases int) (Decision, error) {
	return queue.Standard{}.Decide(children, own, maxLeases)
}

// Sequence returns the number that the server gave to a child whose name, without protection, begins with name.
// Numbers are signed: they become negative when they overflow. A ClickHouse Keeper from 26.4 on counts on instead: then n is 2^31 - 1.
func Sequence(child, name string) (n int32, ok bool) { return queue.Sequence(child, name) }
