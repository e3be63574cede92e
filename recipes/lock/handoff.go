package lock

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gocurator/curator/internal/ctxerr"
)

// WithLocalHandOff passes a node on in memory: when goroutines of one process wait for the same Queue, and nobody
// else is in the queue on the servers, Release gives the lease to the next goroutine instead of giving it back.
// That happens at most this many times in a row, and not when the node has held for longer than
// within; then the node is deleted, and the order of the servers' queue rules. Both must be positive. The default is no
// hand-off.
//
// What changes: one goroutine of the Queue has a node at a time. The others wait in memory, first come first served, where
// [Queue.Participants] does not show them. So between processes the turns go from process to process, not from goroutine
// to goroutine; as soon as anyone else is in the queue, nothing is passed on.
//
// What does not: each holder has a [Hold] of its own that ends as it did, and hears of every loss. What proves a hold ends with
// it: a lease whose holder has asked for [Hold.FencingToken], [Hold.Guard] or [Hold.Path] is not passed on, so
// tokens still rise from holder to holder, and a guard fails once its hold was released.
//
// It is for one lease and the [Standard] driver, as in a mutex: New refuses it with anything else.
func WithLocalHandOff(times int, within time.Duration) Option {
	return func(c *config) error {
		if times < 1 || within <= 0 {
			return fmt.Errorf("%w: local hand-off %d times within %v", ErrBadArgument, times, within)
		}
		c.handOff = &handOff{times, within}
		return nil
	}
}

// handOff is how far a node may be passed on.
type handOff struct {
	times  int
	within time.Duration
}

// localQueue is where goroutines of one Queue wait while one of them has a node, or is about to have one. What
// the first gets is that node, or, when the node is gone, the turn to make one.
type localQueue struct {
	handOff

	mu      sync.Mutex // guards what follows
	taken   bool       // a goroutine has a node, or the turn to make one
	waiting list.List  // of *localWaiter
}

// localWaiter is a goroutine that waits.
type localWaiter struct {
	turn   chan *entry // capacity 1; nil is the turn to make a node
	called bool        // turn has or will have something; guarded by the queue's mu
}

// acquire waits for the node or the turn, and in the servers' queue if it gets the turn.
func (l *localQueue) acquire(ctx context.Context, q *Queue, wait bool) (*Hold, error) {
	for {
		e, err := l.enter(ctx, wait)
		switch {
		case err != nil:
			return nil, err
		case e == nil:
			return l.contend(ctx, q, wait)
		}
		if h, err := newHold(ctx, e); err == nil {
			return h, nil
		}
		e.leave() // there is trouble with the node or its session
	}
}

// enter returns the node that was passed on to us, or nil for the turn to make one.
func (l *localQueue) enter(ctx context.Context, wait bool) (*entry, error) {
	l.mu.Lock()
	if !l.taken {
		l.taken = true
		l.mu.Unlock()
		return nil, nil
	}
	if !wait {
		l.mu.Unlock()
		return nil, ErrNotAcquired
	}
	w := &localWaiter{turn: make(chan *entry, 1)}
	place := l.waiting.PushBack(w)
	l.mu.Unlock()

	select {
	case e := <-w.turn:
		return e, nil
	case <-ctx.Done():
		l.leave(w, place)
		return nil, fmt.Errorf("%w: %w", ErrNotAcquired, ctxerr.Of(ctx))
	}
}

// leave takes a waiter out. If its turn has come meanwhile, nobody else knows.
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
	} else {
		l.next()
	}
}

// contend queues on the servers. The next turn comes when the node is gone, or its session.
func (l *localQueue) contend(ctx context.Context, q *Queue, wait bool) (*Hold, error) {
	h, err := q.contend(ctx, wait)
	if err != nil {
		l.next()
		return nil, err
	}
	e, next := h.lease.entry, sync.OnceFunc(l.next)
	// A holder that was told ErrSuspended may keep its node for longer than the session lasts.
	stop := context.AfterFunc(e.session.Context(), next)
	e.whenOver(func() {
		stop()
		next()
	})
	return h, nil
}

// next gives the turn to make a node to the first that waits.
func (l *localQueue) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if turn := l.pop(); turn != nil {
		turn <- nil
	} else {
		l.taken = false
	}
}

// pop takes the first out and returns what it waits on, which must be sent to. It is nil if
// nobody waits. l.mu is held.
func (l *localQueue) pop() chan *entry {
	first := l.waiting.Front()
	if first == nil {
		return nil
	}
	w := l.waiting.Remove(first).(*localWaiter)
	w.called = true
	return w.turn
}

// nextLocal decides whether the lease is passed on, and returns where to. From then on nothing that happens to
// this lease touches the node. It is nil if the node is to be deleted. lease.mu is held.
func (l *lease) nextLocal() chan *entry {
	local := l.entry.queue.local
	if local == nil || l.shown || !l.entry.mayPass(local.handOff) {
		return nil
	}
	local.mu.Lock()
	defer local.mu.Unlock()
	return local.pop()
}

// mayPass reports whether the node may be passed on once more, and counts that. Only a view can say that nobody
// else is in the queue.
func (e *entry) mayPass(limit handOff) bool {
	v := e.inView()
	if v == nil || !v.alone(e) {
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
