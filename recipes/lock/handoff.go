package lock

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// WithLocalHandOff hands a lease off in memory: if goroutines of one process wait for the same Queue, and
// nobody else is in the queue on the servers, Release gives the lease to the next goroutine instead of deleting
// the node. times limits how often it does so in a row, and within how long one node may hold in this way. Both
// must be positive. The default is no hand-off.
//
// What changes: only one goroutine of the Queue at a time has a node. The others wait in memory, first come
// first served, and [Queue.Participants] does not list them. As soon as anyone else is in the queue, leases are
// not handed off, and processes take turns.
//
// What does not change: each holder has a [Hold] of its own and is told of every loss. A lease is not handed
// off after its holder has called [Hold.FencingToken], [Hold.Guard] or [Hold.Path]. So tokens still rise from
// holder to holder, and a guard fails after its hold was released.
//
// It needs one lease and the [Standard] driver, as in a mutex: otherwise New returns [ErrBadArgument].
func WithLocalHandOff(times int, within time.Duration) Option {
	return func(c *config) error {
		if times < 1 || within <= 0 {
			return fmt.Errorf("%w: local hand-off %d times within %v", ErrBadArgument, times, within)
		}
		c.handOff = &handOff{times, within}
		return nil
	}
}

// handOff limits local hand-offs.
type handOff struct {
	times  int
	within time.Duration
}

// localQueue is where goroutines of one Queue wait while one of them has a node, or creates one. The first
// waiter gets that node, or, when the node is deleted, the turn to create one.
type localQueue struct {
	handOff

	mu      sync.Mutex  // guards what follows
	taken   bool        // a goroutine has a node, or the turn to make one
	node    *entry      // whose end passes the turn on; nil while a goroutine acquires
	unwatch func() bool // ends the watch on the session of node
	waiting list.List   // of *localWaiter
}

// localWaiter is a goroutine that waits.
type localWaiter struct {
	turn   chan *entry // capacity 1; nil is the turn to make a node
	called bool        // turn has or will have something; guarded by the queue's mu
}

// acquire waits for the node or the turn. With either it is a waiter in the servers' queue.
func (l *localQueue) acquire(ctx context.Context, q *Queue, wait bool) (*Hold, error) {
	e, err := l.enter(ctx, q, wait)
	if err != nil {
		return nil, err
	}
	var h *Hold
	if e != nil {
		h, err = q.resume(ctx, e)
	} else {
		h, err = q.contend(ctx, wait)
	}
	if err != nil {
		l.next()
		return nil, err
	}
	l.keep(h.lease.entry)
	return h, nil
}

// enter returns the node that was handed off to us, or nil for the turn to create one.
func (l *localQueue) enter(ctx context.Context, q *Queue, mayWait bool) (*entry, error) {
	l.mu.Lock()
	if !l.taken {
		l.taken = true
		l.mu.Unlock()
		return nil, nil
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
	w := &localWaiter{turn: make(chan *entry, 1)}
	place := l.waiting.PushBack(w)
	l.mu.Unlock()

	select {
	case e := <-w.turn:
		if e != nil || ctx.Err() == nil {
			return e, nil
		}
		l.next()
	case <-ctx.Done():
		l.leave(w, place)
	}
	return nil, givenUp(ctx, notFree)
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
	if e := <-w.turn; e != nil {
		e.leave()
	}
	l.next()
}

// keep has the turn pass on when a node that holds, or its session, has ended. A holder that was told ErrSuspended may keep its
// node for longer than the session lasts.
func (l *localQueue) keep(e *entry) {
	over := func() { l.over(e) }
	l.mu.Lock()
	l.node, l.unwatch = e, context.AfterFunc(e.session.Context(), over)
	l.mu.Unlock()
	e.whenOver(over)
}

// over passes the turn on, unless the node was handed off or its end is known already.
func (l *localQueue) over(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.node == e {
		l.forget()
		l.pass()
	}
}

// forget ends what keep began. l.mu is held.
func (l *localQueue) forget() {
	l.unwatch()
	l.node = nil
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
func (l *localQueue) pop() chan *entry {
	first := l.waiting.Front()
	if first == nil {
		return nil
	}
	w := l.waiting.Remove(first).(*localWaiter)
	w.called = true
	return w.turn
}

// nextLocal decides whether the lease is handed off, and returns the next waiter's channel. From then on this
// lease does not touch the node. It is nil if the node is to be deleted. lease.mu is held.
func (l *lease) nextLocal() chan *entry {
	local := l.entry.queue.local
	if local == nil || l.shown || !l.entry.mayPass(local.handOff) {
		return nil
	}
	local.mu.Lock()
	defer local.mu.Unlock()
	if local.node != l.entry { // its session has ended, and another has the turn
		return nil
	}
	next := local.pop()
	if next != nil {
		local.forget()
	}
	return next
}

// mayPass reports whether the node may be handed off once more, and counts it. Only a view can tell that nobody
// else is in the queue.
func (e *entry) mayPass(limit handOff) bool {
	v := e.inView()
	if v == nil || !v.Alone(e) {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended || isClosed(e.vanished) || e.passes >= limit.times || time.Since(e.since) > limit.within {
		return false
	}
	e.passes++
	return true
}
