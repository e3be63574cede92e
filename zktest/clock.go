package zktest

import "time"

// Advance advances the server's clock by d, as if the server had heard nobody meanwhile: sessions end whose
// timeout is over then, connected or not, TTL nodes expire, and containers are checked. The times in later
// stats are ahead by as much. Use it instead of waiting; in a testing/synctest bubble it is not needed. A
// negative d counts as 0. The members of a cluster have one clock.
func (s *Server) Advance(d time.Duration) {
	d = max(d, 0)
	s.mu.Lock()
	defer s.unlock()
	if s.member != nil {
		s.member.cluster.advance(d)
		return
	}
	s.hearAll()
	s.ahead += d
	s.tracker.shift(-d)
	if s.stopped || !s.paused.IsZero() {
		return // nothing ends before it goes on
	}
	s.expireDue()
	for s.reap() > 0 {
	}
}
