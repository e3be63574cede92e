package lock

import (
	"context"
	"fmt"
	"slices"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/locking"
	"github.com/gocurator/curator/recipes/lock/internal/view"
)

// Driver decides which nodes of a queue hold a lease. Implementations embed [Standard] and replace
// methods. It is Curator's LockInternalsDriver.
//
// A driver must be safe for concurrent use, and must decide in the same way in all processes that
// use a path. Its functions run on the goroutine that called Acquire. SortKey also runs on a
// goroutine of the client, where a panic is logged and ends nothing but a watch.
//
// A driver must count its own node, let it hold or name nodes of the queue to wait for, and
// create an ephemeral node of its client's session. Otherwise Acquire returns
// [framework.ErrBadArgument] and deletes the node, unless another session owns it. A protected
// create needs no check; for any other create Acquire sends one more request.
//
// A node that has a lease must have it for as long as it exists, whatever nodes are created later:
// a holder is not asked again. So no new node may be sorted before one that holds, as a key that
// begins with a priority does: both would hold.
type Driver interface {
	// Create creates a node and returns its full path. The node must be an ephemeral child of
	// n.Base, must be protected ([framework.Protected]), and must be created by client, which
	// belongs to one session. Missing parents must be created.
	Create(ctx context.Context, client *framework.Client, n Node) (path string, err error)

	// SortKey returns the part of a child's name by which the queue is sorted, bytewise. ours is
	// false for children that do not belong to this lock; they are ignored. It must be true for the
	// nodes that Create creates.
	SortKey(child, name string) (key string, ours bool)

	// Decide returns whether l.Own has a lease and, if not, whose deletion to wait for. A node that
	// has a lease must keep it.
	Decide(l Line) (Decision, error)

	// mustEmbedStandard makes drivers embed Standard, so that a later version can add methods.
	mustEmbedStandard()
}

// Node describes the node that [Driver.Create] creates.
type Node struct {
	// Base is the path of the lock, the node's parent.
	Base string

	// Name is the name of the queue's nodes, to which the server adds a number.
	Name string

	// Data is the data of the node.
	Data []byte
}

// Line is the queue that [Driver.Decide] decides about. Drivers must not change it.
type Line struct {
	// Children are the nodes of the queue, sorted. They contain Own.
	Children []string

	// Own is the node that may have a lease.
	Own string

	// MaxLeases is the number of leases.
	MaxLeases int
}

// Decision is the result of [Driver.Decide].
type Decision struct {
	// Held reports whether the node may hold a lease, by its place in the queue.
	Held bool

	// Watch names children of which at least one must be deleted before Held can become true. It is
	// empty if Held is true.
	Watch []string
}

// Standard is the driver by which the first maxLeases nodes hold, in the order of their sequence
// numbers. Curator's mutex and semaphore grant leases in this order.
//
// If a later version adds a method to [Driver], Standard answers that it is unknown: a driver may
// have replaced Decide, so an answer of Standard's could be wrong.
type Standard struct{}

var _ Driver = Standard{}

func (Standard) mustEmbedStandard() {}

// Create creates an ephemeral sequential node, protected, with containers as missing parents.
//
// Errors are
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the session has expired;
//   - [framework.ErrTooLong] if n.Data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - [framework.ErrBadArgument] if the session is nil or another client's;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create a node.
func (Standard) Create(ctx context.Context, client *framework.Client, n Node) (string, error) {
	return client.Create(ctx, framework.Join(n.Base, n.Name), n.Data,
		framework.As(framework.EphemeralSequential), framework.Protected(), framework.ContainerParents())
}

// SortKey returns the sequence number.
func (Standard) SortKey(child, name string) (key string, ours bool) {
	digits, _, ours := view.Sequence(child, name)
	return digits, ours
}

// Decide watches the maxLeases nodes directly ahead. When fewer than maxLeases nodes are left
// ahead, at least one of those was deleted. So a waiter wakes up whichever holder releases.
func (Standard) Decide(l Line) (Decision, error) {
	i := slices.Index(l.Children, l.Own)
	if i < 0 {
		return Decision{}, fmt.Errorf("%s: %w", l.Own, ErrNodeDeleted)
	}
	if i < l.MaxLeases {
		return Decision{Held: true}, nil
	}
	return Decision{Watch: l.Children[i-l.MaxLeases : i]}, nil
}

// Sequence returns the number that the server gave to a child whose name ends with name and that
// number. Anything may precede name, such as the prefix of a protected node.
//
// Numbers are signed: they become negative when they overflow. A ClickHouse Keeper since 26.4
// continues to count instead: then n is 2^31 - 1.
func Sequence(child, name string) (n int32, ok bool) {
	_, n, ok = view.Sequence(child, name)
	return n, ok
}

// order is how the nodes of a Queue are found and sorted.
type order struct {
	driver Driver
	name   string
	marks  bool // sorts the marks of the nodes behind them: see mark
}

// newOrder returns an order that equals the order of other Queues with the Standard driver and this
// name: they share what a view keeps for it. Another driver may be of a type that cannot be
// compared.
func newOrder(driver Driver, name string, marks bool) view.Order {
	o := order{driver, name, marks}
	if isStandard(driver) {
		return o
	}
	return &o
}

// SortKey implements view.Order.
func (o order) SortKey(child string) (key string, ours bool) {
	if m, isMark := parseMark(child); isMark && o.marks {
		_, ours = o.driver.SortKey(m.node, o.name)
		return child, ours
	}
	return o.driver.SortKey(child, o.name)
}

func isStandard(driver Driver) bool {
	_, standard := driver.(Standard)
	return standard
}

// create creates a node with the driver. token is 0 if it is the node's own.
func create(ctx context.Context, d Driver, client *framework.Client, n Node) (path string, token int64, err error) {
	if d, ok := d.(locking.TokenDriver); ok {
		return d.CreateWithToken(ctx, client, n.Base, n.Name, n.Data)
	}
	path, err = d.Create(ctx, client, n)
	return path, 0, err
}
