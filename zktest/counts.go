package zktest

// Counts are numbers of requests and bytes.
type Counts struct {
	Requests        map[string]int // applied requests by operation, without handshakes
	BytesIn         int64
	BytesOut        int64
	WatchEventsSent int
}

// Requests returns the counts since the server started, or since the last [Server.ResetCounts].
func (s *Server) Requests() Counts {
	s.core.Lock()
	defer s.core.Unlock()
	requests, in, out, events := s.core.Counts()
	c := Counts{BytesIn: in, BytesOut: out, WatchEventsSent: events}
	for op, n := range requests {
		if c.Requests == nil {
			c.Requests = make(map[string]int)
		}
		c.Requests[op.String()] = n
	}
	return c
}

// ResetCounts sets all counts to 0.
func (s *Server) ResetCounts() {
	s.core.Lock()
	defer s.core.Unlock()
	s.core.ResetCounts()
}
