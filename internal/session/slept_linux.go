package session

import (
	"syscall"
	"time"
	"unsafe"
)

// Linux clocks that differ by the time for which the machine was suspended.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// slept returns how long the machine has been suspended since it was started, if the system says
// so.
func slept() time.Duration {
	for range 10 {
		before, ok1 := clock(clockMonotonic)
		boot, ok2 := clock(clockBoottime)
		after, _ := clock(clockMonotonic)
		if !ok1 || !ok2 {
			return 0
		}
		if after-before < time.Millisecond { // the three reads were not interrupted
			return boot - before
		}
	}
	return 0
}

func clock(id uintptr) (time.Duration, bool) {
	var t syscall.Timespec
	// The call does not block, so the scheduler need not know.
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano()), errno == 0
}
