package queue

import (
	"context"
)

// InLine is how many wait in memory for a node to be passed on.
func (q *Queue) InLine() int {
	q.local.mu.Lock()
	defer q.local.mu.Unlock()
	return len(q.local.waiting)
}

// ReleaseDuring is Release, with a call of f just after it was decided that the node is lent. It reports whether it was.
func (h *Hold) ReleaseDuring(f func()) bool {
	d, err := h.lease.drop(h, false)
	if err != nil || d.lend == nil {
		return false
	}
	f()
	d.lend()
	return true
}

// EndDuring ends the hold as a release does, with a call of f just before.
func (h *Hold) EndDuring(f func()) {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	f()
	h.end(ErrReleased)
}

// TakeOverWhileGivenBack takes the node that is kept just after its lease has ended, before it is deleted. It reports whether it got it.
func (q *Queue) TakeOverWhileGivenBack() bool {
	q.local.mu.Lock()
	defer q.local.mu.Unlock()
	q.local.node.lastLease().end(errUnused)
	return q.local.takeOver() != nil
}

// Lose has the lease be lost.
func (h *Hold) Lose(cause error) { h.lease.lose(cause) }

// Alone reports whether nobody else is in the queue, by the events received so far.
func (h *Hold) Alone() bool { return !h.lease.node.isCrowded() }

// Viewed reports whether the Queue's path has a view that can be asked.
func (q *Queue) Viewed() bool {
	v := q.views.Lookup(q.client, q.base)
	if v == nil {
		return false
	}
	_, ready, _ := v.Names(q.order)
	return ready
}

// HoldAgainWhileLost begins a second lease of h's node, as for a hand-off. When it depends on the session already, suspend
// is called, and the node is taken for deleted.
func (h *Hold) HoldAgainWhileLost(suspend func()) error {
	n := h.lease.node
	n.mu.Lock()
	done := make(chan error)
	go func() {
		_, err := newHold(context.Background(), n, nil)
		done <- err
	}()
	suspend()
	n.state = ended
	n.mu.Unlock()
	return <-done
}
