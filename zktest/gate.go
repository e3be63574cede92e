package zktest

import (
	"slices"
	"sync"
	"time"
)

// Gate makes requests, or their answers, wait until it is opened. [Server.Block] and [Server.BlockReplies] return one. All methods
// are safe for concurrent use.
type Gate struct {
	server  *Server
	match   Match
	replies bool
	arrived chan struct{}
	opened  chan struct{}
	first   sync.Once
	open    sync.Once
}

// Block makes requests that all matches select wait before they are applied, until the gate is opened. Later
// requests of the same connection wait behind them; other connections are not affected. A request whose
// connection is cut meanwhile is applied when the gate opens, as on a real server that is slow, unless its
// session is over or has moved to another connection by then.
func (s *Server) Block(matches ...Match) *Gate { return s.addGate(false, matches) }

// BlockReplies is [Server.Block], except that requests are applied, and their answers wait. So
// does all that the server sends to the same connection after them.
func (s *Server) BlockReplies(matches ...Match) *Gate { return s.addGate(true, matches) }

func (s *Server) addGate(replies bool, matches []Match) *Gate {
	g := &Gate{server: s, match: All(matches...), replies: replies, arrived: make(chan struct{}), opened: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gates = append(s.gates, g)
	return g
}

// Arrived is closed when the first request waits at the gate.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// Open lets all requests through from now on. It may be called again.
func (g *Gate) Open() {
	g.open.Do(func() {
		s := g.server
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gates = slices.DeleteFunc(s.gates, func(other *Gate) bool { return other == g })
		close(g.opened)
	})
}

// replyGates lists the gates that hold the answer to r.
func (s *Server) replyGates(r Request) []*Gate { return s.closedTo(r, true) }

func (s *Server) closedTo(r Request, replies bool) []*Gate {
	s.mu.Lock()
	gates := slices.Clone(s.gates)
	s.mu.Unlock()
	return slices.DeleteFunc(gates, func(g *Gate) bool { return g.replies != replies || !g.match.picks(r) })
}

// wait waits until all gates are open. It reports false if the server ends before.
func (s *Server) wait(gates []*Gate) bool {
	for _, g := range gates {
		g.first.Do(func() { close(g.arrived) })
		select {
		case <-g.opened:
		case <-s.done:
			return false
		}
	}
	return true
}

type delay struct {
	by    time.Duration
	match Match
}

// Delay makes requests that all matches select wait this long before they are applied, until remove is called.
// Several delays add up.
func (s *Server) Delay(by time.Duration, matches ...Match) (remove func()) {
	d := &delay{by, All(matches...)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delays = append(s.delays, d)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.delays = slices.DeleteFunc(s.delays, func(other *delay) bool { return other == d })
	}
}

// delayed is how long r has to wait.
func (s *Server) delayed(r Request) (sum time.Duration) {
	s.mu.Lock()
	delays := slices.Clone(s.delays)
	s.mu.Unlock()
	for _, d := range delays {
		if d.match.picks(r) {
			sum += d.by
		}
	}
	return sum
}

// pass waits while something holds r up. It reports false if the server ends before.
func (s *Server) pass(r Request) bool {
	if !s.wait(s.closedTo(r, false)) {
		return false
	}
	by := s.delayed(r)
	if by <= 0 {
		return true
	}
	timer := time.NewTimer(by)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.done:
		return false
	}
}
