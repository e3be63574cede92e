package zktest

import (
	"slices"
	"time"
)

// Inject applies a fault once, to the nth of the following requests that all matches select,
// counted from 0. A request meets only the fault that was injected first, and then does not count
// for later injections.
func (s *Server) Inject(f Fault, n int, matches ...Match) *Injection {
	i := &Injection{fault: f, left: n, match: all(matches), met: make(chan struct{})}
	add(&s.faults, &s.faults.injections, i)
	return i
}

// Block holds requests that all matches select before they are applied, until the gate is opened.
// Later requests of the same connection wait behind them. Other connections are not affected.
//
// If the connection is cut, the request is still applied when the gate opens, as on a slow real
// server. It is dropped if its session has expired or moved to another connection.
func (s *Server) Block(matches ...Match) *Gate { return s.addGate(false, matches) }

// BlockReplies applies requests that all matches select, and holds their replies until the gate is
// opened. Later output of the same connection waits behind them. Other connections are not
// affected.
func (s *Server) BlockReplies(matches ...Match) *Gate { return s.addGate(true, matches) }

func (s *Server) addGate(replies bool, matches []Match) *Gate {
	g := newGate()
	g.match, g.replies = all(matches), replies
	g.remove = func() {
		s.core.Lock()
		defer s.core.Unlock()
		s.faults.gates = without(s.faults.gates, g)
		s.faults.sample()
	}
	add(&s.faults, &s.faults.gates, g)
	return g
}

// Delay delays requests that all matches select by this duration before they are applied, until
// remove is called. Several delays add up.
func (s *Server) Delay(by time.Duration, matches ...Match) (remove func()) {
	return add(&s.faults, &s.faults.delays, &delay{by, all(matches)})
}

// Rewrite replaces the reply to each request that all matches select by the result of f, until stop
// is called. A reply is a frame with its length in the first four bytes. The request is applied,
// and the connection stays open.
//
// f may return any bytes, also several frames or none. With several calls of Rewrite, each f
// receives the result of the one before. Handshakes are included if [OnOp] names them.
//
// Calls of f never overlap, and are in the order of the replies. The server sends nothing while f
// runs. f may call all methods of the server except Close. It may still run when stop returns.
func (s *Server) Rewrite(f func(request Request, answer []byte) []byte, matches ...Match) (stop func()) {
	return add(&s.faults, &s.faults.rewrites, &rewrite{all(matches), f})
}

// Trace calls f for every reply and every watch event in order, before the client can see it, until
// stop is called. Housekeeping requests are skipped, see [Match]. The rules for f in
// [Server.Rewrite] apply.
func (s *Server) Trace(f func(Event)) (stop func()) {
	return add(&s.faults, &s.faults.traces, &trace{f})
}

// Faults describes each fault in force that [Server.ClearFaults] would remove, including unmet
// injections, sorted. A failed test can log them.
func (s *Server) Faults() []string {
	s.core.Lock()
	defer s.core.Unlock()
	list := slices.Concat(s.faults.list(), s.core.LinkFaults(), s.frozenAddresses())
	slices.Sort(list)
	return list
}

// frozenAddresses describes the frozen addresses. The lock is held.
func (s *Server) frozenAddresses() (list []string) {
	for _, l := range s.listeners {
		if l.route.Frozen() {
			list = append(list, "freeze address "+l.Addr())
		}
	}
	return list
}

// ClearFaults removes unmet injections, delays, rewrites, frozen links, a pause and all refusals.
// It opens gates and sends replies withheld by [LoseWakeup]. Traces, counts and stopped addresses
// remain.
//
// Between two tests, also call [Server.Flush] to delete the data.
func (s *Server) ClearFaults() {
	s.faults.clear()
	s.core.Lock()
	defer s.core.Release()
	for _, l := range s.listeners {
		s.core.FreezeRoute(&l.route, false)
	}
	s.core.ClearLinks()
	s.faults.sample()
}
