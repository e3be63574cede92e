package session

import (
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/opt"
)

// listener is a function and the states that are queued for it.
type listener struct {
	f       func(connstate.State)
	queue   []connstate.State // guarded by Machine.mu, as is running
	running bool              // a goroutine is calling it
	ends    bool              // it is called with the zero State at the end
}

// maxQueue bounds the queue of a listener that blocks.
const maxQueue = 16

// add queues a state. If the queue is full, it drops all of it except one Lost.
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

// Listen registers f for every new state from now on, not for the current state. The calls are in
// order, one at a time, on a goroutine of the machine. It returns [opt.ErrBadArgument] if f is nil,
// and [ErrClosed] after Close.
//
// f may block, and may call the machine. If it panics, the panic is logged, and f stays registered.
// If states pile up, some are skipped, but never Lost or the latest.
//
// remove unregisters f, and may be called again. It does not wait: one call of f may be running, or
// about to begin, when it returns.
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

// Observe registers f permanently. f also receives the previous state, and the zero State when the
// machine is closed. Close waits for that last call, unless another call of f is running.
func (m *Machine) Observe(f func(from, to connstate.State)) {
	var last connstate.State // the previous argument of f
	l := &listener{ends: true, f: func(to connstate.State) {
		from := last
		last = to
		f(from, to)
	}}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listeners[l] = struct{}{}
}

// run calls a listener until its queue is empty. Then its goroutine exits: states change seldom,
// and an idle listener costs nothing.
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
			go m.run(l) // f has ended this goroutine, as t.FailNow does
		}
	}()
	l.f(state)
	returned = true
}
