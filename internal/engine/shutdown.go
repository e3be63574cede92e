package engine

import (
	"context"
	"slices"
	"sync"
)

// Work is a hold or a kept node, which Shutdown cancels and waits for. Its methods must not block.
type Work interface {
	Path() string
	Stop(cause error) // may be called several times
	// Held reports whether it is a hold, which its holder must release. Close may delete the node
	// of other work.
	Held() bool
}

// works contains the registered work of a client.
//
//	running   registered by Begin
//	stopped   after Stop, until Finished: Shutdown waits for it
//
// After Shutdown began, nothing is registered.
type works struct {
	stopping chan struct{} // closed when Shutdown begins

	mu   sync.Mutex             // guards what follows
	left map[Work]chan struct{} // closed by Finished; nil while Shutdown has not begun
}

// Stopping is closed when Shutdown begins.
func (c *core) Stopping() <-chan struct{} { return c.works.stopping }

// Begin registers work. It returns [ErrShutdown] after Shutdown has begun.
func (c *core) Begin(w Work) error {
	c.works.mu.Lock()
	defer c.works.mu.Unlock()
	select {
	case <-c.works.stopping:
		return ErrShutdown
	default:
		c.works.left[w] = nil
		return nil
	}
}

// Finished removes work that has been cancelled or completed, cleanup included.
func (c *core) Finished(w Work) {
	c.works.mu.Lock()
	defer c.works.mu.Unlock()
	if done := c.works.left[w]; done != nil {
		close(done)
	}
	delete(c.works.left, w)
}

// stop begins Shutdown, unless it has begun, and returns the work that is left.
func (w *works) stop() map[Work]chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.stopping:
	default:
		close(w.stopping)
	}
	left := make(map[Work]chan struct{}, len(w.left))
	for work, done := range w.left {
		if done == nil {
			done = make(chan struct{})
			w.left[work] = done
		}
		left[work] = done
	}
	return left
}

// paths returns the paths of the work that is left, in order: all, or only holds.
func (w *works) paths(onlyHeld bool) (paths []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for work := range w.left {
		if work.Held() || !onlyHeld {
			paths = append(paths, work.Path())
		}
	}
	slices.Sort(paths)
	return paths
}

// Shutdown cancels all work, waits until it is finished, ctx is done or the client is closed, and
// closes the client. It returns the paths of unfinished work.
func (c *core) Shutdown(ctx context.Context) (left []string) {
	stopped := c.works.stop()
	for work := range stopped {
		work.Stop(ErrShutdown)
	}
	for _, done := range stopped {
		select {
		case <-done:
		case <-ctx.Done():
		case <-c.ctx.Done():
		}
	}
	left = c.works.paths(false)
	c.close()
	return left
}
