package zktest

import "time"

// Advance moves the server's clock, as if this much time had passed in which it heard from
// nobody: sessions end whose time is over by then, connected or not, TTL nodes grow old, and
// containers are checked. The times in later stats are ahead by as much. It is for time that a
// test does not want to wait; in a testing/synctest bubble time passes by itself. A negative d is
// taken for 0. The members of a cluster have one clock.
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
