package zktest

// ClearFaults takes back all that makes the server misbehave: injections that no request has met,
// gates (they are opened), delays, tampering, frozen links, refusals of connections and sessions,
// and a pause. Between tests it is what [Server.Flush] is for data. Traces, counts and
// addresses that were stopped stay.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	gates := s.gates
	s.gates = nil
	s.injections, s.delays, s.tampers = nil, nil, nil
	s.refusing, s.leaderless = false, false
	s.mu.Unlock()
	for _, g := range gates {
		g.Open()
	}
	s.Thaw()
	s.Resume()
}
