package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// moved is how many bytes of a connection have been received, or sent and acknowledged.
func moved(conn syscall.RawConn) (n int64) {
	_ = conn.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = int64(info.Bytes_acked + info.Bytes_received)
		}
	})
	return n
}
