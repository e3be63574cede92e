package lock

import (
	"context"

	"github.com/gocurator/curator/recipes/internal/queue"
)

// Group is several holds as one: the result of a recipe that acquires all or none. It ends when the first of
// its holds ends.
//
// All methods are safe for concurrent use.
type Group queue.Group

func (g *Group) inner() *queue.Group { return (*queue.Group)(g) }

// Holds are the holds in the order in which they were acquired.
func (g *Group) Holds() []*Hold {
	var holds []*Hold
	for _, h := range g.inner().Holds() {
		holds = append(holds, (*Hold)(h))
	}
	return holds
}

// Context ends as soon as one of the holds ends, with the same cause.
func (g *Group) Context() context.Context { return g.inner().Context() }

// Done is Context().Done().
func (g *Group) Done() <-chan struct{} { return g.inner().Done() }

// Err is nil while all holds last, and then the cause of the first end.
func (g *Group) Err() error { return g.inner().Err() }

// Release releases all leases, the last first. The error joins those of [Hold.Release], also for a second call.
func (g *Group) Release() error { return g.inner().Release() }

// Do calls f and releases. f's context ends with the group, and when ctx ends. The error is f's and Release's
// joined, with the cause of a loss as in [Hold.Do]. If f panics, the leases are released. If the group has ended already, f is not called, and the error wraps the cause.
func (g *Group) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return g.inner().Do(ctx, f)
}

// Guards are operations for [framework.Client.Multi] that succeed only if the nodes of all
// holds are there: see [Hold.Guard].
func (g *Group) Guards() []any { return g.inner().Guards() }
