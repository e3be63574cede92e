package main

import (
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// endWithUs lets the kernel kill the child when zklock is killed: nothing else would end it before
// the servers give the lock to another client.
func endWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// adoptOrphans sets zklock as the parent of orphaned descendants. It can then wait for them, also
// without an init process.
func adoptOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // since Linux 3.4
}

// stopOurselves stops zklock until SIGCONT. In an orphaned process group the kernel ignores that.
func stopOurselves() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	setDefault(syscall.SIGTSTP)
	// A signal to this thread takes effect before this call returns; a signal to the process may be
	// delayed.
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), syscall.SIGTSTP)
}

// setDefault restores the kernel's default action of a signal. signal.Reset would leave the
// runtime's handler in place.
func setDefault(s syscall.Signal) {
	// The kernel's struct sigaction differs between architectures, but all zero it is SIG_DFL on
	// each.
	var zero [128]byte
	for _, size := range []uintptr{8, 16} { // of a set of signals; 16 on MIPS
		if _, _, err := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&zero)), 0, size, 0, 0); err == 0 {
			break
		}
	}
}

// resetJobSignals is called between two commands: Ctrl-Z then stops zklock, and the next command
// does not inherit the ignored SIGTTOU.
func resetJobSignals() {
	for _, s := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGTTOU} {
		signal.Ignore(s) // so that the runtime knows that its handler was removed
		setDefault(s)
	}
}
