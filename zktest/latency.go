package zktest

import (
	"sync"
	"time"
)

// WithLatency delays the answer to each request, handshakes included, until this time after the request, as a
// network does. Requests that a client sends together are answered together. Events are not delayed.
// [Server.Delay] delays some requests, one after the other.
func WithLatency(d time.Duration) Option {
	return positive("latency", d, func(c *config) { c.latency = d })
}

// arrivals are the times at which a connection's requests may be carried out, in order.
type arrivals struct {
	mu  sync.Mutex // guards what follows
	due []time.Time
}

// noteArrival notes that a request has come in.
func (c *conn) noteArrival() {
	d := c.server.cfg.latency
	if d == 0 {
		return
	}
	c.arrivals.mu.Lock()
	defer c.arrivals.mu.Unlock()
	c.arrivals.due = append(c.arrivals.due, time.Now().Add(d))
}

// awaitDue waits until the next request may be carried out. It reports false if the server ends before.
func (c *conn) awaitDue() bool {
	if c.server.cfg.latency == 0 {
		return true
	}
	c.arrivals.mu.Lock()
	if len(c.arrivals.due) == 0 {
		c.arrivals.mu.Unlock()
		return true
	}
	due := c.arrivals.due[0]
	c.arrivals.due = c.arrivals.due[1:]
	c.arrivals.mu.Unlock()
	left := time.Until(due)
	if left <= 0 {
		return true
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.server.done:
		return false
	}
}
