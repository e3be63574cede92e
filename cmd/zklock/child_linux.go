package main

import (
	"os/signal"
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
	setDefault(syscall.SIGTSTP)
	// Sent to this thread, it stops us before this returns; sent to the process, any time later.
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), syscall.SIGTSTP)
}

// setDefault has the kernel do with a signal what it does by default. signal.Reset would leave the runtime's handler in place.
func setDefault(s syscall.Signal) {
	// The kernel's struct sigaction differs between architectures, but all zero it is SIG_DFL on each.
	var zero [128]byte
	for _, size := range []uintptr{8, 16} { // of a set of signals; 16 on MIPS
		if _, _, err := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&zero)), 0, size, 0, 0); err == 0 {
			break
		}
	}
}

// resetJobSignals is called between two commands: Ctrl-Z stops us while there is none, and the next one does not inherit that we
// ignore SIGTTOU.
func resetJobSignals() {
	for _, s := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGTTOU} {
		signal.Ignore(s) // so that the runtime knows that its handler is not there
		setDefault(s)
	}
}
