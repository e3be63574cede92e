package queue

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/wait"
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
// waiter gets that node, or, when the node is deleted, the turn to create one. The zero value lends nothing, and is not entered.
type localQueue struct {
	Lending

	mu      sync.Mutex   // guards what follows
	taken   bool         // a goroutine has a node, or the turn to make one, or a node is kept
	node    *node        // whose end passes the turn on; nil while a goroutine acquires
	kept    *lease       // of node, without a hold; nil: it is not kept
	waiting []chan *node // one for each goroutine, of capacity 1; nil is the turn to make a node
}

// limited is l with the limits that hold without WithLocalHandOff.
func (l Lending) limited() Lending {
	if l.Times == 0 && l.Keep > 0 {
		l.Times, l.Within = math.MaxInt, lendLimit
	}
	return l
}

// lends reports whether goroutines of this Queue wait in memory.
func (l *localQueue) lends() bool { return l.Lending != (Lending{}) }

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
	turn := make(chan *node, 1)
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()

	select {
	case n := <-turn:
		if n != nil || ctx.Err() == nil {
			return n, nil
		}
		l.next()
	case <-ctx.Done():
		l.leave(turn)
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

// leave removes a waiter. If it is one no more, it has or will have a node or the turn, and gives that up.
func (l *localQueue) leave(turn chan *node) {
	l.mu.Lock()
	i := slices.Index(l.waiting, turn)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	l.mu.Unlock()
	if i >= 0 {
		return
	}
	if n := <-turn; n != nil {
		n.leave(leaveTimeout)
	}
	l.next()
}

// keep has the turn pass on when a node that holds has ended.
func (l *localQueue) keep(n *node) {
	l.mu.Lock()
	if n.since.IsZero() {
		n.since = time.Now()
	}
	l.node = n
	l.mu.Unlock()
	if wait.Closed(n.gone) {
		l.over(n)
	}
}

// over passes the turn on, unless the node was lent or its end is known already.
func (l *localQueue) over(n *node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.node == n {
		l.node, l.kept = nil, nil
		l.pass()
	}
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
func (l *localQueue) pop() (turn chan *node) {
	if len(l.waiting) > 0 {
		turn = l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
	return turn
}

// lend decides whether the node of a lease is lent when the last holder releases it, and returns what does that. From then on the
// lease does not touch the node. It is nil if the node is to be deleted. lease.mu is held.
func (l *lease) lend() func() {
	local, n := &l.node.queue.local, l.node
	local.mu.Lock()
	defer local.mu.Unlock()
	if local.node != n { // nothing is lent, or its session has ended and another has the turn
		return nil
	}
	if l.shown || n.queue.isCrowded(n) {
		return nil
	}
	if n.lends >= local.Times || time.Since(n.since) > local.Within || !n.pause() {
		return nil
	}
	if next := local.pop(); next != nil {
		local.node = nil
		n.lends++
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
	if v == nil {
		return true
	}
	names, _, err := v.Names(q.order)
	return err != nil || !slices.Equal(names, []string{n.Name()})
}

// retain keeps the node of a lease that was released, until somebody takes it over or wants the lock: a lease without a hold.
func (l *localQueue) retain(n *node) {
	kept, err := newLease(n, connstate.Standard)
	if err != nil {
		n.leave(leaveTimeout)
		return
	}
	l.mu.Lock()
	kept.timer = time.AfterFunc(min(l.Lending.Keep, l.Within-time.Since(n.since)), func() { kept.end(errUnused) })
	kept.mu.Unlock()
	over := l.node != n
	if !over {
		l.kept = kept
		if len(l.waiting) > 0 && l.takeOver() != nil { // it came after the release
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
	l.node = nil
	return n
}
