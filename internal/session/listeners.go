package session

import (
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/opt"
)

// listener is a function and the states that it was not called with yet.
type listener struct {
	f       func(connstate.State)
	queue   []connstate.State // guarded by Machine.mu, as is running
	running bool              // a goroutine calls it
	ends    bool              // it is called with the zero State at the end
}

// maxQueue bounds the queue of a listener that blocks.
const maxQueue = 16

// add appends a state. If too many pile up only a Lost among them stays.
func (l *listener) add(to connstate.State) {
	if len(l.queue) == maxQueue {
		lost := slices.Contains(l.queue, connstate.Lost)
		l.queue = nil
		if lost && to != connstate.Lost {
			l.queue = append(l.queue, connstate.Lost)
		}
	}
	l.queue = append(l.queue, to)
}

// Listen registers f. It is called with every new state from now on, not with the current one: in order, one
// call at a time, on a goroutine of the machine. f may block, and may call the machine. If f panics, the panic
// is logged, and f stays registered. If states pile up, some are left out, but never Lost or the latest. The error is
// [opt.ErrBadArgument] if f is nil, and [ErrClosed] after Close.
//
// remove unregisters f, and may be called again. It does not wait: one call of f may be running, or about to
// begin, when it returns.
func (m *Machine) Listen(f func(connstate.State)) (remove func(), err error) {
	if f == nil {
		return nil, fmt.Errorf("%w: nil state listener", opt.ErrBadArgument)
	}
	l := &listener{f: f}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	m.listeners[l] = struct{}{}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.listeners, l)
		l.queue = nil
	}, nil
}

// Observe registers f for good. It is Listen for a function that also gets the state before, and at last, when the machine is
// closed, the zero State. Then Close waits for the call, unless f is being called with a state before.
func (m *Machine) Observe(f func(from, to connstate.State)) {
	var last connstate.State // that f was called with
	l := &listener{ends: true, f: func(to connstate.State) {
		from := last
		last = to
		f(from, to)
	}}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listeners[l] = struct{}{}
}

// run calls a listener until its queue is empty. Then its goroutine ends: states change seldom, and a listener
// that nobody removes costs nothing.
func (m *Machine) run(l *listener) {
	for {
		m.mu.Lock()
		if len(l.queue) == 0 {
			l.running = false
			m.mu.Unlock()
			return
		}
		state := l.queue[0]
		l.queue = l.queue[1:]
		m.mu.Unlock()
		m.call(l, state)
	}
}

func (m *Machine) call(l *listener, state connstate.State) {
	returned := false
	defer func() {
		switch p := recover(); {
		case p != nil:
			m.log.Error("state listener panicked", "state", state, "panic", p, "stack", string(debug.Stack()))
		case !returned:
			go m.run(l) // f has ended our goroutine, as t.FailNow does
		}
	}()
	l.f(state)
	returned = true
}
