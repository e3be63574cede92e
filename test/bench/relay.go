package main

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// relay forwards the traffic of a client and its server, counts the bytes, and can cut the
// connections.
type relay struct {
	listener net.Listener
	target   string
	delay    time.Duration
	bytes    atomic.Int64
	accepted atomic.Int64 // connections
	ends     sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns map[net.Conn]struct{}
}

// startRelay listens at a host for connections to a server, whose traffic takes delay each way.
func startRelay(ctx context.Context, host, target string, delay time.Duration) (*relay, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	r := &relay{listener: l, target: target, delay: delay, conns: make(map[net.Conn]struct{})}
	r.ends.Go(func() { // ends with close
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			r.accepted.Add(1)
			r.ends.Go(func() { r.connect(ctx, client) })
		}
	})
	return r, nil
}

func (r *relay) address() string { return r.listener.Addr().String() }

// connect passes on until one side closes its connection.
func (r *relay) connect(ctx context.Context, client net.Conn) {
	defer client.Close()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", r.target)
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	r.conns[client], r.conns[server] = struct{}{}, struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, client)
		delete(r.conns, server)
	}()
	var wg sync.WaitGroup
	wg.Go(func() { r.pass(server, client) })
	r.pass(client, server)
	wg.Wait()
}

// pass copies data, and closes both connections at the end.
func (r *relay) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	counting := byteCounter{to, &r.bytes}
	if r.delay > 0 {
		passLater(counting, from, r.delay)
		return
	}
	_, _ = io.Copy(counting, from) // the error is the end of one of them
}

// byteCounter counts written bytes.
type byteCounter struct {
	to io.Writer
	n  *atomic.Int64
}

func (c byteCounter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// cut closes all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.conns {
		conn.Close()
	}
}

func (r *relay) close() {
	r.listener.Close()
	r.cut()
	r.ends.Wait()
}

// relays starts relays to the first server, where containers reach them.
func (s *servers) relays(ctx context.Context, n int) (all []*relay, err error) {
	host, err := s.host(ctx)
	if err != nil {
		return nil, err
	}
	for range n {
		r, err := startRelay(ctx, host, s.addresses[0], 0)
		if err != nil {
			for _, r := range all {
				r.close()
			}
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}
