package lock

import (
	"context"
)

// InLine returns how many goroutines wait in memory for the turn.
func (q *Queue) InLine() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.line.waiting)
}

// ReleaseDuring is Release, with a call of f just before the node is handed over or kept. It
// reports whether it was to be.
func (h *Hold) ReleaseDuring(f func()) bool {
	t, n := h.term, h.term.node
	r, err := t.drop(h, false)
	if err != nil || r.outcome.action != offer {
		return false
	}
	f()
	_ = t.finish(n.session.Context(), r)
	return true
}

// ReleaseGivenBack is Release of a node that is not handed over. Just before it is deleted, an
// event is received that gives kept nodes back, and f is called.
func (h *Hold) ReleaseGivenBack(f func()) (handedOver bool, err error) {
	t, n := h.term, h.term.node
	r, err := t.drop(h, false)
	if err != nil {
		return false, err
	}
	defer t.finished()
	r.notify()
	if n.queue.handOver(n) {
		return true, nil
	}
	n.Joined()
	f()
	return false, t.remove(n.session.Context())
}

// EndDuring ends the hold as a release does, with a call of f just before.
func (h *Hold) EndDuring(f func()) {
	h.term.node.mu.Lock()
	defer h.term.node.mu.Unlock()
	f()
	h.end(ErrReleased)
}

// TakeOverWhileGivenBack takes the node that is kept just when it begins to be deleted. It reports
// whether it got it.
func (q *Queue) TakeOverWhileGivenBack() bool {
	n := q.line.node
	n.mu.Lock()
	o := n.happens(unwanted, nil)
	n.mu.Unlock()
	q.mu.Lock()
	got := q.takeKept() != nil
	q.mu.Unlock()
	go n.carryOut(o)
	return got
}

// Lose has the term be lost.
func (h *Hold) Lose(cause error) { h.term.lose(cause) }

// Alone reports whether no other node is in the queue, by the events received so far.
func (h *Hold) Alone() bool {
	h.term.node.mu.Lock()
	defer h.term.node.mu.Unlock()
	return h.term.node.isAlone()
}

// Viewed reports whether the Queue's path has a view that can be asked.
func (q *Queue) Viewed() bool {
	v := q.views.Lookup(q.client, q.path)
	if v == nil {
		return false
	}
	_, ready, _ := v.Names(q.order)
	return ready
}

// HoldAgainWhileLost begins a second term of h's node, as for a hand-over. When it depends on the
// session already, suspend is called, and the node is taken for deleted.
func (h *Hold) HoldAgainWhileLost(suspend func()) error {
	n := h.term.node
	n.mu.Lock()
	done := make(chan error)
	go func() {
		_, err := n.hold(context.Background(), nil)
		done <- err
	}()
	suspend()
	n.state = gone
	n.mu.Unlock()
	return <-done
}

// What recipes of this module use.

func (q *Queue) SetMaxLeases(n int) { q.setMaxLeases(n) }

// MaxLeases returns the number of leases.
func (q *Queue) MaxLeases() int { return q.maxLeases() }

func (h *Hold) Pin() { h.term.pin() }

func NewGroup(holds []*Hold) *Group { return newGroup(context.Background(), holds) }
