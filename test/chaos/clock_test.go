//go:build linux

package chaos

import (
	"syscall"
	"time"
	"unsafe"
)

// now returns the time since the machine was started. It is the same in all processes, never jumps,
// and continues while a process is suspended. Package time reads this clock as well, but keeps its
// instants to the process; x/sys, which has the call, is not worth a dependency.
func now() time.Duration {
	const clockMonotonic = 1
	var ts syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		panic(errno) // every Linux has it
	}
	return time.Duration(ts.Nano())
}
