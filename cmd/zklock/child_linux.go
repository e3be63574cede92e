package main

import (
	"runtime"
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

// stopOurselves stops us until we get SIGCONT. In a process group that no shell looks after, the kernel ignores that.
func stopOurselves() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// signal.Reset would leave the runtime's handler in place. The kernel's struct sigaction differs between
	// architectures, but all zero it is SIG_DFL on each.
	var zero [128]byte
	for _, size := range []uintptr{8, 16} { // of a set of signals; 16 on MIPS
		if _, _, err := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(syscall.SIGTSTP), uintptr(unsafe.Pointer(&zero)), 0, size, 0, 0); err == 0 {
			break
		}
	}
	// Sent to this thread, it stops us before this returns; sent to the process, any time later.
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), syscall.SIGTSTP)
}
