//go:build unix

package ensemble

import "syscall"

// ended reports whether no process has this id.
func ended(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }
