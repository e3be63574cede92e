package zktest

import "slices"

type rewrite struct {
	match Match
	f     func(Request, []byte) []byte
}

// Rewrite has the server send what f returns instead of its answer to each request that all matches select,
// handshakes included if [OnOp] names them, until stop is called. The answer is a frame with its length in the first
// four bytes. f may return any bytes, also those of several frames, and those that no ZooKeeper would send; if it returns
// none, nothing is sent. The request was carried out, and the connection stays open. With several calls of Rewrite, each
// f gets the result of the one before.
//
// f is called from one goroutine at a time, in the order of the answers. The server answers nobody meanwhile,
// but f may call its other methods, except Close. A call that began before stop may still run after it.
func (s *Server) Rewrite(f func(request Request, answer []byte) []byte, matches ...Match) (stop func()) {
	r := &rewrite{All(matches...), f}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rewrites = append(s.rewrites, r)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.rewrites = slices.DeleteFunc(slices.Clone(s.rewrites), func(other *rewrite) bool { return other == r })
	}
}

// rewritesOf lists those who change the answer to r.
func (s *Server) rewritesOf(r Request) []*rewrite {
	s.mu.Lock()
	rewrites := slices.Clone(s.rewrites)
	s.mu.Unlock()
	return slices.DeleteFunc(rewrites, func(w *rewrite) bool { return !w.match.picks(r) })
}

// changed is the answer o as its rewrites return it. It unlocks s.mu meanwhile.
func (s *Server) changed(o output) []byte {
	s.mu.Unlock()
	defer s.mu.Lock()
	answer := o.frame
	for _, w := range o.rewrites {
		answer = w.f(o.request, answer)
	}
	return answer
}
