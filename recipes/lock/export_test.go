package lock

import (
	"context"
)

// InLine is how many wait in memory for a node to be passed on.
func (q *Queue) InLine() int {
	q.local.mu.Lock()
	defer q.local.mu.Unlock()
	return q.local.waiting.Len()
}

// ReleaseDuring is Release, with a call of f just after it was decided that the node is passed on. It reports whether it was.
func (h *Hold) ReleaseDuring(f func()) bool {
	l := h.lease
	l.mu.Lock()
	next := l.nextLocal()
	l.released, l.passed = next != nil, next != nil
	l.mu.Unlock()
	if next == nil {
		return false
	}
	f()
	l.finish(ErrReleased)
	next <- l.entry
	return true
}

// Lose has the lease be lost.
func (h *Hold) Lose(cause error) { h.lease.lose(cause) }

// Alone reports whether nobody else is in the queue, for all that we have been told.
func (h *Hold) Alone() bool {
	v := h.lease.entry.inView()
	return v != nil && v.Alone(h.lease.entry)
}

// Viewed reports whether the Queue's path has a view that can be asked.
func (q *Queue) Viewed() bool {
	v := q.views.Lookup(q.client, q.base)
	return v != nil && v.Ready()
}

// HoldAgainWhileLost begins a second lease of h's node, as for a hand-off. When it depends on the session already, suspend
// is called, and the node is taken for deleted.
func (h *Hold) HoldAgainWhileLost(suspend func()) error {
	e := h.lease.entry
	e.mu.Lock()
	done := make(chan error)
	go func() {
		_, err := newHold(context.Background(), e)
		done <- err
	}()
	suspend()
	close(e.vanished)
	e.mu.Unlock()
	return <-done
}
