package lock

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
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

// line is where goroutines of one Queue wait while one of them has a node, or is about to have one: its carrier. What
// the first in line gets is that node, or, when the node is gone, the turn to make one.
type line struct {
	handOff

	mu      sync.Mutex // guards what follows
	carried bool       // there is a carrier
	waiting list.List  // of *waiter
}

// waiter is one in line.
type waiter struct {
	turn   chan *place // capacity 1
	called bool        // turn has or will have something; guarded by the line's mu
}

// acquire waits in line, and in the servers' queue if it becomes the carrier.
func (l *line) acquire(ctx context.Context, q *Queue, a attempt) (*Hold, error) {
	for {
		p, err := l.enter(ctx, a.wait)
		switch {
		case err != nil:
			return nil, err
		case p == nil:
			return l.carry(ctx, q, a)
		}
		if h, err := newHold(ctx, p); err == nil {
			return h, nil
		}
		p.leave() // there is trouble with the node or its session
	}
}

// enter returns the node that was passed on to us, or nil for the turn to make one.
func (l *line) enter(ctx context.Context, wait bool) (*place, error) {
	l.mu.Lock()
	if !l.carried {
		l.carried = true
		l.mu.Unlock()
		return nil, nil
	}
	if !wait {
		l.mu.Unlock()
		return nil, ErrNotAcquired
	}
	w := &waiter{turn: make(chan *place, 1)}
	entry := l.waiting.PushBack(w)
	l.mu.Unlock()

	select {
	case p := <-w.turn:
		return p, nil
	case <-ctx.Done():
		l.leave(w, entry)
		return nil, ctxerr.Of(ctx)
	}
}

// leave takes a waiter out of the line. If its turn has come meanwhile, nobody else knows.
func (l *line) leave(w *waiter, entry *list.Element) {
	l.mu.Lock()
	l.waiting.Remove(entry)
	called := w.called
	l.mu.Unlock()
	if !called {
		return
	}
	if p := <-w.turn; p != nil {
		p.leave()
	} else {
		l.next()
	}
}

// carry queues on the servers. The turn of the next in line comes when the node is gone, or its session.
func (l *line) carry(ctx context.Context, q *Queue, a attempt) (*Hold, error) {
	h, err := q.contend(ctx, a)
	if err != nil {
		l.next()
		return nil, err
	}
	p, next := h.tenure.place, sync.OnceFunc(l.next)
	// A holder that was told "suspended" may keep its node for longer than the session lasts.
	stop := context.AfterFunc(p.session.Context(), next)
	p.whenOver(func() {
		stop()
		next()
	})
	return h, nil
}

// next gives the turn to make a node to the first in line.
func (l *line) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if turn := l.pop(); turn != nil {
		turn <- nil
	} else {
		l.carried = false
	}
}

// pop takes the first out of the line and returns what it waits on, which must be sent to. It is nil if
// nobody is there. l.mu is held.
func (l *line) pop() chan *place {
	first := l.waiting.Front()
	if first == nil {
		return nil
	}
	w := l.waiting.Remove(first).(*waiter)
	w.called = true
	return w.turn
}

// heir decides whether the lease is passed on, and to whom. From then on nothing that happens to
// the tenure touches the node. It is nil if the node is to be deleted.
func (t *tenure) heir() chan *place {
	l := t.place.queue.line
	if l == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost != nil || t.shown || !t.place.mayPass(l.handOff) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	turn := l.pop()
	t.passed = turn != nil
	return turn
}

// mayPass reports whether the place may be passed on once more, and counts that.
func (p *place) mayPass(limit handOff) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.alone == nil || isClosed(p.alone.Done()) || p.passes >= limit.times || time.Since(p.since) > limit.within {
		return false
	}
	p.passes++
	return true
}

// whenOver has f called when the place is over.
func (p *place) whenOver(f func()) {
	p.mu.Lock()
	over := p.ended
	if !over {
		p.onOver = f
	}
	p.mu.Unlock()
	if over {
		f()
	}
}

// show says that the holder will have what proves its hold to others. It reports whether the node is still
// the holder's to show.
func (t *tenure) show() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shown = true
	return !t.passed
}

// aloneIn returns a watch that fires when anybody joins or leaves the queue, if nobody but our node was in it.
func aloneIn(children []string, watch *framework.Watch) *framework.Watch {
	if len(children) != 1 {
		return nil
	}
	return watch
}
