package queue

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/queue/view"
)

// Driver is a lock.Driver.
type Driver interface {
	Create(ctx context.Context, client *framework.Client, base, name string, data []byte) (string, error)
	SortKey(child, name string) (key string, ours bool)
	Decide(children []string, own string, maxLeases int) (Decision, error)
}

// Decision is a lock.Decision. Both are aliases, so that each page shows the fields.
type Decision = struct {
	Held  bool
	Watch []string
}

// Standard is a lock.Standard.
type Standard struct{}

var _ Driver = Standard{}

// Create makes a protected ephemeral sequential node, and its parents as containers.
func (Standard) Create(ctx context.Context, client *framework.Client, base, name string, data []byte) (string, error) {
	return client.Create(ctx, framework.Join(base, name), data,
		framework.As(framework.EphemeralSequential), framework.Protected(), framework.ContainerParents())
}

// SortKey is the sequence number.
func (Standard) SortKey(child, name string) (key string, ours bool) {
	digits, _, ours := view.Sequence(child, name)
	return digits, ours
}

// Decide watches the maxLeases nodes directly ahead. When fewer than maxLeases nodes are left ahead, at least
// one of those was deleted. So a waiter wakes whichever holder releases.
func (Standard) Decide(children []string, own string, maxLeases int) (Decision, error) {
	i := slices.Index(children, own)
	if i < 0 {
		return Decision{}, fmt.Errorf("%s: %w", own, ErrNodeDeleted)
	}
	if i < maxLeases {
		return Decision{Held: true}, nil
	}
	return Decision{Watch: children[i-maxLeases : i]}, nil
}

// order is how the nodes of a Queue are found and sorted.
type order struct {
	driver Driver
	name   string
}

// newOrder returns an order that is equal to that of other Queues with the Standard driver and this name: they share what a view
// keeps for it. Another driver may be of a type that cannot be compared.
func newOrder(driver Driver, name string) view.Order {
	o := order{driver, name}
	if _, standard := driver.(Standard); standard {
		return o
	}
	return &o
}

// SortKey is that of the driver.
func (o order) SortKey(child string) (key string, ours bool) { return o.driver.SortKey(child, o.name) }

// Sort returns the nodes of a queue with the Standard driver and this name, in its order. The error is [ErrSequenceExhausted].
func Sort(children []string, name string) ([]string, error) {
	return view.Sort(order{Standard{}, name}, children)
}

// Sequence is lock.Sequence.
func Sequence(child, name string) (n int32, ok bool) {
	_, n, ok = view.Sequence(child, name)
	return n, ok
}

type tokenKey struct{}

// SetToken gives the fencing token of the node to whoever called Create with ctx, before Create returns: for a node that takes the
// place of another one of the same holder.
func SetToken(ctx context.Context, token int64) {
	if t, ok := ctx.Value(tokenKey{}).(*atomic.Int64); ok {
		t.Store(token)
	}
}
