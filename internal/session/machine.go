package session

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/connstate"
)

// ErrClosed means that the machine was closed: its state no longer changes.
var ErrClosed = errors.New("state machine closed")

// Machine holds the state of one client and calls listeners when it changes. It is Curator's
// ConnectionStateManager, without the part that watches the session, which is [Deadline].
//
// All methods are safe for concurrent use, also from inside a listener.
type Machine struct {
	log   *slog.Logger
	tells sync.WaitGroup // goroutines that tell a listener

	mu        sync.Mutex // guards what follows, and the queues of the listeners
	state     connstate.State
	reached   bool // there was a connection
	listeners map[*listener]struct{}
	closed    bool
}

// NewMachine makes a machine in the zero State. Panics of listeners are logged to log; nil discards them.
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
	0:                     {connstate.Connected, connstate.Suspended, connstate.ReadOnly},
	connstate.Connected:   {connstate.Suspended, connstate.ReadOnly},
	connstate.Suspended:   {connstate.Connected, connstate.Reconnected, connstate.Lost, connstate.ReadOnly},
	connstate.Reconnected: {connstate.Suspended, connstate.ReadOnly},
	connstate.Lost:        {connstate.Connected, connstate.Reconnected, connstate.ReadOnly},
	connstate.ReadOnly:    {connstate.Suspended, connstate.Reconnected},
}

// leadsTo reports whether from can be followed by to.
func leadsTo(from, to connstate.State) bool { return slices.Contains(next[from], to) }

// State is the current state. After Close it is the last one.
func (m *Machine) State() connstate.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// Set moves to a state. It does not wait for listeners. Callers pass what they see: Connected, Suspended, Lost
// or ReadOnly. A second Connected becomes Reconnected, and Suspended is inserted before Lost. A state that is
// no transition is ignored, and so is every state after Close, and Suspended and Lost before the first
// connection: see Absent.
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

// Absent moves to a state of a client that has had no connection yet: Suspended, and later Lost. If there has
// been a connection, it does nothing and returns false.
func (m *Machine) Absent(to connstate.State) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reached || m.closed {
		return false
	}
	m.move(to)
	return true
}

// move makes one transition, if it is legal. m.mu is held.
func (m *Machine) move(to connstate.State) {
	if !leadsTo(m.state, to) {
		return
	}
	m.state = to
	for l := range m.listeners {
		l.add(to)
		if !l.running {
			l.running = true
			m.tells.Add(1)
			go m.tell(l) // ends when the queue is empty; Close empties it
		}
	}
}

// closeReport is how long Close waits before it logs what it waits for.
const closeReport = 5 * time.Second

// Close stops calling listeners, and waits for listeners that are running. When it returns,
// every goroutine of the machine has ended. It may be called any number of times.
//
// Called by a listener, of this machine or another, it does not wait: it would wait for its own caller, or two
// listeners would wait for each other. It notices that only on its own goroutine, so a listener must not wait
// for another goroutine that calls Close.
func (m *Machine) Close() {
	m.mu.Lock()
	m.closed = true
	for l := range m.listeners {
		l.queue = nil
	}
	m.mu.Unlock()
	if insideListener() {
		return
	}
	late := time.AfterFunc(closeReport, func() {
		m.log.Warn("closing waits for a state listener that does not return")
	})
	defer late.Stop()
	m.tells.Wait()
}
