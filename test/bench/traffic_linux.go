package main

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// moved returns the number of bytes of a connection that were received, or sent and acknowledged.
func moved(conn syscall.RawConn) (n int64) {
	_ = conn.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = int64(info.Bytes_acked + info.Bytes_received)
		}
	})
	return n
}

// resident returns the resident memory of this process in bytes.
func resident() (int64, error) {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var size, pages int64
	_, err = fmt.Sscan(string(data), &size, &pages)
	return pages * int64(os.Getpagesize()), err
}
