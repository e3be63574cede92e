package main

import (
	"net"
	"sync"
	"syscall"
)

// traffic counts the bytes of connections with the counters of the kernel. A wrapper around the
// connection would slow this library down, which writes to the socket directly.
type traffic struct {
	mu    sync.Mutex // guards the fields below
	conns []syscall.RawConn
}

// add adds the connection that a dialer returned, and returns the same results.
func (t *traffic) add(conn net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			t.mu.Lock()
			t.conns = append(t.conns, raw)
			t.mu.Unlock()
		}
	}
	return conn, nil
}

// bytes returns the number of bytes sent and received on the open connections, or 0 if it is
// unknown.
func (t *traffic) bytes() (n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, conn := range t.conns {
		n += moved(conn)
	}
	return n
}
