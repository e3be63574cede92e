package connstate

import (
	"errors"
	"log/slog"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
)

// ErrNilListener is what Listen returns for a nil function.
var ErrNilListener = errors.New("nil state listener")

// listener is a function and what it has not been told yet.
type listener struct {
	f       func(State)
	queue   []State // guarded by Machine.mu, as is running
	running bool    // a goroutine tells it
}

// Listen has f called with every new state from now on, not with the one in force: in
// order, one at a time, on a goroutine of the machine's. f may block, and may call the
// machine. A panic of f is reported, and f stays. The error is [ErrNilListener] if f is nil, and
// [ErrClosed] after Close.
//
// remove ends that, and may be called again. It does not wait: one call of f may still be
// running when it returns, or just be about to.
func (m *Machine) Listen(f func(State)) (remove func(), err error) {
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

// tell calls a listener until there is nothing to tell any more. Its goroutine lives no longer
// than that: states change seldom, and a listener that nobody removes costs nothing.
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
func call(f func(State), state State, log *slog.Logger) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("state listener panicked", "state", state, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f(state)
}

// insideListener reports whether a listener, of whatever machine, called us. That is what
// the stack says; nothing else in Go knows who is asking.
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

// maxQueue bounds what a listener that blocks can pile up.
const maxQueue = 64

// add appends a state. When there are too many, those in the middle are replaced by the
// shortest legal sequence that leads from the oldest to the newer half: through Lost if
// there was a Lost among them, for that must not be missed.
func (l *listener) add(to State) {
	l.queue = append(l.queue, to)
	if len(l.queue) <= maxQueue {
		return
	}
	// The oldest stays: it follows what the listener was told last.
	kept := l.queue[:1:1]
	dropped, rest := l.queue[1:maxQueue/2], l.queue[maxQueue/2:]
	if slices.Contains(dropped, Lost) {
		kept = lead(kept, Lost)
	}
	kept = lead(kept, rest[0])
	l.queue = append(kept, rest[1:]...)
}

// lead appends to, and before it Suspended or Reconnected if the states could not follow
// each other otherwise. It is not for Connected, which follows nothing.
func lead(states []State, to State) []State {
	for {
		last := states[len(states)-1]
		switch {
		case last == to:
			return states
		case last.leadsTo(to):
			return append(states, to)
		case last.leadsTo(Suspended):
			states = append(states, Suspended)
		default:
			states = append(states, Reconnected)
		}
	}
}
