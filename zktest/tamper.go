package zktest

import "slices"

type tamper struct {
	match Match
	f     func(Request, []byte) []byte
}

// Tamper calls f with the answer to each request that all matches select, handshakes included if [OnOp] names
// them, until stop is called. The server sends what f returns instead of the answer. The answer is a frame with
// its length in the first four bytes. f may return any bytes, also those of several frames; if it returns none,
// nothing is sent. The request was carried out, and the connection stays open. With several calls of Tamper,
// each f gets the result of the one before.
//
// Its name is not that of a fault, since f can also return what no server would answer.
//
// f is called from one goroutine at a time, in the order of the answers. The server answers nobody meanwhile,
// but f may call its other methods, except Close. A call that began before stop may still run after it.
func (s *Server) Tamper(f func(request Request, answer []byte) []byte, matches ...Match) (stop func()) {
	t := &tamper{All(matches...), f}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tampers = append(s.tampers, t)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tampers = slices.DeleteFunc(slices.Clone(s.tampers), func(other *tamper) bool { return other == t })
	}
}

// tampering lists those who change the answer to r.
func (s *Server) tampering(r Request) []*tamper {
	s.mu.Lock()
	tampers := slices.Clone(s.tampers)
	s.mu.Unlock()
	return slices.DeleteFunc(tampers, func(t *tamper) bool { return !t.match.picks(r) })
}

// changed is the answer o as its tampers have it. It lets go of s.mu meanwhile.
func (s *Server) changed(o output) []byte {
	s.mu.Unlock()
	defer s.mu.Lock()
	answer := o.frame
	for _, t := range o.tampers {
		answer = t.f(o.request, answer)
	}
	return answer
}
