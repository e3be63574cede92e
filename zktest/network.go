package zktest

import (
	"context"
	"net"
	"time"

	"github.com/gocurator/curator/zktest/internal/wire"
)

// Dial connects to the server in memory and ignores its arguments. It is a zk.Dialer. It fails
// while the server is stopped or refuses connections.
func (s *Server) Dial(string, string, time.Duration) (net.Conn, error) {
	client, server := net.Pipe()
	if err := s.core.Accept(server, nil); err != nil {
		_ = client.Close()
		return nil, err
	}
	return client, nil
}

// DialContext connects to the server in memory, and ignores the network and the address. It has the
// signature of net.Dialer.DialContext. It fails if ctx is done, and while the server is stopped or
// refuses connections.
func (s *Server) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.Dial(network, address, 0)
}

// CutConnections cuts all connections. Sessions remain, and their clients can reconnect.
func (s *Server) CutConnections() {
	s.core.Lock()
	defer s.core.Unlock()
	s.act("cut all connections", "")
	s.core.CutConnections()
}

// RefuseConnections sets whether the server refuses new connections.
func (s *Server) RefuseConnections(refuse bool) { s.refuse(wire.Connections, refuse) }

// RefuseCredentials sets whether the server refuses all credentials (-115) and cuts the connections
// that send them, as if it could not reach its authentication service. Connections whose
// credentials were accepted remain, see [Server.CutConnections].
func (s *Server) RefuseCredentials(refuse bool) { s.refuse(wire.Credentials, refuse) }

// RefuseSessions sets whether the server rejects handshakes and closes their connections, as a
// ClickHouse Keeper without a leader does. Connections with a session remain, see
// [Server.CutConnections].
//
// The reply has the session id -1, the timeout that would be granted, and protocol version 42.
func (s *Server) RefuseSessions(refuse bool) { s.refuse(wire.Sessions, refuse) }

func (s *Server) refuse(what wire.Refusals, refuse bool) {
	s.core.Lock()
	defer s.core.Unlock()
	s.core.Refuse(what, refuse)
	s.faults.sample()
}

// Freeze holds back all packets of these sessions, or of all sessions if none is named, until
// [Server.Thaw]. No connection is closed. The server's clock continues, so sessions expire without
// notice to their clients.
//
// A new connection is accepted and receives no reply. If sessions are named, only a client that
// resumes one of them receives no reply. To freeze a client in any session, give it a separate
// address, and use [Listener.Freeze].
func (s *Server) Freeze(sessions ...int64) {
	s.core.Lock()
	defer s.core.Unlock()
	s.core.Freeze(sessions)
	s.faults.sample()
}

// Thaw ends [Server.Freeze] for these sessions, or for all if none is named, and delivers the
// packets that were held back.
func (s *Server) Thaw(sessions ...int64) {
	s.core.Lock()
	defer s.core.Unlock()
	s.core.Thaw(sessions)
	s.faults.sample()
}

// Pause suspends the server until [Server.Resume], as SIGSTOP suspends a process. Connections stay
// open, but the server reads, answers and expires nothing.
//
// The server's clock stops as well, so no session expires because of the pause. (A real server's
// clock would jump when it resumes.)
func (s *Server) Pause() {
	s.core.Lock()
	defer s.core.Release()
	s.core.Pause()
	s.faults.sample()
}

// Resume continues the server after [Server.Pause].
func (s *Server) Resume() {
	s.core.Lock()
	defer s.core.Release()
	s.core.Resume()
	s.faults.sample()
}
