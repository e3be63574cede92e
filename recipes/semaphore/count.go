package semaphore

import (
	"context"
	"fmt"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/shared"
)

// count is a number of leases on the servers, as a semaphore has read it. It is on the connection
// of the leases, which brings a change of the count before later changes of the leases.
type count struct {
	client *framework.Client
	path   string
	leases *lock.Queue // which use it

	mu    sync.Mutex // guards what follows
	max   int
	unset bool             // max is 0 because there is no node
	watch *framework.Watch // fires when max is not the count any more; nil: nothing was read
	falls int              // how often a lower number was adopted
}

// read reads the count with client, which may be a view, until it has one that has not changed
// since. It returns a channel that is closed when the count changes.
func (c *count) read(ctx context.Context, client *framework.Client) (changed <-chan struct{}, err error) {
	value, err := shared.Int32(client, c.path)
	if err != nil {
		return nil, operr.Bare(err)
	}
	for {
		n, version, watch, err := value.GetW(ctx)
		if err == nil && n < 0 {
			err = fmt.Errorf("%w: %d leases", shared.ErrBadValue, n)
		}
		if err != nil {
			return nil, operr.Bare(err)
		}
		if c.adopt(int(n), !version.Exists(), watch) {
			return watch.Done(), nil
		}
	}
}

// adopt uses what was read, unless it has changed: then another goroutine may have adopted
// something newer.
func (c *count) adopt(max int, unset bool, watch *framework.Watch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wait.Closed(watch.Done()) {
		return false
	}
	if max < c.max {
		c.falls++
	}
	c.max, c.unset, c.watch = max, unset, watch
	inside.SetMaxLeases(c.leases, max)
	return true
}

// isCurrent reports whether the number that was adopted is the count, as far as the connection has
// brought it.
func (c *count) isCurrent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watch != nil && !wait.Closed(c.watch.Done())
}

// fallen returns how often a lower number was adopted: never without a count.
func (c *count) fallen() int {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.falls
}

// tooLow describes the number if n leases cannot be acquired with it, as it was read last.
func (c *count) tooLow(n int) string {
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.watch == nil || n <= c.max:
		return ""
	case c.unset:
		return "the maximum at " + c.path + " is not set"
	}
	return fmt.Sprintf("the maximum at %s is %d", c.path, c.max)
}

// follow adopts every change until ctx is done, and calls adopted after each.
func (c *count) follow(ctx context.Context, adopted func()) error {
	return c.client.Follow(ctx, func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
		changed, err := c.read(ctx, in)
		if err == nil {
			adopted()
		}
		return changed, err
	})
}
