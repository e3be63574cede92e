//go:build linux

package interop

import (
	"time"

	"golang.org/x/sys/unix"
)

// now is CLOCK_MONOTONIC, which Java's System.nanoTime reads as well, in all containers of a
// machine.
func now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every Linux has it
	}
	return time.Duration(ts.Nano())
}
