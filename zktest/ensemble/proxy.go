package ensemble

import (
	"net"
	"sync"
	"time"
)

// proxy is between clients and one server. Its port stays when the server's changes, and it can
// freeze what passes.
type proxy struct {
	listener net.Listener
	target   func() (string, error)
	wg       sync.WaitGroup

	mu       sync.Mutex // guards what follows
	conns    map[net.Conn]struct{}
	frozen   chan struct{} // closed when thawed; nil: not frozen
	refusing bool          // new connections; existing ones continue
	closed   bool
}

func newProxy(target func() (string, error)) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, target: target, conns: make(map[net.Conn]struct{})}
	p.wg.Go(p.accept) // ends when l is closed
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	_ = p.listener.Close()
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.thaw()
	p.wg.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.refuses() {
			_ = client.Close()
			continue
		}
		p.wg.Go(func() { p.serve(client) }) // ends when either side hangs up, or p is closed
	}
}

// serve passes bytes between a client and the server until one of them hangs up.
func (p *proxy) serve(client net.Conn) {
	defer p.forget(client)
	if !p.remember(client) || !p.pass() {
		return
	}
	address, err := p.target()
	if err != nil {
		return
	}
	server, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return
	}
	defer p.forget(server)
	if !p.remember(server) {
		return
	}
	done := make(chan struct{})
	go func() { // ends with the copy below, which closes both
		defer close(done)
		p.copy(server, client)
	}()
	p.copy(client, server)
	<-done
}

// copy passes bytes one way. Then it closes both sides: a half-open connection is of no
// use here.
func (p *proxy) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !p.pass() {
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while the link is frozen. It reports false when the proxy is closed.
func (p *proxy) pass() bool {
	for {
		p.mu.Lock()
		frozen, closed := p.frozen, p.closed
		p.mu.Unlock()
		if frozen == nil || closed {
			return !closed
		}
		<-frozen
	}
}

// freeze holds everything up, in both directions, and closes nothing.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
}

// thaw lets everything through that was held up.
func (p *proxy) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

// open reports whether the link is not frozen.
func (p *proxy) open() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frozen == nil
}

// refuse closes new connections at once, until it is called with false.
func (p *proxy) refuse(refusing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = refusing
}

func (p *proxy) refuses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refusing
}

// cut closes the connections that there are.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) remember(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *proxy) forget(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}
