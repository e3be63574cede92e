package zktest

// ClearFaults ends all faults: injections that no request has met, gates (they are opened), answers that
// [LoseWakeup] withholds, delays, rewritten answers, frozen links, refusals of connections, sessions and credentials, and a pause. Use
// it between tests, together with [Server.Flush] for data. Traces, counts and stopped addresses stay.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	gates := s.gates
	for _, l := range s.listeners {
		l.frozen = false
	}
	s.gates = nil
	s.injections, s.delays, s.rewrites = nil, nil, nil
	s.refuses = 0
	s.mu.Unlock()
	for _, g := range gates {
		g.Open()
	}
	s.asleep.wake()
	s.Thaw()
	s.Resume()
}
