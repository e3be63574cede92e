package session

import (
	"errors"
	"log/slog"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/gocurator/curator/connstate"
)

// ErrNilListener is what Listen returns for a nil function.
var ErrNilListener = errors.New("nil state listener")

// listener is a function and the states that it was not called with yet.
type listener struct {
	f       func(connstate.State)
	queue   []connstate.State // guarded by Machine.mu, as is running
	running bool              // a goroutine tells it
}

// Listen registers f. It is called with every new state from now on, not with the current one: in order, one
// call at a time, on a goroutine of the machine. f may block, and may call the machine. If f panics, the panic
// is logged, and f stays registered. The error is [ErrNilListener] if f is nil, and [ErrClosed] after Close.
//
// remove unregisters f, and may be called again. It does not wait: one call of f may be running, or about to
// begin, when it returns.
func (m *Machine) Listen(f func(connstate.State)) (remove func(), err error) {
	if f == nil {
		return nil, ErrNilListener
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

// tell calls a listener until its queue is empty. Then its goroutine ends: states change seldom, and a listener
// that nobody removes costs nothing.
func (m *Machine) tell(l *listener) {
	told := false
	defer func() {
		if !told {
			go m.tell(l) // the listener has ended our goroutine, as t.FailNow does
		}
	}()
	for {
		m.mu.Lock()
		if len(l.queue) == 0 {
			l.running = false
			told = true
			m.mu.Unlock()
			m.tells.Done()
			return
		}
		state := l.queue[0]
		l.queue = l.queue[1:]
		m.mu.Unlock()
		call(l.f, state, m.log)
	}
}

// call is the one place from which listeners are called: see insideListener.
func call(f func(connstate.State), state connstate.State, log *slog.Logger) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("state listener panicked", "state", state, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f(state)
}

// insideListener reports whether a listener, of any machine, called us. Only the stack can tell.
func insideListener() bool {
	stack := make([]uintptr, 64)
	n := runtime.Callers(1, stack)
	for n == len(stack) { // there may be more
		stack = make([]uintptr, 2*n)
		n = runtime.Callers(1, stack)
	}
	entry := reflect.ValueOf(call).Pointer()
	frames := runtime.CallersFrames(stack[:n])
	for {
		frame, more := frames.Next()
		if frame.Entry == entry {
			return true
		}
		if !more {
			return false
		}
	}
}

// maxQueue bounds the queue of a listener that blocks.
const maxQueue = 64

// add appends a state. When there are too many, those in the middle are replaced by the shortest legal sequence
// that leads from the oldest to the newer half: through Lost if there was a Lost among them, since a listener
// must not miss that.
func (l *listener) add(to connstate.State) {
	l.queue = append(l.queue, to)
	if len(l.queue) <= maxQueue {
		return
	}
	// The oldest stays: it follows the state of the last call.
	kept := l.queue[:1:1]
	dropped, rest := l.queue[1:maxQueue/2], l.queue[maxQueue/2:]
	if slices.Contains(dropped, connstate.Lost) {
		kept = lead(kept, connstate.Lost)
	}
	kept = lead(kept, rest[0])
	l.queue = append(kept, rest[1:]...)
}

// lead appends to, and before it Suspended or Reconnected if the states could not follow each other otherwise.
// It is not for Connected, which follows no other state.
func lead(states []connstate.State, to connstate.State) []connstate.State {
	for {
		last := states[len(states)-1]
		switch {
		case last == to:
			return states
		case leadsTo(last, to):
			return append(states, to)
		case leadsTo(last, connstate.Suspended):
			states = append(states, connstate.Suspended)
		default:
			states = append(states, connstate.Reconnected)
		}
	}
}
