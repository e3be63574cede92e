package engine

import (
	"context"
	"sync"
	"time"
)

// observed runs an operation that counts its attempts, and reports it.
func (c *core) observed(ctx context.Context, op, path string, run func(attempts *int) error) error {
	e := Operation{Op: op, Path: path, Began: time.Now()}
	e.Err = run(&e.Attempts)
	e.Duration = time.Since(e.Began)
	c.cfg.Operation(ctx, e)
	return e.Err
}

// reports are operations of recipes that are reported on a goroutine of its own: that of the connection, on which they end,
// must not block.
type reports struct {
	mu      sync.Mutex // guards what follows; not held while the observer is called
	queue   []Operation
	running bool
}

// report reports an operation that has ended, in the background. After Close nothing is reported.
func (c *core) report(e Operation) {
	e.Duration = time.Since(e.Began)
	r := &c.reports
	r.mu.Lock()
	r.queue = append(r.queue, e)
	start := !r.running
	r.running = true
	r.mu.Unlock()
	if start && !c.background(c.reportAll) { // ends when all is reported
		r.mu.Lock()
		r.running = false
		r.mu.Unlock()
	}
}

func (c *core) reportAll() {
	r := &c.reports
	for {
		r.mu.Lock()
		if len(r.queue) == 0 {
			r.running = false
			r.mu.Unlock()
			return
		}
		e := r.queue[0]
		r.queue = r.queue[1:]
		r.mu.Unlock()
		c.cfg.Operation(c.ctx, e)
	}
}
