package queue

import (
	"context"
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

// localState is that of a localQueue:
//
//	from        to          when
//	free        acquiring   a goroutine comes, and has the turn to create a node
//	acquiring   used        it holds
//	used        acquiring   the node is lent to the first waiter
//	used        kept        the node is kept for the next Acquire
//	kept        acquiring   a goroutine comes, and takes the node over
//	any         acquiring   the goroutine has failed, or the node has ended: the first waiter has the turn
//	any         free        the same, and nobody waits
type localState int8

const (
	free localState = iota
	acquiring
	used
	kept
)

// localQueue is where goroutines of one Queue wait while one of them has a node, or creates one. The zero value lends nothing, and
// is not entered.
type localQueue struct {
	Lending

	mu      sync.Mutex // guards what follows
	state   localState
	node    *node        // that is used or kept, or nil
	waiting []chan *node // one for each goroutine, of capacity 1; nil is the turn to create a node
}

// lends reports whether goroutines of this Queue wait in memory.
func (l *localQueue) lends() bool { return l.Lending != (Lending{}) }

// keeps reports whether nodes are kept for the next Acquire, by this Queue and so by others of the lock.
func (l *localQueue) keeps() bool { return l.Keep > 0 }

// enter returns the node that is kept or was lent to us, or nil for the turn to create one. After that, entered must be called.
func (l *localQueue) enter(ctx context.Context, mayWait bool) (*node, error) {
	l.mu.Lock()
	if n := l.takeOver(); n != nil || l.state == free {
		l.state = acquiring
		l.mu.Unlock()
		return n, nil
	}
	notFree := ErrNotAcquired
	if l.state != acquiring {
		notFree = errHeldHere
	}
	if !mayWait {
		l.mu.Unlock()
		return nil, notFree
	}
	turn := make(chan *node, 1)
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()

	var n *node
	select {
	case n = <-turn:
	case <-ctx.Done():
		if l.giveUp(turn) {
			return nil, givenUp(ctx, notFree)
		}
		n = <-turn // it comes at this moment
	}
	if n == nil && ctx.Err() != nil {
		l.entered(nil)
		return nil, givenUp(ctx, notFree)
	}
	return n, nil // a node is worth a try, even if ctx is done
}

// giveUp removes a waiter. It is false if it is one no more.
func (l *localQueue) giveUp(turn chan *node) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, turn)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	return i >= 0
}

// entered ends what enter began: with the hold of whoever entered, or nil if there is none.
func (l *localQueue) entered(h *Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h == nil || wait.Closed(h.lease.node.gone) {
		l.pass()
		return
	}
	l.state, l.node = used, h.lease.node
	if l.node.since.IsZero() {
		l.node.since = time.Now()
	}
}

// over is called when a node has ended: if it is ours, the turn is passed on.
func (l *localQueue) over(n *node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.node == n {
		l.pass()
	}
}

// pass gives the turn to create a node to the first waiter. l.mu is held.
func (l *localQueue) pass() {
	if next := l.pop(); next != nil {
		next <- nil
	}
}

// pop returns the channel of the first waiter, on which the caller must send: then that one acquires. It is nil if nobody waits.
// l.mu is held.
func (l *localQueue) pop() (next chan *node) {
	l.state, l.node = free, nil
	if len(l.waiting) > 0 {
		l.state = acquiring
		next = l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
	return next
}

// lend decides whether the node of a lease is lent or kept when the last holder releases it, and returns what does that. From then
// on the lease does not touch the node. It is nil if the node is to be deleted. lease.mu is held.
func (l *lease) lend() func() {
	local, n := &l.node.queue.local, l.node
	local.mu.Lock()
	defer local.mu.Unlock()
	if local.node != n { // nothing is lent, or its session has ended and another has the turn
		return nil
	}
	if l.shown || n.isCrowded() || n.lends >= local.Times || time.Since(n.since) > local.Within {
		return nil
	}
	lent := len(local.waiting) > 0
	if !lent && local.Keep == 0 || !n.pause() {
		return nil
	}
	if !lent {
		return func() { local.retain(n) }
	}
	n.lends++
	next := local.pop()
	return func() { next <- n }
}

// isCrowded reports whether somebody else may be in the queue with our node. Only a view shows that.
func (n *node) isCrowded() bool {
	v := n.inView()
	if v == nil {
		return true
	}
	names, _, err := v.Names(n.Order())
	return err != nil || !slices.Equal(names, []string{n.Name()})
}

// retain keeps the node of a lease that was released, until somebody takes it over or wants the lock: a lease without a hold.
func (l *localQueue) retain(n *node) {
	unused, err := newLease(n, connstate.Standard)
	if err != nil {
		n.leave(leaveTimeout)
		return
	}
	l.mu.Lock()
	unused.timer = time.AfterFunc(min(l.Keep, l.Within-time.Since(n.since)), func() { unused.end(errUnused) })
	unused.mu.Unlock()
	over := l.node != n
	if !over {
		l.state = kept
		if len(l.waiting) > 0 && l.takeOver() != nil { // it came after the release
			l.pop() <- n
		}
	}
	l.mu.Unlock()
	// The lease did not notice who has joined the queue before it began.
	if over || n.isCrowded() {
		unused.end(errUnused)
	}
}

// takeOver ends the lease of the node that is kept, and returns the node. It is nil if there is none, or it is being given back.
// l.mu is held.
func (l *localQueue) takeOver() *node {
	if l.state != kept || !l.node.lastLease().end(ErrReleased) {
		return nil
	}
	n := l.node
	l.state, l.node = acquiring, nil
	return n
}
