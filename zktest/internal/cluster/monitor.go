package cluster

import "sync"

// Monitor is the lock of a server, or of all members of a cluster, and orders their output. A
// function that may produce output calls Release instead of Unlock.
type Monitor struct {
	sync.Mutex
	outputs    []Output
	delivering bool   // a goroutine is in Release
	settle     func() // runs the agenda; nil for a server without a cluster
}

// Output is a frame to a client, or a call of a test's function.
type Output interface {
	// Deliver is called once. It may release the lock temporarily, with [Monitor.Outside].
	Deliver()
}

// Put adds an output to the single queue of all outputs. So a trace sees a reply before the client
// does, and a client receives events in the order of transactions.
func (m *Monitor) Put(o Output) { m.outputs = append(m.outputs, o) }

// Release delivers all outputs in order, and unlocks. If another goroutine is in Release, that
// goroutine delivers them. A test's function may therefore call the server while an output is
// delivered.
func (m *Monitor) Release() {
	if m.settle != nil {
		m.settle()
	}
	if m.delivering {
		m.Unlock()
		return
	}
	m.delivering = true
	defer func() { // even if a test's function ends its goroutine, like a failing test
		m.delivering = false
		m.Unlock()
	}()
	for len(m.outputs) > 0 {
		o := m.outputs[0]
		m.outputs = m.outputs[1:]
		o.Deliver()
	}
	m.outputs = nil
}

// Outside runs f without the lock, which must be held.
func (m *Monitor) Outside(f func()) {
	m.Unlock()
	defer m.Lock()
	f()
}

// Delivering reports whether a goroutine is delivering outputs in Release.
func (m *Monitor) Delivering() bool { return m.delivering }
