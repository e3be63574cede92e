package connstate

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gocurator/curator/internal/ctxerr"
)

// ErrClosed means that the machine was closed: the state does not change any more.
var ErrClosed = errors.New("state machine closed")

// Machine holds the state of one client and tells listeners of its changes. It is
// Curator's ConnectionStateManager, without the part that watches the session: that is
// [Deadline].
//
// All methods are safe for concurrent use, also from inside a listener.
type Machine struct {
	log   *slog.Logger
	tells sync.WaitGroup // goroutines that tell a listener

	mu        sync.Mutex // guards what follows, and the queues of the listeners
	state     State
	reached   bool          // there was a connection
	changed   chan struct{} // closed when the state changes, and then replaced; or by Close
	listeners map[*listener]struct{}
	closed    bool
}

// NewMachine makes a machine in the zero State. Panics of listeners are reported to
// log; nil discards them.
func NewMachine(log *slog.Logger) *Machine {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Machine{
		log:       log,
		changed:   make(chan struct{}),
		listeners: make(map[*listener]struct{}),
	}
}

// State is the current state. After Close it is the last one.
func (m *Machine) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// Set moves to a state. It does not wait for listeners. Callers say only what they see,
// Connected, Suspended, Lost or ReadOnly: a second Connected becomes Reconnected,
// Lost goes through Suspended, and what is no transition is ignored. So is everything after
// Close, and trouble before the first connection: see Absent.
func (m *Machine) Set(to State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	if !m.reached && !to.IsConnected() {
		return // see Absent
	}
	if to == Connected && m.reached {
		to = Reconnected
	}
	m.reached = m.reached || to.IsConnected()
	if to == Lost && m.state.IsConnected() {
		m.move(Suspended)
	}
	m.move(to)
}

// Absent moves to a state for a client that has had no connection so far: Suspended, and later Lost. It
// reports false, and does nothing, if there has been one.
func (m *Machine) Absent(to State) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reached || m.closed {
		return false
	}
	m.move(to)
	return true
}

// move makes one step, if it is one. m.mu is held.
func (m *Machine) move(to State) {
	if !m.state.leadsTo(to) {
		return
	}
	m.state = to
	close(m.changed)
	m.changed = make(chan struct{})
	for l := range m.listeners {
		l.add(to)
		if !l.running {
			l.running = true
			m.tells.Add(1)
			go m.tell(l) // ends when the queue is empty; Close empties it
		}
	}
}

// WaitConnected returns when the state is one with a connection, at once if it is now.
// Errors are [ErrClosed] and, when ctx is done first, that of ctx with its cause. It
// is Curator's blockUntilConnected.
func (m *Machine) WaitConnected(ctx context.Context) error {
	for {
		m.mu.Lock()
		state, changed, closed := m.state, m.changed, m.closed
		m.mu.Unlock()
		switch {
		case closed:
			return ErrClosed
		case ctx.Err() != nil:
			return ctxerr.Of(ctx)
		case state.IsConnected():
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// patience is how long Close waits before it says what for.
const patience = 5 * time.Second

// Close ends all waiting and delivery, and waits for listeners that are being called. When it
// returns every goroutine of the machine has ended, and no listener is called any more.
// It may be called any number of times.
//
// Called from inside a listener, of this machine or another, it does not wait: it would
// wait for its caller, or two listeners for each other. It sees that only on
// its own goroutine, so a listener must not wait for another one that closes.
func (m *Machine) Close() {
	m.mu.Lock()
	if !m.closed {
		m.closed = true
		close(m.changed)
	}
	for l := range m.listeners {
		l.queue = nil
	}
	m.mu.Unlock()
	if insideListener() {
		return
	}
	late := time.AfterFunc(patience, func() {
		m.log.Warn("closing waits for a state listener that does not return")
	})
	defer late.Stop()
	m.tells.Wait()
}
