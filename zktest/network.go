package zktest

import (
	"context"
	"net"
	"time"

	"github.com/gocurator/curator/zktest/internal/wire"
)

// Dial connects to the server without a network, whatever the address. It is a zk.Dialer. It fails
// while the server is stopped or refuses connections.
func (s *Server) Dial(string, string, time.Duration) (net.Conn, error) {
	client, server := net.Pipe()
	if err := s.core.Accept(server, nil); err != nil {
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

// CutConnections cuts all connections. Sessions remain, and their clients may reconnect.
func (s *Server) CutConnections() {
	s.core.Lock()
	defer s.core.Unlock()
	s.core.CutConnections()
}

// RefuseConnections refuses new connections, until it is called with false.
func (s *Server) RefuseConnections(refuse bool) { s.refuse(wire.Connections, refuse) }

// RefuseCredentials refuses all credentials (-115) and cuts the connections that have sent them,
// until it is called with false. A server that cannot reach its authentication service does that.
// Connections whose credentials were accepted remain: see [Server.CutConnections].
func (s *Server) RefuseCredentials(refuse bool) { s.refuse(wire.Credentials, refuse) }

// RefuseSessions rejects handshakes as a ClickHouse Keeper without a leader does, and closes their
// connections, until it is called with false. Connections with a session remain: see
// [Server.CutConnections].
//
// The reply has the session id -1, the timeout that would be granted, and protocol version 42.
func (s *Server) RefuseSessions(refuse bool) { s.refuse(wire.Sessions, refuse) }

func (s *Server) refuse(what wire.Refusals, refuse bool) {
	s.core.Lock()
	defer s.core.Unlock()
	s.core.Refuse(what, refuse)
}

// Freeze drops all packets of these sessions, or of all sessions if none is named, in both
// directions and without closing a connection. The server's clock continues: sessions expire, and
// their clients do not notice. [Server.Thaw] ends it.
//
// A new connection is accepted and receives no reply. If sessions are named, that applies only to a
// client that resumes one of them. To freeze a client in any session, give it an address of its
// own, and use [Listener.Freeze].
func (s *Server) Freeze(sessions ...int64) {
	s.core.Lock()
	defer s.core.Unlock()
	s.core.Freeze(sessions)
}

// Thaw ends [Server.Freeze], for these sessions, or for all if none is named. Delayed packets
// arrive now.
func (s *Server) Thaw(sessions ...int64) {
	s.core.Lock()
	defer s.core.Unlock()
	s.core.Thaw(sessions)
}

// Pause stops the server as SIGSTOP stops a process: connections remain, but nothing is read,
// answered or expired. [Server.Resume] ends it.
//
// The server's clock stops as well, so that no session expires because of the pause. (A real
// server's clock would jump at the end of a pause.)
func (s *Server) Pause() {
	s.core.Lock()
	defer s.core.Release()
	s.core.Pause()
}

// Resume ends [Server.Pause].
func (s *Server) Resume() {
	s.core.Lock()
	defer s.core.Release()
	s.core.Resume()
}
