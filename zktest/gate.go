package zktest

import "sync"

// Gate blocks requests or replies until it is opened, see [Server.Block]. All methods are safe for
// concurrent use.
type Gate struct {
	match   Match
	replies bool
	arrived chan struct{}
	opened  chan struct{}
	first   sync.Once
	request Request // the first one, set before arrived is closed
	open    sync.Once
	remove  func() // removes it from the server's gates; nil if LoseWakeup withholds an answer
}

func newGate() *Gate {
	return &Gate{arrived: make(chan struct{}), opened: make(chan struct{})}
}

// Arrived returns a channel that is closed when the first request or reply waits at the gate.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// Open releases all blocked requests and removes the gate. Later calls do nothing.
func (g *Gate) Open() {
	g.open.Do(func() {
		if g.remove != nil {
			g.remove()
		}
		close(g.opened)
	})
}

// String returns the first blocked request, such as "block requests: create /a". Until a request
// arrives, String describes the requests that the gate blocks.
func (g *Gate) String() string {
	what := "block requests"
	if g.replies {
		what = "block replies"
	}
	select {
	case <-g.arrived:
		return what + ": " + g.request.String()
	default:
		return g.match.fault(what) + ": none arrived"
	}
}

// wait blocks a request until the gate is open. It reports false if closed is closed before.
func (g *Gate) wait(r Request, closed <-chan struct{}) bool {
	g.first.Do(func() {
		g.request = r
		close(g.arrived)
	})
	select {
	case <-g.opened:
		return true
	case <-closed:
		return false
	}
}
