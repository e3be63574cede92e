package zktest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/gocurator/curator/zktest/internal/wire"
)

// Listener is an additional address of a server. It can be stopped separately, and looks like
// another server to clients. All methods are safe for concurrent use.
type Listener struct {
	server *Server
	tls    *tls.Config
	route  wire.Route // guarded by the server's lock

	// Taken after the server's lock.
	mu       sync.Mutex // guards what follows
	addr     string
	stopped  bool         // Stop was called
	listener net.Listener // nil while the address, or the server, is stopped
	conns    map[*listened]struct{}
}

// listened is a connection of a Listener.
type listened struct {
	net.Conn
	from *Listener
}

// Listen adds an address, with TLS if config is not nil. The address stops and restarts with the
// server. Listen returns [ErrClosed] if the server is closed, and another error if it cannot
// listen.
//
// A server with [WithInMemory] uses the address of its first Listener as [Server.Addr].
func (s *Server) Listen(addr string, config *tls.Config) (*Listener, error) {
	l := &Listener{server: s, tls: config, addr: addr, conns: make(map[*listened]struct{})}
	s.core.Lock()
	s.listeners = append(s.listeners, l)
	s.core.Unlock()
	err := l.open()
	s.core.Lock()
	defer s.core.Unlock()
	if err != nil {
		s.listeners = slices.DeleteFunc(s.listeners, func(other *Listener) bool { return other == l })
		return nil, err
	}
	if s.inMemory && s.listeners[0] == l {
		s.core.SetAddress(l.Addr())
		s.keeperConfig()
	}
	return l, nil
}

// Addr returns the address as host:port.
func (l *Listener) Addr() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addr
}

// Listening reports whether the address accepts connections.
func (l *Listener) Listening() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listener != nil
}

// Stop cuts the connections of the address and refuses new ones. Sessions remain, and their clients
// can use another address.
func (l *Listener) Stop() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.server.act("stop address "+l.Addr(), "")
	l.close()
}

// Restart accepts connections again, at once or when a stopped server restarts. It returns
// [ErrClosed] if the server is closed, and another error if it cannot listen.
func (l *Listener) Restart() error {
	l.mu.Lock()
	l.stopped = false
	l.mu.Unlock()
	return l.open()
}

// Freeze holds back all packets of the address until [Listener.Thaw]. No connection is closed. New
// connections are accepted and receive no reply, and sessions expire without notice to their
// clients.
func (l *Listener) Freeze() { l.freeze(true) }

// Thaw ends [Listener.Freeze], and delivers the packets that were held back.
func (l *Listener) Thaw() { l.freeze(false) }

func (l *Listener) freeze(frozen bool) {
	s := l.server
	s.core.Lock()
	defer s.core.Unlock()
	s.core.FreezeRoute(&l.route, frozen)
	s.faults.sample()
}

// open listens, unless the address or the server is stopped.
func (l *Listener) open() error {
	l.mu.Lock()
	addr, here := l.addr, l.listener != nil
	l.mu.Unlock()
	if here {
		return nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("zktest: %w", err)
	}
	s := l.server
	s.core.Lock()
	defer s.core.Unlock()
	if s.core.Closed() {
		return errors.Join(ErrClosed, listener.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addr = listener.Addr().String() // from now on, if any port would do
	if s.core.Stopped() || l.stopped || l.listener != nil {
		return listener.Close() // it starts later, or has started already
	}
	l.listener = listener
	s.core.Go(func() { l.take(listener) }) // ends when listener is closed
	return nil
}

// take serves new connections.
func (l *Listener) take(listener net.Listener) {
	for {
		n, err := listener.Accept()
		if err != nil {
			return
		}
		c := &listened{n, l}
		l.mu.Lock()
		if l.listener == listener {
			l.conns[c] = struct{}{}
		}
		known := l.listener == listener
		l.mu.Unlock()
		switch {
		case !known: // closed in between
			_ = n.Close()
		case l.tls != nil:
			// A refused connection is closed, which the client notices.
			_ = l.server.core.Accept(tls.Server(c, l.tls), &l.route)
		default:
			_ = l.server.core.Accept(c, &l.route)
		}
	}
}

// Close ends the connection.
func (c *listened) Close() error {
	c.from.mu.Lock()
	delete(c.from.conns, c)
	c.from.mu.Unlock()
	return c.Conn.Close()
}

// close stops listening, and cuts all connections of the address.
func (l *Listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener == nil {
		return
	}
	_ = l.listener.Close()
	l.listener = nil
	for c := range l.conns {
		_ = c.Conn.Close()
	}
	clear(l.conns)
}

// reopen starts the addresses again that were not stopped by themselves.
func (s *Server) reopen() error {
	s.core.Lock()
	listeners := slices.Clone(s.listeners)
	s.core.Unlock()
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.open())
	}
	return errors.Join(errs...)
}
