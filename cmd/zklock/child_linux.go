package main

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// endWithUs has the kernel kill the child if we are killed: there would be nobody left to end it when the
// servers give the lock away.
func endWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// adoptOrphans has processes become our children whose parent has died: so we see it when they end, also
// where no init waits for them.
func adoptOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // since Linux 3.4
}

// stopGroup stops our process group, if there is a shell that can have it go on. The runtime would keep its handler
// of SIGTSTP, whatever signal.Reset says; so it is taken away by hand, and put back by handleAgain.
func stopGroup() (handleAgain func()) {
	// The kernel's struct sigaction differs between architectures, but all zero it is SIG_DFL on each.
	var old, zero [128]byte
	sigaction(syscall.SIGTSTP, &zero, &old)
	_ = syscall.Kill(0, syscall.SIGTSTP)
	return func() { sigaction(syscall.SIGTSTP, &old, nil) }
}

func sigaction(s syscall.Signal, action, old *[128]byte) {
	for _, size := range []uintptr{8, 16} { // of a set of signals; 16 on MIPS
		_, _, err := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(old)), size, 0, 0)
		if err == 0 {
			return
		}
	}
}
