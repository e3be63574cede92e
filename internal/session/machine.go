package session

import (
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/gocurator/curator/connstate"
)

// ErrClosed is returned after the machine was closed.
var ErrClosed = errors.New("state machine closed")

// Machine holds the state of one client and calls listeners when it changes. It is Curator's
// ConnectionStateManager, without the session timer, which is [Deadline].
//
// All methods are safe for concurrent use, also from inside a listener.
type Machine struct {
	log *slog.Logger

	mu        sync.Mutex // guards the fields below, and the queues of the listeners
	state     connstate.State
	reached   bool // there has been a connection
	listeners map[*listener]struct{}
	closed    bool
}

// NewMachine returns a machine in the zero State. It logs panics of listeners to log; nil discards
// them.
func NewMachine(log *slog.Logger) *Machine {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Machine{
		log:       log,
		listeners: make(map[*listener]struct{}),
	}
}

// next lists all transitions. Other changes are ignored.
var next = map[connstate.State][]connstate.State{
	0:                     {connstate.Connected, connstate.Suspended},
	connstate.Connected:   {connstate.Suspended},
	connstate.Suspended:   {connstate.Connected, connstate.Reconnected, connstate.Lost},
	connstate.Reconnected: {connstate.Suspended},
	connstate.Lost:        {connstate.Connected, connstate.Reconnected},
}

// State returns the current state. After Close it returns the last state.
func (m *Machine) State() connstate.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// Set changes the state to Connected, Suspended or Lost. It does not wait for listeners.
//
// A second Connected becomes Reconnected, and Suspended is inserted before Lost. A state equal to
// the current one is ignored, and so is every state after Close. Suspended and Lost are ignored
// before the first connection: see Absent.
func (m *Machine) Set(to connstate.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	if !m.reached && !to.IsConnected() {
		return // see Absent
	}
	if to == connstate.Connected && m.reached {
		to = connstate.Reconnected
	}
	m.reached = m.reached || to.IsConnected()
	if to == connstate.Lost && m.state.IsConnected() {
		m.move(connstate.Suspended)
	}
	m.move(to)
}

// Absent changes the state of a client that has had no connection yet: to Suspended, and later to
// Lost. After the first connection it does nothing and returns false.
func (m *Machine) Absent(to connstate.State) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reached || m.closed {
		return false
	}
	m.move(to)
	return true
}

// move carries out a transition, if there is one. m.mu is held.
func (m *Machine) move(to connstate.State) {
	if !slices.Contains(next[m.state], to) {
		return
	}
	m.state = to
	for l := range m.listeners {
		l.add(to)
		if !l.running {
			l.running = true
			go m.run(l) // exits when the queue is empty; Close empties it
		}
	}
}

// Close stops the calls of listeners. It waits for the last call of functions of Observe only. It
// may be called again, even by a listener.
//
// One call of each other listener may be running, or about to begin.
func (m *Machine) Close() {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	m.closed = true
	var idle []*listener
	for l := range m.listeners {
		l.queue = nil
		if l.ends {
			l.add(0)
			if !l.running {
				l.running = true
				idle = append(idle, l)
			}
		}
	}
	m.mu.Unlock()
	for _, l := range idle {
		m.run(l)
	}
}
