package wire

import (
	"sync"
	"time"
)

// arrivals are the times at which a connection's requests may be carried out, in order. They have a
// separate lock.
type arrivals struct {
	mu  sync.Mutex // guards what follows
	due []time.Time
}

// add notes that a request may be carried out at a time.
func (a *arrivals) add(due time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due = append(a.due, due)
}

// wait waits until the next request may be carried out. It reports false if stop is closed before.
func (a *arrivals) wait(stop <-chan struct{}) bool {
	a.mu.Lock()
	if len(a.due) == 0 {
		a.mu.Unlock()
		return true
	}
	due := a.due[0]
	a.due = a.due[1:]
	a.mu.Unlock()
	left := time.Until(due)
	if left <= 0 {
		return true
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
		return false
	}
}
