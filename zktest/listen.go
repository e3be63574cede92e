package zktest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
)

// Listener is another address of a server, besides [Server.Addr], that can be stopped by itself. To a client it
// is one of several servers. All methods are safe for concurrent use.
type Listener struct {
	server *Server
	tls    *tls.Config
	frozen bool // guarded by Server.mu

	// Taken after Server.mu.
	mu       sync.Mutex // guards what follows
	addr     string
	stopped  bool         // by Stop
	listener net.Listener // nil while the address, or the server, is stopped
	conns    map[*listened]struct{}
}

// listened is a connection that came in at a Listener.
type listened struct {
	net.Conn
	from *Listener
}

// Listen adds an address, with TLS if config is not nil, until the server is closed. It stops and restarts with
// the server. A server with [WithInMemory] has no address of its own, and uses that of its first Listener.
// Errors are [ErrClosed], and those of the network.
func (s *Server) Listen(addr string, config *tls.Config) (*Listener, error) {
	l := &Listener{server: s, tls: config, addr: addr, conns: make(map[*listened]struct{})}
	s.mu.Lock()
	s.listeners = append(s.listeners, l)
	s.mu.Unlock()
	err := l.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.listeners = slices.DeleteFunc(s.listeners, func(other *Listener) bool { return other == l })
		return nil, err
	}
	if s.cfg.inMemory && s.listeners[0] == l {
		s.addr = l.Addr()
		s.keeperConfig()
	}
	return l, nil
}

// Addr is the address, as host:port.
func (l *Listener) Addr() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addr
}

// Listening reports whether the address is on the network.
func (l *Listener) Listening() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listener != nil
}

// Stop takes the address off the network: its connections are cut, and new ones refused. Sessions live on, and
// their clients may connect to another address.
func (l *Listener) Stop() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.close()
}

// Restart starts the address again. If the server is stopped, the address starts with the server. Errors are
// [ErrClosed], and those of the network.
func (l *Listener) Restart() error {
	l.mu.Lock()
	l.stopped = false
	l.mu.Unlock()
	return l.open()
}

// Freeze stops the traffic of the address in both directions without closing a connection, as a network that drops
// packets, see [Server.Freeze]. New connections are accepted and get no answer.
func (l *Listener) Freeze() { l.freeze(true) }

// Thaw ends what [Listener.Freeze] began. Delayed traffic arrives now.
func (l *Listener) Thaw() { l.freeze(false) }

func (l *Listener) freeze(frozen bool) {
	s := l.server
	s.mu.Lock()
	defer s.mu.Unlock()
	l.frozen = frozen
	s.flowChanged()
}

// open listens, if nothing keeps it from that.
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.Join(ErrClosed, listener.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addr = listener.Addr().String() // from now on, if any port would do
	if s.stopped || l.stopped || l.listener != nil {
		return listener.Close() // it is to come back later, or is there already
	}
	l.listener = listener
	s.wg.Go(func() { l.take(listener) }) // ends when listener is closed
	return nil
}

// take serves the connections that come in.
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
		case !known: // closed meanwhile
			_ = n.Close()
		case l.tls != nil:
			_ = l.server.accept(tls.Server(c, l.tls), l) // closed if refused: the client hears of it
		default:
			_ = l.server.accept(c, l)
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

// close listens no more, and cuts what came in.
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

// reopen brings the addresses back that were not stopped by themselves.
func (s *Server) reopen() error {
	s.mu.Lock()
	listeners := slices.Clone(s.listeners)
	s.mu.Unlock()
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.open())
	}
	return errors.Join(errs...)
}
