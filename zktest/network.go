package zktest

import (
	"context"
	"net"
	"time"
)

// Dial connects to the server without a network, whatever the address. It is a
// zk.Dialer. While the server is stopped or refuses connections it returns an error.
func (s *Server) Dial(string, string, time.Duration) (net.Conn, error) {
	client, server := net.Pipe()
	if err := s.accept(server, nil); err != nil {
		_ = client.Close()
		return nil, err
	}
	return client, nil
}

// DialContext is Dial with the signature of net.Dialer.DialContext.
func (s *Server) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.Dial(network, address, 0)
}

// CutConnections cuts all connections. Sessions live on, and their clients may connect again.
func (s *Server) CutConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.cut()
	}
}

// RefuseConnections makes the server refuse new connections, until it is called with false.
func (s *Server) RefuseConnections(refuse bool) {
	s.refuse(connections, refuse)
}

// RefuseCredentials makes the server refuse all credentials (-115) and cut the connection that has sent them, until it is
// called with false. So does a server that cannot reach what checks them. Connections whose credentials it has taken stay: see
// [Server.CutConnections].
func (s *Server) RefuseCredentials(refuse bool) {
	s.refuse(credentials, refuse)
}

// refusals are what a server refuses of clients that come.
type refusals int

const (
	connections refusals = 1 << iota
	sessions             // see RefuseSessions
	credentials
)

func (s *Server) refuse(what refusals, refuse bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if refuse {
		s.refuses |= what
	} else {
		s.refuses &^= what
	}
}

// Freeze stops the traffic of these sessions, or of all if none is named, in both directions without closing a
// connection, as a network that drops packets. The server's clock runs on, so sessions end, and their clients
// do not notice. A new connection is accepted and gets no answer: any, or, if sessions are named, one that asks for one of
// these. A client that asks for a new session instead gets one. To freeze a client whatever session it has, let it dial
// an address of its own, and use [Listener.Freeze]. [Server.Thaw] ends it.
func (s *Server) Freeze(sessions ...int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozenAll = s.frozenAll || len(sessions) == 0
	for _, id := range sessions {
		s.frozen[id] = true
	}
	s.flowChanged()
}

// Thaw ends what [Server.Freeze] began, for these sessions, or for all if none is named. Delayed traffic
// arrives now.
func (s *Server) Thaw(sessions ...int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range sessions {
		delete(s.frozen, id)
	}
	if len(sessions) == 0 {
		s.frozenAll = false
		clear(s.frozen)
	}
	s.flowChanged()
}

// Pause stops the server as SIGSTOP stops a process: connections stay, but nothing is read, answered or
// expired. Its clock stops too, so no session ends because of the pause. (A real server's clock would jump at
// the end of a pause.) [Server.Resume] ends it.
func (s *Server) Pause() {
	s.mu.Lock()
	defer s.unlock()
	if s.paused.IsZero() {
		s.paused = time.Now()
		s.flowChanged()
		if s.member != nil {
			s.member.cluster.review()
		}
	}
}

// Resume ends what [Server.Pause] began.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.unlock()
	s.resume()
}

// resume makes the time of the pause as if it had not been. s.mu is held.
func (s *Server) resume() {
	if s.paused.IsZero() {
		return
	}
	stood := time.Since(s.paused)
	s.paused = time.Time{}
	s.tracker.shift(stood)
	s.flowChanged()
	if s.member != nil {
		s.member.resumed()
	}
}

// blocked reports whether nothing passes between the server and c's client now. s.mu is held.
func (s *Server) blocked(c *conn) bool {
	return s.frozenAll || !s.paused.IsZero() || s.frozen[c.peer] || c.from != nil && c.from.frozen
}

// flowChanged wakes who waits for a link, and hears what arrived meanwhile. s.mu is held.
func (s *Server) flowChanged() {
	for c := range s.conns {
		c.hold(s.blocked(c))
	}
	close(s.flow)
	s.flow = make(chan struct{})
}

// hold notes whether the link is blocked. What arrived while it was counts from now. Server.mu is held.
func (c *conn) hold(blocked bool) {
	c.blocked.Store(blocked)
	if !blocked && c.unheard.Swap(false) {
		c.heard()
	}
}

// flows waits until something can pass between the server and c's client. It reports false
// when stop is closed or the server ends before.
func (s *Server) flows(c *conn, stop <-chan struct{}) bool {
	for {
		s.mu.Lock()
		blocked, changed := s.blocked(c), s.flow
		s.mu.Unlock()
		if !blocked {
			return true
		}
		select {
		case <-changed:
		case <-stop:
			return false
		case <-s.done:
			return false
		}
	}
}

// lockRunning locks s.mu, once the server is not paused. It reports false, without the lock,
// if the server ends before.
func (s *Server) lockRunning() bool {
	for {
		s.mu.Lock()
		if s.paused.IsZero() {
			return true
		}
		changed := s.flow
		s.mu.Unlock()
		select {
		case <-changed:
		case <-s.done:
			return false
		}
	}
}
