package queue

import (
	"cmp"
	"container/list"
	"context"
	"math"
	"sync"
	"time"

	"github.com/gocurator/curator/connstate"
)

// lendLimit is for how long a node is lent and kept without WithLocalHandOff: others may wait whose nodes we may not read.
const lendLimit = time.Minute

// Lending limits for how long a node stays from holder to holder: see lock.WithLocalHandOff and lock.WithRetention. The zero
// value is not at all.
type Lending struct {
	Times  int
	Within time.Duration
	Keep   time.Duration // without a holder; 0: not at all
}

// localQueue is where goroutines of one Queue wait while one of them has a node, or creates one. The first
// waiter gets that node, or, when the node is deleted, the turn to create one.
type localQueue struct {
	Lending

	mu      sync.Mutex // guards what follows
	taken   bool       // a goroutine has a node, or the turn to make one, or a node is kept
	node    *node      // whose end passes the turn on; nil while a goroutine acquires
	kept    *lease     // of node, without a hold; nil: it is not kept
	lent    lent
	unwatch func() bool // ends the watch on the session of node
	waiting list.List   // of *localWaiter
}

// lent is how often a node was lent, and since when.
type lent struct {
	node  *node
	since time.Time
	times int
}

// localWaiter is a goroutine that waits.
type localWaiter struct {
	turn   chan *node // capacity 1; nil is the turn to make a node
	called bool       // turn has or will have something; guarded by the queue's mu
}

// newLocalQueue returns nil for a Queue that does not lend.
func newLocalQueue(l Lending) *localQueue {
	if l == (Lending{}) {
		return nil
	}
	if l.Times == 0 {
		l.Times, l.Within = math.MaxInt, lendLimit
	}
	return &localQueue{Lending: l}
}

// keeps reports whether nodes are kept for the next Acquire, by this Queue and so by others of the lock.
func (q *Queue) keeps() bool { return q.cfg.Lending.Keep > 0 }

// enter returns the node that is kept or was lent to us, or nil for the turn to create one.
func (l *localQueue) enter(ctx context.Context, q *Queue, mayWait bool) (*node, error) {
	l.mu.Lock()
	if n := l.takeOver(); n != nil || !l.taken {
		l.taken = true
		l.mu.Unlock()
		return n, nil
	}
	notFree := ErrNotAcquired
	if l.node != nil {
		notFree = errHeldHere
	}
	if !mayWait {
		l.mu.Unlock()
		_, err := q.client.Session(ctx) // without a connection nobody can say whether the lock is held
		return nil, cmp.Or(err, notFree)
	}
	w := &localWaiter{turn: make(chan *node, 1)}
	place := l.waiting.PushBack(w)
	l.mu.Unlock()

	select {
	case n := <-w.turn:
		if n != nil || ctx.Err() == nil {
			return n, nil
		}
		l.next()
	case <-ctx.Done():
		l.leave(w, place)
	}
	return nil, givenUp(ctx, notFree)
}

// entered ends what enter began: with the hold of whoever entered, or nil if there is none.
func (l *localQueue) entered(h *Hold) {
	if h == nil {
		l.next()
	} else {
		l.keep(h.lease.node)
	}
}

// leave removes a waiter. If it was given a node or the turn meanwhile, it gives that up.
func (l *localQueue) leave(w *localWaiter, place *list.Element) {
	l.mu.Lock()
	l.waiting.Remove(place)
	called := w.called
	l.mu.Unlock()
	if !called {
		return
	}
	if n := <-w.turn; n != nil {
		n.leave()
	}
	l.next()
}

// keep has the turn pass on when a node that holds, or its session, has ended. A holder that was notified of ErrSuspended may
// keep its node for longer than the session lasts.
func (l *localQueue) keep(n *node) {
	l.mu.Lock()
	if l.lent.node != n {
		l.lent = lent{node: n, since: time.Now()}
	}
	l.node, l.unwatch = n, context.AfterFunc(n.session.Context(), func() { l.over(n) })
	l.mu.Unlock()
	if n.isOver() {
		l.over(n)
	}
}

// over passes the turn on, unless the node was lent or its end is known already.
func (l *localQueue) over(n *node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.node == n {
		l.forget()
		l.pass()
	}
}

// forget ends what keep began. l.mu is held.
func (l *localQueue) forget() {
	l.unwatch()
	l.node, l.kept = nil, nil
}

// next passes the turn on after an acquire that failed.
func (l *localQueue) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass()
}

// pass gives the turn to create a node to the first waiter. l.mu is held.
func (l *localQueue) pass() {
	if turn := l.pop(); turn != nil {
		turn <- nil
	} else {
		l.taken = false
	}
}

// pop removes the first waiter and returns its channel, on which the caller must send. It is nil if nobody
// waits. l.mu is held.
func (l *localQueue) pop() chan *node {
	first := l.waiting.Front()
	if first == nil {
		return nil
	}
	w := l.waiting.Remove(first).(*localWaiter)
	w.called = true
	return w.turn
}

// lend decides whether the node of a lease is lent when the last holder releases it, and returns what does that. From then on the
// lease does not touch the node. It is nil if the node is to be deleted. lease.mu is held.
func (l *lease) lend() func() {
	local, n := l.node.queue.local, l.node
	if local == nil || l.shown || n.queue.isCrowded(n) {
		return nil
	}
	local.mu.Lock()
	defer local.mu.Unlock()
	if local.node != n { // its session has ended, and another has the turn
		return nil
	}
	if local.lent.times >= local.Times || time.Since(local.lent.since) > local.Within || !n.pause() {
		return nil
	}
	if next := local.pop(); next != nil {
		local.forget()
		local.lent.times++
		return func() { next <- n }
	}
	if local.Lending.Keep == 0 {
		return nil
	}
	return func() { local.retain(n) }
}

// isCrowded reports whether somebody else may be in the queue with our node. Only a view shows that.
func (q *Queue) isCrowded(n *node) bool {
	v := n.inView()
	return v == nil || !v.Alone(n)
}

// retain keeps the node of a lease that was released, until somebody takes it over or wants the lock: a lease without a hold.
func (l *localQueue) retain(n *node) {
	kept, err := newLease(n, connstate.Standard)
	if err != nil {
		n.leave()
		return
	}
	l.mu.Lock()
	kept.timer = time.AfterFunc(min(l.Lending.Keep, l.Within-time.Since(l.lent.since)), func() { kept.end(errUnused) })
	kept.mu.Unlock()
	over := l.node != n
	if !over {
		l.kept = kept
		if l.waiting.Len() > 0 && l.takeOver() != nil { // it came after the release
			l.pop() <- n
		}
	}
	l.mu.Unlock()
	// The lease did not notice who has joined the queue before it began.
	if over || n.queue.isCrowded(n) {
		kept.end(errUnused)
	}
}

// takeOver returns the node that is kept, if there is one. l.mu is held.
func (l *localQueue) takeOver() *node {
	if l.kept == nil {
		return nil
	}
	n, kept := l.node, l.kept
	l.kept = nil
	if !kept.end(ErrReleased) { // it is being given back
		return nil
	}
	l.forget()
	return n
}
